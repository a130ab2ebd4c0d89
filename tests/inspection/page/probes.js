// What the tests of the page ask it, in its own tab.
({
  /** Let every view be drawn, on the screen or not. */
  show() {
    document.querySelectorAll("section").forEach(it => it.style.setProperty("content-visibility", "visible"));
  },

  /** Open, click, hover and choose everything; of controls of one sort in one view, at most eight. */
  touch() {
    const all = selector => {
      const kinds = new Map();
      for (const it of document.querySelectorAll(selector)) {
        const kind = `${it.tagName} ${it.getAttribute("class")} ${it.closest("section, aside, header, footer")?.id}`;
        kinds.set(kind, [...(kinds.get(kind) ?? []), it]);
      }
      return [...kinds.values()].flatMap(some => some.filter((_, i) => i === some.length - 1 || i % Math.ceil(some.length / 7) === 0));
    };
    const point = (it, kind) => it.dispatchEvent(new PointerEvent(kind, {bubbles: true, clientX: 400, clientY: 300}));
    all("summary").forEach(it => it.click());
    all("button, [role=button], [data-s]").forEach(it => it.dispatchEvent(new MouseEvent("click", {bubbles: true})));
    all("[data-r], [data-row], canvas").forEach(it => ["pointerover", "pointermove", "pointerleave"].forEach(kind => point(it, kind)));
    all("select").forEach(it => {
      it.value = it.options[it.options.length - 1].value;
      it.dispatchEvent(new Event("change", {bubbles: true}));
    });
    document.querySelectorAll("dialog").forEach(it => it.close());
    document.activeElement.blur();
  },

  /** Texts whose contrast with what is behind them is less than 4.5: the grounds of their elements, and in a drawing the shapes below. */
  pale() {
    const brush = document.createElement("canvas").getContext("2d", {willReadFrequently: true}), known = new Map();
    const rgba = text => {
      if (!known.has(text)) {
        brush.clearRect(0, 0, 1, 1);
        brush.fillStyle = text;
        brush.fillRect(0, 0, 1, 1);
        known.set(text, [...brush.getImageData(0, 0, 1, 1).data].map((it, i) => (i < 3 ? it : it / 255)));
      }
      return known.get(text);
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((it, i) => it * a + below[i] * (1 - a));
    const linear = x => ((x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const drawn = new Map(), found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const shapes = svg => {
      if (!drawn.has(svg)) drawn.set(svg, [...svg.querySelectorAll("rect, circle")].map(it => [it, getComputedStyle(it), it.getBoundingClientRect()]).filter(it => !/none|url/.test(it[1].fill)));
      return drawn.get(svg);
    };
    const ground = it => (it ? over(rgba(getComputedStyle(it).backgroundColor), ground(it.parentElement)) : [255, 255, 255]);
    while (walker.nextNode()) {
      const text = walker.currentNode, own = text.parentElement;
      if (!text.textContent.trim() || !own.checkVisibility() || own.closest("script, option, .hidden")) continue;
      const svg = own.closest("svg"), style = getComputedStyle(own), box = own.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
      let below = ground(svg ?? own);
      for (const [it, other, at] of svg ? shapes(svg) : []) {
        const covers = at.left <= x && x <= at.right && at.top <= y && y <= at.bottom, [r, g, b, a] = rgba(other.fill);
        if (covers && it.compareDocumentPosition(own) & Node.DOCUMENT_POSITION_FOLLOWING) below = over([r, g, b, a * other.fillOpacity], below);
      }
      const one = light(over(rgba(svg ? style.fill : style.color), below)), other = light(below);
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      if (ratio < 4.49) found.push(`${ratio.toFixed(2)} ${text.textContent.trim().slice(0, 30)}`);
    }
    return found;
  },

  /** Texts that are set below 11.5 pixels, or drawn so in a scaled picture. */
  tiny() {
    const scale = it => { const {a = 1, b = 0} = it.getScreenCTM?.() ?? {}; return Math.hypot(a, b); };
    const written = it => [...it.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    return [...document.querySelectorAll("body *")].filter(it => written(it) && it.checkVisibility() && !it.closest("script"))
      .filter(it => parseFloat(getComputedStyle(it).fontSize) * scale(it) < 11.45).map(it => it.textContent.slice(0, 30));
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

  /** Texts that leave the window or their box, where nothing scrolls. */
  cut() {
    const found = [];
    for (const it of document.querySelectorAll("body *")) {
      if (!it.checkVisibility() || it.closest(".hidden, .scroll, nav, pre, script") || (it.closest("svg") && it.tagName !== "text")) continue;
      const {left, right} = it.getBoundingClientRect(), clips = getComputedStyle(it).overflowX !== "visible" && it.clientWidth && it.scrollWidth > it.clientWidth + 1;
      if (clips || left < -1 || right > innerWidth + 1) found.push(`${it.tagName} ${it.textContent.slice(0, 30)}`);
    }
    return found;
  },

  /** What can be pressed and is smaller than a finger. The patches of a picture may be, if buttons lead from one to the next. */
  small() {
    const led = [...document.querySelectorAll(".pick .steps button")].some(it => it.checkVisibility());
    return [...document.querySelectorAll("button, a, select, summary, input, textarea, [role=button]")].filter(it => it.checkVisibility() && !it.closest(".hidden") && !(led && it.matches(".patch"))).map(it => [it, it.getBoundingClientRect()])
      .filter(([, {width, height}]) => width < 43.9 || height < 43.9).map(([it, {width, height}]) => `${width}x${height} ${it.outerHTML.slice(0, 80)}`);
  },

  /** What a mouse can press and the keyboard can't, groups that no Tab reaches, and stops whose focus isn't seen. Ask after a key was pressed. */
  unreachable() {
    const found = [];
    for (const it of document.querySelectorAll("body *")) {
      if (!it.checkVisibility() || getComputedStyle(it).cursor !== "pointer") continue;
      const stop = it.closest("button, a, select, summary, input, [tabindex]");
      if (!stop) found.push(`no stop: ${it.outerHTML.slice(0, 80)}`);
      else if (stop.getAttribute("tabindex") === "-1" && !stop.closest("[role=group]")?.querySelector("[tabindex='0']")) found.push(`no Tab: ${stop.outerHTML.slice(0, 80)}`);
    }
    for (const it of document.querySelectorAll("button, a, select, summary, input, [tabindex]")) {
      if (!it.checkVisibility()) continue;
      it.focus({preventScroll: true});
      const {outlineStyle, outlineWidth} = getComputedStyle(it);
      if (document.activeElement !== it || outlineStyle === "none" || parseFloat(outlineWidth) < 2) found.push(`no focus: ${it.outerHTML.slice(0, 80)}`);
    }
    return found;
  },

  /** Pictures that don't say what they show, and views with pictures and no table. */
  untold() {
    const pictures = [...document.querySelectorAll("[role=img]")].filter(it => it.checkVisibility()), views = new Set(pictures.map(it => it.closest("section")).filter(it => it && it.id !== "sentence"));
    return [...pictures.filter(it => !/\d/.test(it.getAttribute("aria-label"))).map(it => it.outerHTML.slice(0, 80)), ...[...views].filter(it => !it.querySelector("details.table")).map(it => it.id)];
  },

  /** Colours that aren't the theme's, nor a step of one of its two scales. */
  strange() {
    const root = getComputedStyle(document.documentElement), names = [...document.styleSheets[0].cssRules[0].style].filter(it => it.startsWith("--")), hex = it => [1, 3, 5].map(at => parseInt(it.slice(at, at + 2), 16));
    const values = Object.fromEntries(names.map(it => [it, root.getPropertyValue(it).trim()]).filter(it => /^#[0-9a-f]{3,6}$/.test(it[1])).map(([name, it]) => [name, hex(it.length === 4 ? it.replace(/[0-9a-f]/g, "$&$&") : it)]));
    const scale = [0, 1, 2, 3, 4, 5, 6].map(it => values[`--s${it}`]), ways = [...scale.slice(1).map((it, i) => [scale[i], it]), [scale[0], values["--for"]], [scale[0], values["--against"]]];
    const near = (a, b) => a.every((it, i) => Math.abs(it - b[i]) <= 2), between = (one, other, it) => { const wide = one.map((a, i) => other[i] - a), at = wide.reduce((sum, d, i) => sum + d * (it[i] - one[i]), 0) / wide.reduce((sum, d) => sum + d * d, 0); return at >= 0 && at <= 1 && near(it, one.map((a, i) => a + at * wide[i])); };
    const plain = [...Object.values(values), [0, 0, 0], [255, 255, 255]], good = it => plain.some(own => near(own, it)) || ways.some(([one, other]) => between(one, other, it)), found = new Set();
    for (const it of document.querySelectorAll("body, body *")) {
      if (!it.checkVisibility() || it.closest("script, .hidden")) continue;
      const style = getComputedStyle(it), own = it.closest("svg") ? [style.fill, style.stroke] : [style.color, style.backgroundColor, style.borderTopStyle === "none" ? "" : style.borderTopColor];
      for (const text of own) { const [r, g, b, a = 1] = (text.match(/^rgba?\((.*)\)$/)?.[1] ?? "0,0,0,0").split(",").map(Number); if (a && !good([r, g, b])) found.add(`${text} ${it.outerHTML.slice(0, 60)}`); }
    }
    return [...found];
  },

  /** Choose tokens of the answer, the third one last: milliseconds until it's marked, with layout, the fastest of twelve, and where it's marked. */
  chosen() {
    const tokens = document.querySelectorAll(".answer .token"), token = tokens[2], name = token.firstChild.textContent;
    const time = Math.min(...Array.from({ length: 12 }, (_, i) => 1 + (i % 2)).map(n => {
      const start = performance.now();
      tokens[n].click();
      document.body.getBoundingClientRect();
      return performance.now() - start;
    }));
    const text = selector => document.querySelector(selector)?.textContent;
    return [time, name, token.getAttribute("aria-pressed"), text(".card h2"), text(".lens th.column"), text("#words th.column"), document.querySelectorAll("#decoding .node.on").length, [...document.querySelectorAll(".mini[data-k='decoder.cross'] .tick")].every(it => !it.hidden)];
  },

  /** Choose each token of the answer: the sentence, with its names in brackets, and the card. */
  walk() {
    const marked = node => [...node.childNodes].map(it => (it.nodeName === "B" ? `[${it.textContent}]` : it.textContent)).join("");
    const text = selector => document.querySelector(selector)?.textContent ?? null, tokens = [...document.querySelectorAll(".answer .token")];
    const cells = block => [...(block.querySelector(".bars")?.children ?? [])].map(it => it.textContent).filter(it => it);
    const read = () => ({
      say: marked(document.querySelector(".say")), name: text(".card h2"), sub: text(".card .sub"), rank: document.querySelector(".card .ranks")?.getAttribute("aria-label") ?? null,
      drawn: [...document.querySelectorAll(".sampling .number")].map(it => it.textContent),
      blocks: Object.fromEntries([...document.querySelectorAll(".card .block")].map(it => [it.querySelector("h3").firstChild.textContent, cells(it)])),
    });
    return tokens.length ? tokens.map(it => { it.click(); return read(); }) : [read()];
  },

  /** For each key of the chosen row: the weight and the score that the page prints. */
  scores() {
    const cells = [...document.querySelectorAll(".matrix [data-r='2']")];
    return cells.map(it => {
      it.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
      const said = document.querySelector(".full figcaption").textContent.replaceAll("−", "-");
      return [Number(said.match(/makes it ([\d.]+)/)[1]), Number(said.match(/score of ≈?(-?[\d.]+)/)[1])];
    });
  },
})
