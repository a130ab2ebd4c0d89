// How the answer, the heads and the layers formed during training: one frame for each evaluation.

import {g, h, picture} from "./dom.js";
import {css, shade} from "./colours.js";
import {count} from "./numbers.js";

export function film(page, state) {
  if (!page.film?.length) {
    return {node: h("section", {id: "film"}, h("div", {class: "head"}, h("h2", {}, "Training film")), h("div", {class: "none"},
      h("p", {}, "This run was not watched, so there is nothing to play. Train again with a text to watch, and its heads, its layers and the loss will be here, one frame for each evaluation:"),
      h("pre", {}, `clearhead train DATA --out MODEL --watch "${page.source.filter(it => it.own).map(it => it.name).join(" ").slice(0, 60)}"`))), fit() {}, update() {}};
  }
  const frames = page.film, curve = h("div", {class: "scroll"}), shown = h("div", {class: "frame"});
  const slider = h("input", {type: "range", min: 0, max: frames.length - 1, value: frames.length - 1, "aria-label": "Evaluation", oninput: () => state.set({frame: Number(slider.value)})});
  const node = h("section", {id: "film"}, h("div", {class: "head"}, h("h2", {}, "Training film"), h("p", {}, `${frames.length} evaluations of “${frames[0].text}”`)), curve, slider, shown);

  function draw(now) {
    const at = Math.min(now.frame ?? frames.length - 1, frames.length - 1), it = frames[at], losses = frames.map(f => f.scores.loss).map(x => (Number.isFinite(x) ? x : null));
    const known = losses.filter(x => x !== null), top = Math.max(...known, 1e-9), x = i => 10 + (i * 780) / Math.max(1, frames.length - 1), y = v => 8 + 74 * (1 - v / top);
    slider.value = at;
    if (known.length) curve.replaceChildren(picture(800, 96, `Loss from ${known[0].toFixed(2)} to ${known.at(-1).toFixed(2)}`, g("path", {d: losses.map((v, i) => (v === null ? "" : `${i && losses[i - 1] !== null ? "L" : "M"}${x(i)} ${y(v)}`)).join(""), class: "line"}),
      g("path", {d: `M${x(at)} 0V92`, class: "cursor"})));
    const maps = Object.entries(it.weights).map(([name, heads]) => h("div", {class: "strip"}, h("span", {}, name), heads.map(weights => {
      const canvas = h("canvas", {width: weights[0].length, height: weights.length, role: "img", "aria-label": name}), context = canvas.getContext("2d");
      weights.forEach((row, r) => row.forEach((w, c) => { context.fillStyle = css(shade(w)); context.fillRect(c, r, 1, 1); }));
      return canvas;
    })));
    shown.replaceChildren(h("p", {}, h("small", {}, `step ${count(it.step)}  ${Object.entries(it.scores).map(([name, v]) => `${name.replace("_", " ")} ${Number(v).toPrecision(4)}`).join("  ")}`)), h("p", {class: "own", dir: "auto"}, it.answer || "■ end"), ...maps);
  }
  return {node, fit() {}, update(now, before) { if (!before || now.frame !== before.frame || now.theme !== before.theme) draw(now); }};
}
