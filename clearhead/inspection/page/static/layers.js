// What each layer would have predicted, and which parts contributed to one word and not to another.

import {around, asTable, h, label, line, markColumn, path, picture, rect, scroller, section, shownColumns} from "./dom.js";
import {filled, shade} from "./colours.js";
import {choices, contributions, logitOf, saidAt, whyRow} from "./data.js";
import {nameAfter} from "./names.js";
import {bySize, ordinal, percent, signed} from "./numbers.js";
import {layerName, partKind, partName, partTitle} from "./parts.js";

const PARTS = 24; // of a word's reasons to draw
const LAYERS = 12; // of the lens to show at first

export function layers(page, state) {
  const lens = scroller("Predictions of each layer, scrolls sideways"), why = h("div.why");
  const node = section("layers", "Layers", page.lens ? "What each layer would have predicted, using the model’s final projection. ★: the same as the answer; otherwise the chosen token’s rank" : `Which parts contributed to the ${page.number ? "number" : page.labels ? "chosen label" : "chosen token"}`, null,
  page.lens ? lens : null, page.residuals?.length > 1 ? norms(page) : null, page.why ? why : null);
  const chosen = {t: null, one: 0, other: null};
  let drawn = null; // the first column and the theme of the lens

  function drawLens({t, theme}) {
    const rows = [...page.lens].reverse(), at = page.begins, places = around(t, page.answer.length), key = `${places[0]} ${theme}`;
    const name = it => layerName(it.name);
    const cell = (layer, i) => {
      const text = nameAfter(() => page.tokens.outputs.slice(0, at + i), layer.tokens[at + i][0]), p = layer.probabilities[at + i][0], rank = layer.ranks[at + i], hit = rank === 0;
      return h("td", {"data-t": i, style: filled(shade(p / 2)), title: `${name(layer)}: ${text}, ${percent(p)}; the answer’s token is ${ordinal(rank + 1)}`},
        h(`span.own${hit ? ".hit" : ""}`, {dir: "auto"}, text), h("small", hit ? `★ ${percent(p)}` : `${percent(p)} · ${ordinal(rank + 1)}`));
    };
    const shown = rows.length > LAYERS ? rows.filter((_, i) => i === 0 || i === rows.length - 1 || i % Math.ceil(rows.length / LAYERS) === 0) : rows;
    if (drawn !== key) lens.replaceChildren(h("table.lens", h("caption.hidden", "Most likely token of each layer at each position"),
      h("thead", h("tr", h("th", {scope: "col"}, h("span.hidden", "layer")), places.map(i => h("th", {scope: "col", "data-t": i, class: page.answer[i].own && "own", dir: "auto"}, page.answer[i].name)))),
      h("tbody", shown.map(layer => h("tr", h("th", {scope: "row"}, name(layer)), places.map(i => cell(layer, i)))))), h("p.note", shownColumns(places, page.answer.length)));
    drawn = key;
    markColumn(lens, t);
  }

  /** What can be compared at the chosen place: the first choice starts as what was said, the second as the runner-up. */
  function compare() {
    const t = page.labels ? 0 : state.now.t, row = whyRow(page, t);
    if (row === null) return why.replaceChildren(h("p.note", "Only the first mask can be explained."));
    const names = choices(page, t).map(it => it.name);
    if (chosen.t !== state.now.t) Object.assign(chosen, {t: state.now.t, one: page.labels ? state.now.t : saidAt(page, t), other: null});
    const target = i => page.label_kind === "targets" && names[i].split("=")[0], rival = i => target(i) === target(chosen.one); // of the same target
    if (chosen.other !== null && !rival(chosen.other)) chosen.other = null;
    const {one, other} = chosen, value = logitOf(page, t, one, other), parts = contributions(page, t, one, other), error = Math.abs(parts.reduce((sum, [, v]) => sum + v, 0) - value);
    const choose = (what, picked, also, act) => h("select", {"aria-label": what, onchange: event => { act(event.target.value === "" ? null : Number(event.target.value)); compare(); focusOn(what); }},
      also ? h("option", {value: "", selected: picked === null}, also) : null, names.map((name, i) => (!also || rival(i)) && h("option", {value: i, selected: picked === i}, name)));
    const focusOn = what => why.querySelector(`select[aria-label="${what}"]`)?.focus();
    const heading = h("h3", "Why ", choose("Why this", one, null, i => { chosen.one = i; }), page.number ? " " : [" and not ", choose("and not that", other, "nothing else", i => { chosen.other = i; })],
      h("span", `${other !== null ? "the logits differ by" : page.number ? "it’s" : "its logit is"} ${signed(value, page.digits)}; the ${parts.length} parts sum to that within ${error < 1e-9 ? "1e−9" : error.toExponential(0).replace("-", "−")}`));
    why.replaceChildren(heading, byLayer(parts, page.digits), bars(parts, names[one], other === null ? null : names[other]),
      asTable("All parts", () => [["Part", page.number ? "Number" : "Logit"], parts.map(([name, v]) => [partName(name), signed(v, page.digits + 2)])]));
  }

  function bars(parts, one, other) {
    const drawn = [...parts].sort(bySize).slice(0, PARTS).sort((a, b) => b[1] - a[1]);
    const least = Math.min(0, drawn.at(-1)[1]), most = Math.max(0, drawn[0][1]), row = 20, wide = innerWidth <= 700 ? 90 : 380, scale = wide / (most - least || 1), mid = 170 - least * scale, width = 170 + wide + 76;
    const found = drawn.flatMap(([name, v], i) => { const size = Math.abs(v) * scale, y = i * row; return [
      rect(4, y + 4, 10, 10, {rx: 2, class: `key ${partKind(name)}`}), label(20, y + 14, partName(name), "name"),
      rect(v < 0 ? mid - size : mid, y + 4, Math.max(1, size), 11, {rx: 2, class: v < 0 ? "against" : "for"}), label(width - 4, y + 14, signed(v, page.digits), "name last")]; });
    const name = `${partName(drawn[0][0])} contributed most to ${one}${other === null ? "" : ` and not ${other}`}, ${signed(drawn[0][1], page.digits)}`;
    return h("div", scroller("Parts, scrolls sideways", picture(width, drawn.length * row + 6, name, path(`M${mid} 0V${drawn.length * row}`, "axis"), found)),
      parts.length > PARTS ? h("p.note", `The ${PARTS} largest of ${parts.length} parts are drawn.`) : null);
  }

  return {node, update(now, before) {
    if (before && now.t === before.t && now.theme === before.theme) return;
    if (page.lens) drawLens(now);
    if (page.why) compare();
  }};
}

/** The sum of the contributions of each layer, as one line of text. */
function byLayer(parts, digits) {
  const sums = new Map();
  for (const [name, value] of parts) {
    const layer = name.split(".")[1], key = /^\d+$/.test(layer) ? layerName(`layer ${layer}`) : ["embedding", "types", "positions"].includes(layer) ? "input" : "end";
    sums.set(key, (sums.get(key) ?? 0) + value);
  }
  return h("p.sums", [...sums].map(([name, value]) => h("span", name, " ", h("b", {class: value < 0 ? "minus" : "plus"}, signed(value, digits)))));
}

/** The length of the residual stream's vectors after each part, on average over tokens. */
function norms(page) {
  const rows = page.residuals.filter(([name]) => name.startsWith("decoder")).map(([name, , after]) => [partTitle(name), after]);
  if (rows.length < 2) return null;
  const width = 640, top = Math.max(...rows.map(it => it[1])) || 1, x = i => 6 + (i * (width - 12)) / (rows.length - 1), y = v => 44 - (38 * v) / top;
  const name = `Mean norm of the residual stream in the decoder: from ${rows[0][1].toFixed(1)} to ${rows.at(-1)[1].toFixed(1)}, at most ${top.toFixed(1)}`;
  return h("div.norms", h("p.note", name), h("div", picture(width, 50, name, line(rows.map(([, v], i) => [x(i), y(v)])))),
    asTable("Residual norms", () => [["After", "Norm"], rows.map(([part, v]) => [part, v.toFixed(3)])]));
}
