// Which words of the text mattered: hidden one after the other, or by integrated gradients.

import {around, button, h, markColumn, scroller, section, shownColumns} from "./dom.js";
import {filled, leaning} from "./colours.js";
import {fallsOf} from "./data.js";
import {largestOf, logp, signed, sum} from "./numbers.js";

const METHODS = {falls: "hiding", gradients: "integrated gradients"};
const HOW = {
  falls: measure => `How far the ${measure} falls when one word is hidden`,
  gradients: measure => `Shares of the ${measure} by integrated gradients`,
};
const WHOLE = [{name: "the whole answer", own: false}];
const DOWN = 100; // rows of a table that are shown at once

export function words(page, state) {
  const box = scroller("Words that mattered, scrolls sideways"), check = h("p.note"), tools = h("div.tools"), how = h("span");
  const methods = Object.entries(METHODS).filter(([name]) => page.words[name]);
  if (methods.length > 1) for (const [name, text] of methods) tools.append(button(text, () => state.set({method: name}), {"data-method": name}));
  const node = section("words", "Words that mattered", how, tools, box, check);
  const each = page.writes || page.fills;
  let shown = null; // what is in the box: its method and its first column

  const columnsOf = method => (each && page.words[method].shape[1] === page.answer.length ? page.answer : WHOLE);

  const leant = (value, largest) => filled(leaning(Math.sign(value) * Math.sqrt(Math.abs(value) / largest)));

  /** One column: the text itself, shaded. */
  const shaded = (values, largest) => h("p.shaded", {dir: "auto"}, page.source.map((it, i) =>
    [h("span", {class: it.own ? "own" : "ours", style: leant(values[i], largest), title: `${it.name}: ${signed(values[i], page.digits + 2)}`}, it.name), " "]));

  function grid(method, places, largest) {
    const columns = columnsOf(method), values = places.map(i => fallsOf(page, i, method));
    const most = page.source.map((_, s) => Math.max(...values.map(it => Math.abs(it[s])))), order = [...most.keys()].sort((a, b) => most[b] - most[a]).slice(0, DOWN).sort((a, b) => a - b);
    const head = h("tr", h("th", {scope: "col"}, "source"), places.map(i => h("th", {scope: "col", "data-t": i, class: columns[i].own && "own", dir: "auto"}, columns[i].name)));
    const rows = order.map(s => h("tr", {"data-s": s}, h("th", {scope: "row", class: page.source[s].own && "own", dir: "auto"}, page.source[s].name),
      places.map((i, c) => h("td", {"data-t": i, style: leant(values[c][s], largest)}, signed(values[c][s])))));
    const parts = [shownColumns(places, columns.length), order.length < page.source.length ? `The ${DOWN} words that mattered most.` : ""];
    return [h("table", h("caption.hidden", `Words that mattered, by ${METHODS[method]}`), h("thead", head), h("tbody", rows)), h("p.note", parts)];
  }

  function draw({method, t, theme}) {
    const columns = columnsOf(method), at = each ? 0 : t, places = around(t, columns.length), key = `${method} ${places[0]} ${at} ${theme}`;
    if (shown === key) return;
    shown = key;
    const largest = largestOf(page.words[method].values) || 1, values = fallsOf(page, at, method);
    box.replaceChildren(...(columns.length > 1 ? grid(method, places, largest) : values ? [shaded(values, largest)] : [h("p.note", "Known for the most likely labels only.")]));
    tools.querySelectorAll("button").forEach(it => it.ariaPressed = it.dataset.method === method);
    how.textContent = `${HOW[method](page.measure)}; green supports ${each ? "the answer" : page.number ? "more" : page.answer[t].name}. Colour grows with the square root`;
  }

  /** Mark the chosen row and column, and check the chosen column's sum. */
  function mark({method, s, t}) {
    markColumn(box, t);
    box.querySelectorAll("tr[data-s]").forEach(it => it.classList.toggle("chosen", s !== null && Number(it.dataset.s) === s));
    if (method === "falls") { check.textContent = `Hiding a word puts the unknown token in its place${page.copies ? ", but it can still be copied" : ""}.`; return; }
    const all = each && columnsOf(method) === WHOLE, at = all ? 0 : t, whole = page.words.whole.values, nothing = page.words.nothing.values, shares = fallsOf(page, at, method);
    const moved = all ? sum(whole) - sum(nothing) : whole[at] - nothing[at];
    check.textContent = shares ? `Check: the shares of ${all ? "the whole answer" : page.answer[t].name} sum to ${signed(sum(shares), page.digits)}; with every word hidden, its ${page.measure} falls by ${page.number ? page.shown(moved) : logp(moved)}.` : "";
  }

  return {node, update(now, before) {
    if (!before) shown = null;
    draw(now);
    mark(now);
  }};
}
