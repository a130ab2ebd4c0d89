// What each layer would have said, and which parts spoke for what was said.

import {asTable, g, h, picture, table} from "./dom.js";
import {css, inkOn, shade} from "./colours.js";
import {pieceName} from "./data.js";
import {logp, ordinal, percent, signed} from "./numbers.js";
import {partKind, partName} from "./parts.js";

const PARTS = 24; // of a word's reasons to show

export function layers(page, state) {
  const lens = h("div", {class: "scroll", tabindex: 0, role: "group", "aria-label": "Predictions of each layer, scrolls sideways"}), why = h("div", {class: "why"});
  const node = h("section", {id: "layers"}, h("div", {class: "head"}, h("h2", {}, "Layers"),
    h("p", {}, page.lens ? "What each layer would have said, read by the model's own last projection" : "Which parts spoke for what was said")), page.lens ? lens : null, page.why ? why : null);

  function drawLens() {
    const rows = [...page.lens].reverse(), at = page.begins, n = page.answer.length, t = state.now.t;
    const cell = (layer, i) => {
      const p = layer.probabilities[at + i][0], fill = shade(p / 2), rank = layer.ranks[at + i], hit = rank === 0;
      const td = h("td", {class: i === t ? "column" : "", title: `${pieceName(layer.tokens[at + i][0])}, ${percent(p)}; what was said is ${ordinal(rank + 1)}`},
        h("span", {class: `own${hit ? " hit" : ""}`, dir: "auto"}, pieceName(layer.tokens[at + i][0])), h("small", {}, hit ? `★ ${percent(p)}` : `${percent(p)} · ${ordinal(rank + 1)}`));
      td.style.setProperty("background", css(fill));
      td.style.setProperty("color", inkOn(fill));
      return td;
    };
    lens.replaceChildren(h("table", {class: "lens"}, h("caption", {class: "hidden"}, "Likeliest token of each layer at each place"),
      h("thead", {}, h("tr", {}, h("th", {scope: "col"}, h("span", {class: "hidden"}, "layer")), page.answer.map((it, i) => h("th", {scope: "col", class: `${it.own ? "own" : ""}${i === t ? " column" : ""}`, dir: "auto"}, it.name)))),
      h("tbody", {}, rows.map(layer => h("tr", {}, h("th", {scope: "row"}, layer.name), [...Array(n).keys()].map(i => cell(layer, i)))))));
  }

  function drawWhy() {
    const it = page.why[page.writes ? page.begins + state.now.t : 0];
    if (!it) return why.replaceChildren(h("p", {class: "note"}, "Choose the first token of a word to see which parts spoke for it."));
    const parts = [...it.parts].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, PARTS).sort((a, b) => b[1] - a[1]), largest = Math.max(...parts.map(([, v]) => Math.abs(v))) || 1;
    const half = 170, row = 20, width = 190 + 2 * half + 90, mid = 190 + half;
    const bars = parts.flatMap(([name, v], i) => { const size = (half * Math.abs(v)) / largest, y = i * row; return [
      g("rect", {x: 4, y: y + 4, width: 10, height: 10, rx: 2, class: `key ${partKind(name)}`}), g("text", {x: 20, y: y + 14, class: "name"}, partName(name)),
      g("rect", {x: v < 0 ? mid - size : mid, y: y + 4, width: Math.max(1, size), height: 11, rx: 2, class: v < 0 ? "against" : "for"}), g("text", {x: width - 4, y: y + 14, "text-anchor": "end", class: "name"}, signed(v))]; });
    why.replaceChildren(h("h3", {}, "Why ", h("b", {class: "own", dir: "auto"}, pieceName(it.said)), h("span", {}, `its logit is ${signed(it.logit)}; the parts sum to it within ${it.error.toExponential(0).replace("-", "−")}${it.parts.length > PARTS ? `; the ${PARTS} largest of ${it.parts.length} are drawn` : ""}`)),
      h("div", {class: "scroll"}, picture(width, parts.length * row + 6, `Parts that spoke for ${pieceName(it.said)}`, g("path", {d: `M${mid} 0V${parts.length * row}`, class: "axis"}), bars)),
      asTable("All parts as a table", () => table("Contributions", ["Part", "Logit"], it.parts.map(([name, v]) => [name, signed(v, 4)]))));
  }
  return {node, fit() {}, update(now, before) {
    if (before && now.t === before.t && now.theme === before.theme) return;
    if (page.lens) drawLens();
    if (page.why) drawWhy();
  }};
}
