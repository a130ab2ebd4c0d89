// How the answer, the heads and the layers formed during training: one frame for each evaluation.

import {asTable, g, h, label, line, path, picture, scroller, section, table, token} from "./dom.js";
import {drawCells, shade} from "./colours.js";
import {decode} from "./data.js";
import {pieceName} from "./names.js";
import {quoted} from "./forcing.js";
import {best, count, range} from "./numbers.js";
import {layerName, partName, partTitle} from "./parts.js";
import {makePlayer} from "./player.js";

const PACE = 400; // milliseconds a frame
const LEFT = 10; // pixels beside the curves
const wide = () => Math.max(280, Math.min(800, innerWidth - 32));

const plain = name => name.replaceAll("_", " ");
const number = x => (Number.isFinite(x) ? Number(x.toPrecision(4)).toString().replace("-", "−") : "–");

export function film(page, state, asker, signal) {
  if (!page.film?.frames.length) return {node: unwatched(page), update() {}};
  const {frames, scores, text} = page.film, names = [...new Set(scores.flatMap(it => Object.keys(it)))].filter(it => it !== "step" && scores.some(row => Number.isFinite(row[it])));
  const steps = frames.map(it => it.step), [first, last] = [Math.min(steps[0], scores[0].step), Math.max(steps.at(-1), scores.at(-1).step)], choose = frame => state.set({frame});
  const curve = scroller("Curves; the slider below chooses an evaluation"), shown = h("div.frame"), said = h("p.own.answer", {dir: "auto", "aria-live": "polite"}), where = h("small");
  const slider = h("input", {type: "range", min: 0, max: frames.length - 1, value: frames.length - 1, "aria-label": "Evaluation", oninput: () => choose(Number(slider.value))});
  const player = makePlayer({last: frames.length - 1, now: () => state.now.frame ?? frames.length - 1, show: choose, pace: PACE, signal});
  const node = section("film", "Training film", ["One frame for each evaluation of “", token({own: true, name: text}), "”"], player.button, curve, slider, h("p", where), said, shown,
    asTable("The evaluations", () => [["Step", ...names.map(plain)], scores.map(row => [count(row.step), ...names.map(it => number(row[it]))])]));
  curve.addEventListener("click", event => {
    const step = first + ((event.clientX - curve.firstChild.getBoundingClientRect().left - LEFT) / (wide() - 2 * LEFT)) * (last - first);
    choose(best(steps.map(it => -Math.abs(it - step))));
  });
  /** What is drawn over the steps: the loss and the first score of each evaluation, and what each frame says. */
  function series({k, l, h: head}) {
    const of = (name, all, value) => [name, all.map(it => [it.step, value(it)]).filter(it => Number.isFinite(it[1]))], [stack, kind] = (k ?? "").split("."), place = `${stack}.${l}.${kind}`;
    return [...names.slice(0, 2).map(name => of(plain(name), scores, row => row[name])), of("probability of its answer", frames, it => it.probability ?? NaN),
      of(`entropy of ${partName(`${place}.head.${head}`)} in bits`, frames, it => it.entropy?.[place]?.[head])].filter(it => it[1].length);
  }

  function draw(now) {
    const at = Math.min(now.frame ?? frames.length - 1, frames.length - 1), it = frames[at];
    slider.value = at;
    slider.ariaValueText = `step ${count(it.step)}, ${it.answer}`;
    where.textContent = `step ${count(it.step)}`;
    said.textContent = it.answer || "■ end";
    curve.replaceChildren(curves(series(now), first, last, it.step));
    shown.replaceChildren(...Object.entries(it.weights).map(([name, array]) => strip(name, decode(array))), lensOf(it.lens));
  }
  return {node, player, fit: () => draw(state.now), update(now, before) { player.follow(); if (!before || ["frame", "theme", "k", "l", "h"].some(it => now[it] !== before[it])) draw(now); }};
}

function unwatched(page) {
  return section("film", "Training film", null, null, h("div.none",
    h("p", "This run wasn’t watched. Train with a text to watch, and the page shows heads, layers and loss at each evaluation:"),
    h("pre", `clearhead train DATA --out MODEL --watch ${page.media ? "FILE" : quoted(page.asked.slice(0, 60))}`)));
}

/** Curves over the steps, [[name, [[step, value]]]], each on its own scale, with a cursor. */
function curves(all, first, last, now) {
  const high = 64, end = all.length * 84, width = wide(), x = step => LEFT + ((step - first) * (width - 2 * LEFT)) / (last - first || 1), said = [];
  const drawn = all.map(([name, points], n) => {
    const values = points.map(it => it[1]), low = Math.min(...values), span = Math.max(...values) - low || 1, at = points.findLast(it => it[0] <= now) ?? points[0];
    const places = points.map(([step, v]) => [x(step), n * 84 + 18 + (high - 18) * (1 - (v - low) / span)]), [cx, cy] = places[points.indexOf(at)];
    said.push(`${name} ${number(at[1])}, from ${number(values[0])} to ${number(values.at(-1))}`);
    return [line(places), g("circle.at", {cx, cy, r: 4}), label(LEFT, n * 84 + 10, `${name} ${number(at[1])}`, "small")];
  });
  return picture(width, end + 4, `Step ${count(now)}: ${said.join("; ")}`, path(`M${x(now)} 0V${end - 16}`, "cursor"), drawn, label(LEFT, end, `step ${count(first)}`, "small"), label(width - LEFT, end, count(last), "small last"));
}

/** The heads of one attention module as small pictures. */
function strip(name, {shape: [heads, rows, columns], values}) {
  const canvases = range(heads).map(head => {
    const own = values.slice(head * rows * columns, (head + 1) * rows * columns), most = best(own), finding = `most in row ${Math.floor(most / columns) + 1}, column ${most % columns + 1}, ${own[most].toFixed(2)}`;
    return drawCells(h("canvas", {role: "img", "aria-label": `${partTitle(name)}, head ${head + 1}: ${finding}`}), rows, columns, (r, c) => shade(own[r * columns + c]));
  });
  return h("div.strip", h("span", partTitle(name)), canvases);
}

function lensOf(lens) {
  const rows = Object.entries(lens ?? {}).reverse();
  if (!rows.length) return "";
  return scroller("What each layer would have predicted", table("Predictions", [], rows.map(([name, tokens]) => [layerName(name), ...tokens.map(it => token({own: true, name: pieceName(it)}))])));
}
