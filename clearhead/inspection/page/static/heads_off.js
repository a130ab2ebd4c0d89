// The model without some of its parts: how probable its own answer remains, and what it says instead.

import {asTable, button, h, roving, section, token} from "./dom.js";
import {changeOf} from "./data.js";
import {largestOf, logp, signed, sum} from "./numbers.js";
import {layerName, partTitle} from "./parts.js";

const isHead = name => name.includes(".head.");
const headOf = name => (isHead(name) ? `head ${Number(name.split(".").at(-1)) + 1}` : name.endsWith("feed_forward") ? "all of it" : "all heads");
export const spoken = name => `${partTitle(name.split(".head.")[0])}${isHead(name) ? `, ${headOf(name)}` : ""}`;

export function headsOff(page, state, asker) {
  const grid = h("div.off", {role: "group", "aria-label": "Parts to switch off"}), became = h("div.became", {"aria-live": "polite"}), about = h("span"), numbers = h("div"), before = asker.whole;
  const written = (it, more = 0) => (it.off ? "off" : it.change === null ? "–" : signed(it.change, page.digits + more)); // null: not measured

  const chosen = () => new Set(state.now.off ? state.now.off.split(",") : []);

  /** Switch a part on or off: with a source that answers, any combination; in a file, one at a time. */
  function toggle(name) {
    const off = chosen();
    if (!off.delete(name)) {
      if (!asker.live) off.clear();
      off.add(name);
    }
    state.set({off: [...off].join(",")});
  }

  const node = section("heads", "Heads off", about, null, became, grid, numbers), settle = roving(grid, ".switch");

  /** The parts, with what each changes. */
  function build({t}) {
    const all = Object.entries(page.without).map(([name, it]) => ({...it, name, off: page.isOff(name), change: changeOf(page, name, t)}));
    const rows = {}, largest = largestOf(all.map(it => it.change)) || 1, score = page.labels ? page.logprobs[t] : sum(page.logprobs);
    const part = it => button([h("span", headOf(it.name)), " ", h("b", written(it))], () => toggle(it.name),
      {class: `switch${it.change < -0.1 * largest ? " big" : ""}`, "data-off": it.name, "aria-label": `${headOf(it.name)} ${written(it)}, without ${spoken(it.name)}`});
    for (const it of all) {
      const [stack, layer, kind] = it.name.split(".");
      (rows[`${stack} ${layerName(`layer ${layer}`)}, ${kind.replace("_", "-")}`] ??= []).push(it);
    }
    grid.replaceChildren(...Object.entries(rows).map(([where, some]) => h("div.part-row", h("span", where), h("div.switches", some.sort((a, b) => isHead(b.name) - isHead(a.name)).map(part)))));
    settle();
    const what = `${page.measure} of ${page.labels?.[t][0] ?? "the answer"}`, value = page.number ? page.text : logp(score), how = asker.live ? "Switch off any parts; the whole page follows" : "One part at a time";
    about.textContent = `${page.measured ? `How the ${what} (${value}) changes without a part` : `The ${what} is ${value}`}. ${how}`;
    numbers.replaceChildren(asTable("All parts", () => [["Without", "Change", "Answer"], all.map(it => [spoken(it.name), written(it, 2), it.off ? "off" : it.text === null ? "not searched for" : it.text || "the same"])]));
  }

  function update(now, earlier) {
    const off = chosen(), rebuilt = !earlier || (page.labels && now.t !== earlier.t);
    if (rebuilt) build(now);
    if (rebuilt || now.off !== earlier.off) grid.querySelectorAll(".switch").forEach(it => it.ariaPressed = off.has(it.dataset.off) || (!asker.live && page.off.includes(it.dataset.off)));
    if (asker.live) return became.replaceChildren(...live(page, before));
    const [name] = off, it = page.without[name];
    if (!it || page.isOff(name)) return became.replaceChildren(h("small", page.off.length ? `${without(page)}.` : "Choose a part to switch it off."));
    const lost = page.writes ? it.logprobs.map((p, i) => [page.answer[i]?.name, p - page.logprobs[i]]).sort((a, b) => a[1] - b[1])[0] : null;
    return became.replaceChildren(h("small", `Without ${spoken(name)}: ${signed(changeOf(page, name, now.t), page.digits)}${lost && lost[1] < -0.01 ? `, most at ${lost[0]} (${signed(lost[1])})` : ""}`),
      ...(it.text === null ? [h("p", "The answer may change. This command shows it: ", h("code", `${page.command.replace(/ --html .*/, "")} --without ${name} --html page.html`))] : changed(page.text, it.text || page.text)));
  }
  return {node, update};
}

/** The answer with all parts, struck through if the one without some of them is another. */
const live = (page, before) => (page.off.length ? [h("small", without(page)), ...(before ? changed(before.text, page.text) : [])] : [h("small", "Nothing is switched off.")]);

const without = ({off, prefix}) => `Without ${off.map(spoken).join("; ")}${prefix.length ? ", after a forced beginning" : ""}`;

function changed(old, text) {
  if (old === text) return [h("p", token({own: true, name: old || "■ end"}), " ", h("small", "The answer doesn’t change."))];
  const words = old.split(" ");
  return [h("p", h("s.own", {dir: "auto"}, old || "■ end")), h("p.own", {dir: "auto"}, text.split(" ").map((word, i) => [word === words[i] ? word : h("b", word), " "]))];
}
