// A tour: a stop at each view, with a sentence about this model and this answer.

import {bold, button, h} from "./dom.js";
import {PLACES, choices, fallsOf, finding} from "./data.js";
import {best, chance, count, ordinal, signed} from "./numbers.js";
import {partTitle} from "./parts.js";

/** What to say at each view. */
const SAYS = {
  sentence: page => [page.writes ? `The answer has ${count(page.answer.length)} tokens, each with its probability. ` : "", "Choose a word at any time; everything below is then about that one."],
  answers: ({spans: {best: [first]}}) => ["Bars show how likely the answer is to start and to end at each word. Of all answers, ", bold(first, "other"), ` is the most likely, at ${chance(first.logp)}.`],
  flow: page => [`${count(page.lastStep + 1)} steps lead from your input to the answer, through ${Object.values(page.model.layers).join(" + ")} layers and ${count(page.model.parameters)} parameters. Play shows one after the other.`],
  attention: (page, {k, l, h: head}) => [`Each picture is a head, and a row in it shows where a token looks. In head ${head + 1} of layer ${l + 1} (${PLACES[k][0].toLowerCase()}), ${finding(page, k, page.attention[k][l], head)}.`],
  decoding: (page, {t}) => [`${count(page.search.nodes.length)} candidates were weighed in ${count(page.search.nodes.at(-1).step)} steps. At step ${t + 1}, `, bold(choices(page, t)[0], "other"), ` was the most likely, at ${chance(choices(page, t)[0].logp)}. The sliders change what would be drawn.`],
  layers: (page, {t}) => (page.lens ? ["If the model stopped at its input, ", bold(page.answer[t]), ` would rank ${ordinal(page.lens[0].ranks[page.begins + t] + 1)} of ${count(page.vocabulary)}; after the last layer it ranks ${ordinal(page.lens.at(-1).ranks[page.begins + t] + 1)}.`] : ["Each bar is what a part of the model contributed to the answer."]),
  words: (page, {t}) => {
    const falls = fallsOf(page, t) ?? fallsOf(page, 0), at = fallsOf(page, t) ? t : 0, s = best(falls), p = page.logprobs[at];
    return ["Each word was hidden in turn. Without ", bold(page.source[s], "other"), ", the probability of ", bold(page.answer[at]), ` goes from ${chance(p)} to ${chance(p - falls[s])}.`];
  },
  heads: page => {
    const [name, {change}] = Object.entries(page.without).reduce((a, b) => (b[1].change < a[1].change ? b : a));
    return change === null ? ["Switch off any part, and see what the answer becomes."] : [`Every part was switched off once. The answer needs this one most: ${partTitle(name.split(".head.")[0])}${name.includes(".head.") ? `, head ${Number(name.split(".").at(-1)) + 1}` : ""}, without it, the log-probability changes by ${signed(change)}.`];
  },
  film: page => [page.film?.frames.length ? `${count(page.film.frames.length)} evaluations show how the model learned this. Play runs through them.` : "A training run can be watched. This one wasn’t; the command here does it."],
};

/** The button that begins the tour. It can be left at any time, with Esc too. */
export function tour(page, state, views, signal) {
  const stops = ["sentence", ...views].map(id => document.getElementById(id));
  let at = 0;
  const said = h("p", {"aria-live": "polite"}), where = h("span"), back = button("Back", () => go(Math.max(0, at - 1))), next = button("Next", () => (at === stops.length - 1 ? leave() : go(at + 1)));
  const box = h("div.tour", {role: "region", "aria-label": "Tour", hidden: true, onkeydown: event => { if (event.key === "Escape") { event.stopPropagation(); leave(); } }}, said, h("div.tools", where, back, next, button("Leave", leave)));
  const start = button("Take the tour", () => { box.hidden = false; go(0); next.focus(); });

  function go(to) {
    stops[at].classList.remove("stop");
    at = to;
    stops[at].classList.add("stop");
    stops[at].scrollIntoView();
    where.textContent = `${at + 1} of ${stops.length}`;
    back.disabled = at === 0;
    next.textContent = at === stops.length - 1 ? "Finish" : "Next";
    tell();
  }

  const tell = () => said.replaceChildren(h("b.other", stops[at].querySelector("h2")?.textContent ?? "Your input and the answer"), ": ", ...SAYS[stops[at].id](page, state.now).flat());

  function leave() {
    stops[at].classList.remove("stop");
    box.hidden = true;
    start.focus();
  }
  document.getElementById("sentence").append(start);
  document.body.append(box);
  state.on(() => { if (!box.hidden) tell(); });
  signal.addEventListener("abort", () => box.remove());
}
