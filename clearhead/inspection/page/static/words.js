// Which words of the text mattered: hidden one after the other, or by integrated gradients.

import {h} from "./dom.js";
import {css, inkOn, leaning} from "./colours.js";
import {logp, signed} from "./numbers.js";
import {fallsOf} from "./sentence.js";

const METHODS = {falls: "hiding", gradients: "integrated gradients"};

export function words(page, state) {
  const box = h("div", {class: "scroll", tabindex: 0, role: "group", "aria-label": "Words that mattered, scrolls sideways"}), check = h("p", {class: "note"}), tools = h("div", {class: "tools"});
  for (const [name, text] of Object.entries(METHODS)) tools.append(h("button", {class: "button", "data-method": name, onclick: () => state.set({method: name})}, text));
  const node = h("section", {id: "words"}, h("div", {class: "head"}, h("h2", {}, "Words that mattered"), h("p", {class: "how"}), tools), box, check);
  const said = page.writes || page.fills ? page.answer : page.answer.slice(0, 1), WHOLE = [{name: "the whole answer", own: false}];
  const columnsOf = method => (page.words[method].shape[1] < said.length ? WHOLE : said);

  function cell(value, largest) {
    const fill = leaning(Math.sign(value) * Math.sqrt(Math.abs(value) / largest)), td = h("td", {}, Math.abs(value) < 0.005 ? "0" : signed(value));
    td.style.setProperty("background", css(fill));
    td.style.setProperty("color", inkOn(fill));
    return td;
  }

  function draw() {
    const method = state.now.method, {values} = page.words[method], largest = Math.max(...values.map(Math.abs)) || 1, {s, t} = state.now;
    const columns = columnsOf(method), each = columns.map((_, i) => fallsOf(page, columns === WHOLE ? 0 : i, method)), of = page.writes || page.fills ? t : 0;
    if (columns.length === 1) {
      box.replaceChildren(h("p", {class: "shaded", dir: "auto"}, page.source.map((it, i) => {
        const fill = leaning(Math.sign(each[0][i]) * Math.sqrt(Math.abs(each[0][i]) / largest)), span = h("span", {class: it.own ? "own" : "ours", title: `${it.name}: ${signed(each[0][i], 4)}`}, it.name);
        span.style.setProperty("background", css(fill));
        span.style.setProperty("color", inkOn(fill));
        return [span, " "];
      })));
    } else box.replaceChildren(h("table", {}, h("caption", {class: "hidden"}, `Words that mattered, by ${METHODS[method]}`),
      h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "source"), columns.map((it, i) => h("th", {scope: "col", class: `${it.own ? "own" : ""}${i === t ? " column" : ""}`, dir: "auto"}, it.name)))),
      h("tbody", {}, page.source.map((it, i) => h("tr", {class: i === s ? "chosen" : ""}, h("th", {scope: "row", class: it.own ? "own" : "", dir: "auto"}, it.name), each.map((falls, c) => { const td = cell(falls[i], largest); td.classList.toggle("column", c === t); return td; }))))));
    tools.querySelectorAll("button").forEach(it => it.setAttribute("aria-pressed", it.dataset.method === method));
    node.querySelector(".how").textContent = method === "falls" ? "How much log-probability is lost when one word is hidden; green speaks for the answer. Colour grows with the square root" : "Shares of the log-probability by integrated gradients; green speaks for the answer. Colour grows with the square root";
    const all = columns === WHOLE, add = values => values.reduce((a, b) => a + b, 0), whole = Array.from(page.words.whole.values), nothing = Array.from(page.words.nothing.values);
    const sum = add(each[all ? 0 : of]), moved = all ? add(whole) - add(nothing) : whole[of] - nothing[of];
    check.textContent = method === "falls" ? "Hiding a word puts the unknown token in its place." : `Check: the shares of ${all ? "the whole answer" : "the chosen word"} sum to ${signed(sum)}; with every word hidden, its log-probability falls by ${logp(moved)}.`;
  }
  return {node, fit() {}, update(now, before) { if (!before || ["t", "s", "method", "theme"].some(it => now[it] !== before[it])) draw(); }};
}
