// Keys, and the list of them.

import {dialog, h, modified} from "./dom.js";

const KEYS = [["← →", "token"], ["Shift ↑ ↓", "layer"], ["[ ]", "head"], [", .", "step"], ["1–7", "view"], ["Space", "play or pause"], ["Esc", "clear"], ["T", "theme"], ["?", "these keys"]];

const each = () => KEYS.map(([keys, what]) => h("span", keys.split(" ").map(it => h("kbd", it)), ` ${what}`));

/** The keys as a line of the foot. */
export const keyLine = () => h("p.keys", each());

const keyList = () => dialog("Keys", keyLine());

/** Listen to the keys until `signal` aborts. */
export function listen(page, state, {views, go, toggleTheme, play, signal}) {
  const turn = (value, by, n) => (value + by + n) % n;
  addEventListener("keydown", event => {
    if (modified(event) || event.target.closest("input:not([type=range]), textarea, select, dialog, audio")) return;
    if (event.key !== " " && event.target.closest("input")) return; // a slider has keys of its own
    const {t, l, h: head, k, step} = state.now, layer = k && page.attention[k], n = page.answer.length;
    const act = {ArrowRight: () => state.set({t: turn(t, 1, n), s: null}), ArrowLeft: () => state.set({t: turn(t, -1, n), s: null}),
      "]": () => layer && state.set({h: turn(head, 1, layer[l].heads)}), "[": () => layer && state.set({h: turn(head, -1, layer[l].heads)}),
      ".": () => state.set({step: Math.min(step + 1, page.lastStep)}), ",": () => state.set({step: Math.max(step - 1, 0)}),
      Escape: () => state.set({s: null, from: null, to: null, off: ""}), "?": keyList, t: toggleTheme, T: toggleTheme}[event.key];
    const updown = {ArrowUp: 1, ArrowDown: -1}[event.key];
    if (event.key === " ") {
      if (event.target.closest("button, a, summary, [role=button]") || !play(event.target)) return;
    } else if (act && !(event.shiftKey && event.key.startsWith("Arrow"))) act();
    else if (event.shiftKey && updown && layer) state.set({l: turn(l, updown, layer.length)});
    else if (/^[1-7]$/.test(event.key) && views[Number(event.key) - 1]) go(views[Number(event.key) - 1]);
    else return;
    event.preventDefault();
  }, {signal});
}
