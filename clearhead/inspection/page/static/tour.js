// A tour: a stop at each view, with a sentence about this model and this answer.

import {bold, button, h, taken} from "./dom.js";
import {changeOf, contributions, fallsOf, finding, headName, headsOn, saidAt, whyRow} from "./data.js";
import {best, bySize, chance, count, ordinal, signed} from "./numbers.js";
import {spoken} from "./heads_off.js";
import {partName} from "./parts.js";
import {alternatives} from "./sentence.js";

/** The stops at each view: what is shown, and what is said about it, if anything. */
const STOPS = {
  sentence: [["#sentence", ({answer, writes, logprobs, number}) => {
    const t = writes ? best(logprobs.map(it => -it)) : 0;
    return [answer.length ? [writes ? `The answer has ${count(answer.length)} tokens; the least certain one is ` : "The answer is ", bold(answer[t]), number ? ". " : `, at ${chance(logprobs[t])}. `] : "", "Choose a word at any time; everything below is then about that one."];
  }]],
  answers: [["#answers", ({spans: {best: [first]}}) => ["Bars show how likely the answer is to start and to end at each word. Of all answers, ", bold(first, "other"), ` is the most likely, at ${chance(first.logp)}.`]]],
  flow: [["#flow", page => [`${count(page.lastStep + 1)} steps lead from your input to the answer, through ${Object.values(page.model.layers).join(" + ")} layers and ${count(page.model.parameters)} parameters.`]]],
  attention: [["#attention", page => {
    const all = page.places.flatMap(k => page.attention[k].flatMap((layer, l) => headsOn(layer).map(head => [k, l, head, layer.entropy[head]])));
    if (!all.length) return null;
    const [k, l, head, least] = all.reduce((a, b) => (b[3] < a[3] ? b : a));
    return [`Each picture is a head, and its rows show where tokens look. The sharpest is ${headName(k, l, head)}, with an entropy of ${least.toFixed(2)} bits.`];
  }], [".open", (page, {k, l, h: head}) => k && [`In ${headName(k, l, head)}, ${finding(page, k, page.attention[k][l], head)}.`]]],
  decoding: [["#decoding", ({search: {nodes, greedy}, text}) => [`${count(nodes.length)} candidates were weighed in ${count(nodes.at(-1).step)} steps. `, greedy === undefined ? "" : greedy === text ? "With one beam, the answer would be the same." : ["With one beam, the answer would be ", bold({name: greedy || "empty"}, "other"), "."]]],
    [".sampling", (page, {t}) => { const [other] = alternatives(page, t); return other && [`At step ${t + 1}, the best token besides `, bold(page.answer[t]), " is ", bold(other, "other"), `, at ${chance(other.logp)}.`]; }]],
  layers: [[".lens", (page, {t}) => page.lens && ["If the model stopped at its input, ", bold(page.answer[t]), ` would rank ${ordinal(page.lens[0].ranks[page.begins + t] + 1)} of ${count(page.vocabulary)}; after the last layer it ranks ${ordinal(page.lens.at(-1).ranks[page.begins + t] + 1)}.`]],
    [".why", (page, {t}) => {
      const all = whyRow(page, t) === null ? [] : contributions(page, t, saidAt(page, t)).sort(bySize), [name, value] = all[0] ?? [];
      return name && [`Of ${all.length} parts, ${partName(name)} contributes most to `, bold(page.answer[t]), `: ${signed(value, page.digits)}${page.number ? "" : " to its logit"}.`];
    }]],
  words: [["#words", (page, {t}) => {
    const falls = fallsOf(page, t), s = best(falls), p = page.logprobs[t];
    return ["Without ", bold(page.source[s], "other"), page.number ? ", the number" : [", the probability of ", bold(page.answer[t])], ` goes from ${page.shown(p)} to ${page.shown(p - falls[s])}.`];
  }]],
  heads: [["#heads", (page, {t}) => {
    const [[name, change] = []] = Object.keys(page.without).map(it => [it, changeOf(page, it, t)]).sort((a, b) => a[1] - b[1]);
    return name && [change === null ? "Switch off any part, and see what the answer becomes." : `Of all parts, ${page.labels && !page.number ? page.answer[t].name : "the answer"} needs this one most: ${spoken(name)}. Without it, the ${page.measure} changes by ${signed(change, page.digits)}.`];
  }]],
  film: [["#film", page => [page.film?.frames.length ? `${count(page.film.frames.length)} evaluations show how the model learned this.` : "This run wasn’t watched; the command here does it."]]],
};

/** The button that begins the tour. It can be left at any time, with Esc too. */
export function tour(page, state, views, signal) {
  const stops = ["sentence", ...views].flatMap(id => STOPS[id]).map(([place, say]) => [document.querySelector(place), say]).filter(([node, say]) => node && say(page, state.now));
  let at = 0, stop;
  const said = h("p", {"aria-live": "polite"}), where = h("span"), back = button("Back", () => go(Math.max(0, at - 1))), next = button("Next", () => (at === stops.length - 1 ? leave() : go(at + 1)));
  const box = h("div.tour", {role: "region", "aria-label": "Tour", hidden: true, onkeydown: event => { if (event.key === "Escape") { taken(event); leave(); } }}, said, h("div.tools", where, back, next, button("Leave", leave)));
  const start = button("Take the tour", () => { box.hidden = false; go(0); next.focus(); });

  function go(to) {
    stop?.classList.remove("stop");
    [stop] = stops[at = to];
    stop.classList.add("stop");
    stop.scrollIntoView();
    where.textContent = `${at + 1} of ${stops.length}`;
    back.disabled = at === 0;
    next.textContent = at === stops.length - 1 ? "Finish" : "Next";
    tell();
  }

  const tell = () => said.replaceChildren(h("b.other", stop.closest("section").querySelector("h2")?.textContent ?? "Your input and the answer"), ": ", ...(stops[at][1](page, state.now) ?? []).flat(2));

  function leave() {
    stop.classList.remove("stop");
    box.hidden = true;
    start.focus();
  }
  document.getElementById("sentence").append(start);
  document.body.append(box);
  state.on(() => { if (!box.hidden) tell(); });
  signal.addEventListener("abort", () => box.remove());
}
