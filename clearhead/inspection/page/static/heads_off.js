// The model without one of its parts: how probable its own answer remains, and what it says instead.

import {h, roving} from "./dom.js";
import {logp, signed} from "./numbers.js";
import {partTitle} from "./parts.js";

export function headsOff(page, state) {
  const places = {};
  for (const [name, it] of Object.entries(page.off)) {
    const [stack, layer, kind, , head] = name.split(".");
    ((places[`${stack} ${layer}`] ??= {})[kind] ??= []).push({name, head: head === undefined ? null : Number(head), ...it});
  }
  const grid = h("div", {class: "off"}), became = h("div", {class: "became", "aria-live": "polite"}), largest = Math.max(...Object.values(page.off).map(it => Math.abs(it.change))) || 1;
  const total = page.logprobs.reduce((a, b) => a + b, 0), own = page.writes ? total : page.logprobs[0];
  const label = it => (it.head === null ? (it.name.endsWith("feed_forward") ? "feed-forward" : "all heads") : `head ${it.head}`);
  const toggle = it => h("button", {class: `switch${it.change < -0.1 * largest ? " big" : ""}`, "data-off": it.name, "aria-label": `${partTitle(it.name)} ${label(it)} off: ${signed(it.change)}`, onclick: () => state.set({off: state.now.off === it.name ? "" : it.name})},
    h("span", {}, label(it)), h("b", {}, signed(it.change)));
  for (const [where, kinds] of Object.entries(places)) {
    const attentions = Object.entries(kinds).filter(([kind]) => kind !== "feed_forward");
    attentions.forEach(([kind, all], n) => {
      const heads = all.filter(it => it.head !== null), rest = all.filter(it => it.head === null), last = n === attentions.length - 1;
      grid.append(h("div", {class: "part-row"}, h("span", {}, `${where}, ${kind}`), [...heads, ...rest, ...(last ? kinds.feed_forward ?? [] : [])].map(toggle)));
    });
  }
  const node = h("section", {id: "heads"}, h("div", {class: "head"}, h("h2", {}, "Heads off"), h("p", {}, `How the log-probability of the answer (${logp(own)}) changes with one part switched off`)), grid, became);
  roving(grid, ".switch");

  function update(now) {
    grid.querySelectorAll(".switch").forEach(it => it.setAttribute("aria-pressed", it.dataset.off === now.off));
    const it = page.off[now.off];
    if (!it) return became.replaceChildren(h("small", {}, "Choose a part to switch it off."));
    const words = page.text.split(" "), fresh = (it.text ?? "").split(" ");
    const answer = it.text === null ? [h("p", {}, "The answer may change; search again with ", h("code", {}, "app.without(…)"), " in Python.")]
      : it.text === "" || it.text === page.text ? [h("p", {}, h("span", {class: "own", dir: "auto"}, page.text), h("small", {}, "The answer stays."))]
      : [h("p", {}, h("s", {class: "own", dir: "auto"}, page.text)), h("p", {class: "own", dir: "auto"}, fresh.map((word, i) => [word === words[i] ? word : h("b", {}, word), " "]))];
    const lost = page.writes ? it.logprobs.map((p, i) => [page.answer[i]?.name, p - page.logprobs[i]]).sort((a, b) => a[1] - b[1])[0] : null;
    became.replaceChildren(h("small", {}, `Without ${partTitle(now.off)}${now.off.includes("head.") ? `, head ${now.off.split(".").pop()}` : ""}: ${signed(it.change)}${lost && lost[1] < -0.01 ? `, most at ${lost[0]} (${signed(lost[1])})` : ""}`), ...answer);
  }
  return {node, fit() {}, update};
}
