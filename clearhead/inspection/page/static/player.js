// A button that plays: one value after the other until the last. Space does the same, see keys.js.

import {button} from "./dom.js";

/** Play from `now()` to `last`, a value every `pace` milliseconds; at the end, from the first again. With reduced motion, show only the next. */
export function makePlayer({last, now, show, pace, signal}) {
  let timer = 0, shown = 0;
  const own = button("Play", () => player.toggle(), {class: "button play"}), turn = value => { shown = value; show(value); };
  const player = {
    button: own,
    get playing() { return timer > 0; },
    toggle() {
      if (timer) return player.stop();
      const next = () => { turn(now() < last ? now() + 1 : 0); if (now() >= last) player.stop(); };
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) timer = setInterval(next, pace);
      if (timer) own.textContent = "Pause";
      next();
    },
    stop() {
      clearInterval(timer);
      timer = 0;
      own.textContent = "Play";
    },
    /** Stop if another value was chosen meanwhile. */
    follow() { if (timer && now() !== shown) player.stop(); },
  };
  signal.addEventListener("abort", player.stop);
  return player;
}
