// What the tests of the page ask it, in its own tab.
({
  /** Let every view be drawn, on the screen or not. */
  show() {
    document.querySelectorAll("section").forEach(it => it.style.setProperty("content-visibility", "visible"));
  },

  /** Open, click, hover and choose everything, at most 400 of a kind. */
  touch() {
    const all = selector => [...document.querySelectorAll(selector)].slice(0, 400);
    const point = (it, kind) => it.dispatchEvent(new PointerEvent(kind, {bubbles: true, clientX: 400, clientY: 300}));
    all("summary").forEach(it => it.click());
    all("button, [role=button], [data-s]").forEach(it => it.dispatchEvent(new MouseEvent("click", {bubbles: true})));
    all("[data-r], [data-row], canvas").forEach(it => ["pointerover", "pointermove", "pointerleave"].forEach(kind => point(it, kind)));
    all("select").forEach(it => {
      it.value = it.options[it.options.length - 1].value;
      it.dispatchEvent(new Event("change", {bubbles: true}));
    });
    document.activeElement.blur();
  },

  /** Texts whose contrast with the ground behind them is less than 4.5. */
  pale() {
    const parts = text => (text.match(/[\d.]+/g) ?? []).map(Number), clear = it => it.length === 4 && it[3] < 1;
    const linear = x => ((x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode, own = text.parentElement;
      if (!text.textContent.trim() || !own.checkVisibility() || own.closest("svg, script, option, .hidden")) continue;
      let ground = own;
      while (ground && clear(parts(getComputedStyle(ground).backgroundColor))) ground = ground.parentElement;
      const one = light(parts(getComputedStyle(own).color)), other = light(parts(getComputedStyle(ground ?? document.body).backgroundColor));
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      if (ratio < 4.49) found.push(`${ratio.toFixed(2)} ${text.textContent.trim().slice(0, 30)}`);
    }
    return found;
  },

  /** Texts that are set below 11.5 pixels. */
  tiny() {
    const written = it => [...it.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    return [...document.querySelectorAll("body *")].filter(it => written(it) && it.checkVisibility() && !it.closest("script"))
      .filter(it => parseFloat(getComputedStyle(it).fontSize) < 11.5).map(it => it.textContent.slice(0, 30));
  },

  /** Things that can be pressed and have no name, and pictures without one. */
  nameless() {
    const named = it => it.getAttribute("aria-label") || it.textContent.trim() || it.labels?.length;
    return [...document.querySelectorAll("button, a, select, input, textarea, [role]")].filter(it => it.checkVisibility() && !named(it)).map(it => it.outerHTML.slice(0, 80));
  },

  /** Milliseconds of script for each of some actions, the fastest of six. */
  times() {
    const timed = act => Math.min(...[0, 1, 2, 3, 4, 5].map(n => { const start = performance.now(); act(n); return performance.now() - start; }));
    const canvas = document.querySelector(".matrix canvas"), box = canvas.getBoundingClientRect();
    const hover = n => canvas.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: box.left + 40 + 20 * n, clientY: box.top + 60 + 20 * n}));
    const minis = [...document.querySelectorAll(".mini")], tokens = [...document.querySelectorAll(".answer .token")], switches = [...document.querySelectorAll(".switch")];
    const press = () => document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "]", bubbles: true}));
    const acts = {hover, head: n => minis[n + 3].click(), token: n => tokens[n + 5].click(), part: n => switches[n + 1].click(), key: press};
    return Object.fromEntries(Object.entries(acts).map(([name, act]) => [name, timed(act)]));
  },
})
