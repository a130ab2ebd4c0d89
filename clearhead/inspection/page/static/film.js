// How the answer, the heads and the layers formed during training: one frame for each evaluation.

import {asTable, h, label, path, picture, scroller, section, table, token} from "./dom.js";
import {drawCells, shade} from "./colours.js";
import {decode} from "./data.js";
import {pieceName} from "./names.js";
import {quoted} from "./forcing.js";
import {count, range} from "./numbers.js";
import {layerName, partTitle} from "./parts.js";
import {makePlayer} from "./player.js";

const PACE = 400; // milliseconds a frame

const number = x => (Number.isFinite(x) ? Number(x.toPrecision(4)).toString().replace("-", "−") : "–");

export function film(page, state, asker, signal) {
  if (!page.film?.frames.length) return {node: unwatched(page), update() {}};
  const {frames, scores, text} = page.film, names = [...new Set(scores.flatMap(it => Object.keys(it)))].filter(it => it !== "step" && scores.some(row => Number.isFinite(row[it])));
  const curve = scroller("Curves, scroll sideways"), shown = h("div.frame"), said = h("p.own.answer", {dir: "auto", "aria-live": "polite"}), where = h("small");
  const slider = h("input", {type: "range", min: 0, max: frames.length - 1, value: frames.length - 1, "aria-label": "Evaluation", oninput: () => state.set({frame: Number(slider.value)})});
  const player = makePlayer({last: frames.length - 1, now: () => state.now.frame ?? frames.length - 1, show: frame => state.set({frame}), pace: PACE, signal});
  const node = section("film", "Training film", ["One frame for each evaluation of “", token({own: true, name: text}), "”"], player.button, curve, slider, h("p", where), said, shown,
    asTable("The evaluations as a table", () => table("Evaluations", ["Step", ...names.map(it => it.replaceAll("_", " "))], scores.map(row => [count(row.step), ...names.map(it => number(row[it]))]))));
  function draw(now) {
    const at = Math.min(now.frame ?? frames.length - 1, frames.length - 1), it = frames[at], row = scores[it.number];
    slider.value = at;
    slider.ariaValueText = `step ${count(it.step)}, ${it.answer}`;
    where.textContent = `step ${count(it.step)} · ${names.map(name => `${name.replaceAll("_", " ")} ${number(row[name])}`).join(" · ")}`;
    said.textContent = it.answer || "■ end";
    curve.replaceChildren(curves(scores, names.slice(0, 3), it.number));
    shown.replaceChildren(...Object.entries(it.weights).map(([name, array]) => strip(name, decode(array))), lensOf(it.lens));
  }
  return {node, player, update(now, before) { player.follow(); if (!before || now.frame !== before.frame || now.theme !== before.theme) draw(now); }};
}

function unwatched(page) {
  return section("film", "Training film", null, null, h("div.none",
    h("p", "This run wasn’t watched, so there is nothing to play. Train with a text to watch, and the page shows its heads, its layers and the loss, one frame for each evaluation:"),
    h("pre", `clearhead train DATA --out MODEL --watch ${page.media ? "FILE" : quoted(page.asked.slice(0, 60))}`)));
}

/** Up to three curves over the steps, each on its own scale, with a cursor. */
function curves(scores, names, at) {
  const width = 800, high = 64, x = i => 10 + (i * (width - 20)) / Math.max(1, scores.length - 1);
  const found = names.map((name, n) => {
    const values = scores.map(it => it[name]), known = values.filter(Number.isFinite), low = Math.min(...known), span = Math.max(...known) - low || 1, base = n * (high + 16);
    const d = values.map((v, i) => (Number.isFinite(v) ? `${i && Number.isFinite(values[i - 1]) ? "L" : "M"}${x(i).toFixed(1)} ${(base + 14 + (high - 14) * (1 - (v - low) / span)).toFixed(1)}` : "")).join("");
    return [path(d, "line"), label(10, base + 10, `${name.replaceAll("_", " ")}, ${number(low)} to ${number(low + span)}`, "small")];
  });
  const name = names.map(it => { const known = scores.map(row => row[it]).filter(Number.isFinite); return `${it} from ${number(known[0])} to ${number(known.at(-1))}`; }).join("; ");
  return picture(width, names.length * (high + 16), name || "Evaluations", found, path(`M${x(at)} 0V${names.length * (high + 16)}`, "cursor"));
}

/** The heads of one attention module as small pictures. */
function strip(name, {shape: [heads, rows, columns], values}) {
  const canvases = range(heads).map(head => {
    const own = values.slice(head * rows * columns, (head + 1) * rows * columns), most = own.indexOf(Math.max(...own)), finding = `most in row ${Math.floor(most / columns) + 1}, column ${most % columns + 1}, ${own[most].toFixed(2)}`;
    return drawCells(h("canvas", {role: "img", "aria-label": `${partTitle(name)}, head ${head + 1}: ${finding}`}), rows, columns, (r, c) => shade(own[r * columns + c]));
  });
  return h("div.strip", h("span", partTitle(name)), canvases);
}

function lensOf(lens) {
  const rows = Object.entries(lens ?? {}).reverse();
  if (!rows.length) return "";
  return scroller("What each layer would have predicted", h("table", h("caption.hidden", "What each layer would have predicted"),
    h("tbody", rows.map(([name, tokens]) => h("tr", h("th", {scope: "row"}, layerName(name)), tokens.map(it => h("td.own", {dir: "auto"}, pieceName(it))))))));
}
