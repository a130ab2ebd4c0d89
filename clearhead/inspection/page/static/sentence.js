// The sentence and its answer, joined by ribbons; and one plain sentence about the chosen word.

import {chosenSpan, moved} from "./answers.js";
import {bold, g, h, roving} from "./dom.js";
import {choices, fallsOf, looks, saidAt, visible} from "./data.js";
import {inputPicture} from "./media.js";
import {best, chance, ordinal, percent} from "./numbers.js";

const LEAST = 0.03, RUNNING = 40, NAMED = 3; // attention that is drawn, tokens from which a sentence is set as running text, and words in a list

const ARCH = 56; // pixels from a token of the answer to the top of a ribbon to an earlier one
const NOTES = {unknown: "the vocabulary lacks this; the model reads ‹unk›", shared: "the model reads this character in parts, of which this is one"};

/** The word to choose at first: the one whose strongest source is furthest from the diagonal, or in a language model furthest back. */
export function firstChoice(page) {
  let found = 0, furthest = -1;
  page.answer.forEach((token, t) => {
    const weights = looks(page, t), seen = visible(page, t);
    if (!token.own || !weights.length) return;
    const s = best(weights), place = seen === page.source ? t / page.answer.length : 1, away = Math.abs(s / seen.length - place) * weights[s];
    if (seen[s].own && away > furthest) [found, furthest] = [t, away];
  });
  return found;
}

const word = it => (it.kind === "end" ? "the end" : bold(it));

/** How a token came to be in the answer, if the search didn't choose it. */
export const origin = (page, t) => (!page.writes ? "" : page.forced.includes(t) ? "forced" : page.search?.sampled ? "sampled" : "");

/** What was said, and where the model looked. */
function opening(page, t) {
  const token = page.answer[t], p = chance(page.logprobs[t]);
  if (!token) return [page.task === "embed" ? "The model read this and gave a vector. " : "The model wrote nothing: no token was allowed. "];
  if (page.fills) return ["In place of mask ", String(t + 1), ", the model put ", word(token), ` with a probability of ${p}. `];
  if (page.finds) return ["The model found ", token.own ? word(token) : "no answer", ` in the text, with a probability of ${p}. `];
  if (page.number) return ["The model predicted ", word(token), ` for ${page.labels[0][0]}. `];
  if (page.labels && !token.said) return [word(token), page.label_kind ? " has" : ` was the model’s ${ordinal(t + 1)} choice, with`, ` a probability of ${p}. It answered `, bold({name: page.text}), ". "];
  if (!page.writes) return ["The model answered ", word(token), ` with a probability of ${p}. `];
  const weights = looks(page, t), s = best(weights), where = page.crosses ? `cross-attention in layer ${page.alignment_layer + 1}` : "attention in the last layer", how = origin(page, t);
  const looked = weights.length ? ["looked most at ", word(visible(page, t)[s]), ` (${percent(weights[s])} of its ${where})`] : null;
  if (how) return [token.kind === "end" ? "The end" : word(token), ` was ${how}: the model gave it a probability of ${p}`, looked ? [" and ", looked] : "", ". "];
  return [token.kind === "end" ? "To stop" : ["To write ", word(token)], ", the model ", looked ?? `was ${p} sure`, ". "];
}

/** The most likely tokens or labels, first and second, but for the one that was said. */
function others(page, t) {
  const all = choices(page, t), said = saidAt(page, t), one = (it, which) => [which, bold(it, "other"), `, at ${chance(it.logp)}`];
  if (page.labels && t || page.label_kind || all.length < 2) return [];
  if (said === 0) return [one(all[1], `Its second choice ${page.labels ? "" : "here "}was `), ". "];
  return [one(all[0], "Its first choice here was "), said > 1 ? one(all[1], "; its second, ") : "", ". "];
}

/** What the numbers say about a word. It never says "because": attention is where the model looked, hiding is what it needed. */
function plainly(page, t) {
  const parts = [opening(page, t)], token = page.answer[t], falls = token && fallsOf(page, t);
  if (falls) {
    const s = best(falls.map(Math.abs)), fall = falls[s];
    if (Math.abs(fall) > 10 ** -page.digits) parts.push("Hide ", word(page.hideable[s]), page.copies ? ", though it can still be copied," : "", " and ", page.number ? "it" : ["the probability of ", page.finds ? "this answer" : token.kind === "end" ? "stopping" : word(token)], ` ${fall < 0 ? "rises" : "falls"} to ${page.shown(page.logprobs[t] - fall)}. `);
  }
  if (token) parts.push(others(page, t));
  if (page.writes && page.answer.length === 1 && token.kind === "end") parts.push("The answer is empty. ");
  if (page.writes && token && page.answer.at(-1).kind !== "end") parts.push(`The answer was stopped at ${page.answer.length} tokens. `);
  parts.push(unread(page));
  if (page.off.length) parts.push(`${page.off.length === 1 ? "One part of the model is" : `${page.off.length} parts of the model are`} switched off. `);
  return parts;
}

/** The words that the vocabulary lacks, and the characters that the model reads in parts. */
function unread({source}) {
  const lacking = kind => [...new Set(source.filter(it => it.kind === kind).map(it => it.shared ?? it.name))], unknown = lacking("unknown"), shared = lacking("shared");
  const list = names => [names.slice(0, NAMED).map((it, i) => [i ? ", " : "", bold({name: it}, "other")]), names.length > NAMED ? ` and ${names.length - NAMED} more` : ""];
  return [unknown.length ? ["The vocabulary lacks ", list(unknown), "; the model reads ‹unk› there. "] : "", shared.length ? ["The model reads ", list(shared), " in parts. "] : ""];
}

/** The other tokens that the model weighed at a place of the answer, most likely first. */
export const alternatives = (page, t) => (page.labels ? [] : choices(page, t).filter((_, i) => i !== saidAt(page, t)));

const asked = page => (page.media ? "The model read" : page.finds ? "You asked" : page.crosses || !page.writes ? "You wrote" : "You began");

function answered(page) {
  if (page.fills) return "What the model put in place of each mask, with its probability";
  if (page.finds) return page.text ? "The passage that it found, with its probability" : "It found no answer, with this probability";
  if (page.number) return "The number that it predicted";
  return page.writes ? "The model answered, each word with its probability" : page.answer.length ? `The model’s labels, each with its probability${page.label_kind ? "; ✓: in its answer" : ""}` : "";
}

export function sentence(page, state) {
  const {finds, spans} = page, seen = page.media && inputPicture(page.media, page.source, page.media.kind === "audio" ? 640 : 220, s => state.set(chooseSource(page, state.now, s)));
  /** A token as a button, with its probability, or those of a start and an end. */
  const button = (token, i, side) => {
    const said = side === "t" && (page.number ? page.labels[0][0] : (page.label_kind && token.said ? "✓ " : "") + chance(page.logprobs[i])), ends = side === "s" && spans?.allowed(i) && [spans.start[i], spans.end[i]], note = NOTES[token.kind];
    return h("button", {class: `token${token.own ? "" : " ours"}${token.kind === "label" ? " label" : ""}`, "data-side": side, "data-i": i, dir: token.own ? "auto" : null,
      "aria-label": `${token.name}${said ? ` ${said}, answer` : ", source"} token ${i + 1}${ends ? `, a start ${ends.map(chance).join(", an end ")}` : ""}${note ? `: ${note}` : ""}`, title: note,
      onclick: () => state.set(said ? {t: i, s: null} : chooseSource(page, state.now, i)),
    }, ends && h("span.ends", {"aria-hidden": "true"}, ends.map(it => h("i", {style: {height: `${100 * Math.exp(it)}%`}}))), h("span", {class: note ? "unknown" : null}, token.name),
    said && [" ", h("small", said), token.kind === "label" && !page.number && h("i.sure", {style: {width: `${(100 * Math.exp(page.logprobs[i])).toFixed(1)}%`}})]);
  };
  const row = (kind, name, ...content) => h(`div.words.${kind}`, {role: "group", "aria-label": name}, content);
  const given = seen ? [] : page.source.map((it, i) => button(finds && !i ? {...it, name: "no answer"} : it, i, "s")), between = page.source.findIndex(it => it.kind === "end");
  const source = finds ? row("source", "The question", given.slice(1, between)) : row("source", "What the model read", seen ? seen.node : given);
  const text = finds && row("source", "The text", given.filter((_, i) => !i || (i > between && page.source[i].kind !== "end")));
  const answer = row("answer", "What it answered", page.answer.map((it, i) => button(it, i, "t")));
  const {spoken} = page, sound = spoken && inputPicture(spoken, spoken.names.map(name => ({name})), 640, t => state.set({t}));
  const ribbons = g("svg.ribbons", {"aria-hidden": "true"}), say = h("p.say", {"aria-live": "polite"});
  const long = !seen && (finds || page.source.length + page.answer.length > 2 * RUNNING), apart = seen || !looks(page, 0).length;
  const stage = h("div", {class: `stage${long ? " running" : ""}${apart ? " apart" : ""}`},
    h("p.who", asked(page)), source, text && [h("p.who", "in this text, where the answer ", h("i.first"), "starts and ", h("i"), "ends"), text], answer, h("p.who", answered(page)), sound?.node, ribbons);
  const node = h("section", {id: "sentence", "aria-label": "Sentence and answer"}, stage, say);
  for (const it of [!seen && source, text, answer]) if (it) roving(it, ".token");

  function fit() {
    if (long) return draw();
    const wide = row => row.scrollWidth > row.clientWidth + 6;
    stage.classList.remove("running");
    let size = innerWidth <= 700 ? 27 : 46;
    do stage.style.setProperty("--size", `${size}px`); while (--size >= 20 && (wide(source) || wide(answer)));
    stage.classList.toggle("running", size < 20);
    draw();
  }

  function draw() {
    const {t} = state.now, paths = [], running = stage.classList.contains("running"), weights = looks(page, t);
    if (!seen) [...given, ...answer.children].forEach((it, i) => it.style.setProperty("--share", (running && weights[i]) || 0));
    if (apart || running) return ribbons.replaceChildren();
    const box = stage.getBoundingClientRect();
    const middle = (node, low) => { const at = node.getBoundingClientRect(); return [at.left - box.left + at.width / 2, (low ? at.bottom : at.top) - box.top]; };
    const above = given.map(it => middle(it, true)), below = [...answer.children].map(it => middle(it, false));
    page.answer.forEach((_, a) => {
      const on = a === t;
      looks(page, a).forEach((w, s) => {
        const earlier = s - above.length; // a token of the answer so far
        if (w < LEAST) return;
        const [x1, y1] = above[s] ?? below[earlier], [x2, y2] = below[a], half = (y1 + y2) / 2, lift = Math.min(y1, y2) - Math.min(ARCH, 10 + Math.abs(x2 - x1) / 6);
        const d = earlier < 0 ? `M${x1} ${y1 + 2}C${x1} ${half + 12} ${x2} ${half - 12} ${x2} ${y2 - 2}` : `M${x1} ${y1}C${x1} ${lift} ${x2} ${lift} ${x2} ${y2}`;
        paths.push([on, g("path", {d, class: on ? "ribbon on" : "ribbon", "stroke-width": (1 + w * (on ? 9 : 7)).toFixed(1), "stroke-opacity": (on ? 0.35 + 0.6 * w : 0.12 + 0.62 * w).toFixed(2)})]);
      });
    });
    paths.sort((a, b) => a[0] - b[0]);
    ribbons.replaceChildren(...paths.map(it => it[1]));
  }

  function update() {
    const {t, s} = state.now, weights = looks(page, t), lit = weights.length ? best(weights) : -1;
    seen?.light(weights, "Looked at", s);
    sound?.light(s === null ? [] : spoken.names.map((_, i) => looks(page, i)[s] ?? 0), `Looks at ${page.source[s]?.name}`, t);
    const found = spans && chosenSpan(page, state.now);
    given.forEach((it, i) => { it.ariaPressed = s === i; it.classList.toggle("found", i >= found?.from && i <= found.to); });
    [...answer.children].forEach((it, i) => it.ariaPressed = t === i);
    if (!seen) [...given, ...answer.children].forEach((it, i) => it.classList.toggle("lit", i === lit)); // a language model's answer continues its source
    say.replaceChildren(...plainly(page, t).flat(Infinity));
    draw();
  }
  return {node, update, fit};
}

/** Choosing a source token also shows the answer's token that looked at it most. */
function chooseSource(page, now, s) {
  if (!page.writes) return {s, ...(page.spans?.allowed(s) ? moved(page, now, s) : {})};
  const shares = page.answer.map((_, t) => looks(page, t)[s] ?? 0);
  return {s, t: Math.max(...shares) > 0 ? best(shares) : 0};
}
