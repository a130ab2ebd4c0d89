// Where an answer may start and end, and what another one scores.

import {asTable, bar, bold, h, section} from "./dom.js";
import {chance, signed} from "./numbers.js";

/** The answer that was chosen on the page, else the model's own. */
export const chosenSpan = ({spans}, {from, to}) => (from !== null && to >= from && !from === !to ? spans.of(from, to) : spans.own);

/** The chosen answer with its start or end moved to a word: the one that the word is beyond, else both. */
export function moved(page, now, s) {
  const {from, to} = chosenSpan(page, now);
  return {from: s && from && s > to ? from : s, to: s && from && s < from ? to : s};
}

export function answers(page, state) {
  const {spans} = page, said = h("p.told", {"aria-live": "polite"}), list = h("div.bars");
  const buttons = spans.best.map(({from, to, name, logp, score}) => {
    const button = h("button.choice.own", {dir: "auto", onclick: () => state.set({from, to})}, name);
    list.append(button, bar(Math.exp(logp), "share"), h("span.number", `${chance(logp)}, score ${signed(score)}`));
    return button;
  });
  const node = section("answers", "Answers", "Bars above a word: how likely the answer is to start and to end there. Select words to move its ends. Score: both logits, minus those of no answer", null, said, list,
    asTable("Start and end", () => [["Word", "Starts here", "Ends here"], [...spans.start.keys()].filter(spans.allowed).map(s => [spans.of(s, s).name, chance(spans.start[s]), chance(spans.end[s])])]));
  return {node, update(now) {
    const it = chosenSpan(page, now), same = other => other.from === it.from && other.to === it.to, less = spans.own.score - it.score;
    said.replaceChildren(bold(it, "chosen"), `: the answer starts here with a probability of ${chance(spans.start[it.from])} and ends here with ${chance(spans.end[it.to])}, together ${chance(it.logp)}. The score is ${signed(it.score)}`,
      same(spans.own) ? "; this is the model’s answer." : less > 0 ? `, ${signed(less).slice(1)} below that of the model’s answer.` : ".");
    buttons.forEach((button, i) => button.ariaPressed = same(spans.best[i]));
  }};
}
