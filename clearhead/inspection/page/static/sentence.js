// The sentence and its answer, joined by ribbons; and one plain sentence about the chosen word.

import {g, h, roving} from "./dom.js";
import {candidates, looks, pieceName, saidAt} from "./data.js";
import {inputPicture} from "./media.js";
import {logp, percent} from "./numbers.js";

const LEAST = 0.03, RUNNING = 40; // attention that is drawn; tokens from which a sentence is set as running text

const best = values => values.reduce((at, it, i) => (it > values[at] ? i : at), 0);

/** The word to choose at first: the one whose strongest source is furthest from the diagonal. */
export function firstChoice(page) {
  let found = 0, furthest = -1;
  page.answer.forEach((token, t) => {
    const weights = looks(page, t);
    if (!token.own || !weights.length) return;
    const s = best(weights), away = Math.abs(s / page.source.length - t / page.answer.length) * weights[s];
    if (page.source[s].own && away > furthest) [found, furthest] = [t, away];
  });
  return found;
}

const word = it => (it.kind === "end" ? "the end" : h("b", {dir: "auto"}, it.name));

/** What was said, in half a sentence that goes on with where the model looked. */
function opening(page, t) {
  const token = page.answer[t], p = percent(Math.exp(page.logprobs[t]));
  if (!token) return ["The model read this and gave a vector."];
  if (page.fills) return ["In place of mask ", String(t + 1), ", the model put ", word(token), ` with a probability of ${p}. `];
  if (page.finds) return token.own ? ["The model found ", word(token), " in the text. "] : ["The model found no answer in the text. "];
  if (!page.writes) {
    const second = page.answer[1];
    return ["The model answered ", word(page.answer[0]), ` with a probability of ${percent(Math.exp(page.logprobs[0]))}`, second ? ["; its second choice was ", word(second), `, at ${percent(Math.exp(page.logprobs[1]))}`] : "", ". "];
  }
  const weights = looks(page, t), begin = token.kind === "end" ? ["To stop"] : ["To write ", word(token)];
  if (!weights.length) return [...begin, `, the model was ${p} sure. `];
  const s = best(weights), where = page.crosses ? `layer ${page.alignment_layer}` : "the last layer", looked = page.source[s];
  return [...begin, ", the model looked", page.media ? ` most at ${looked.name}` : [" at ", looked.kind === "end" ? "the end of the sentence" : word(looked)], ` (${percent(weights[s])} of its attention in ${where}). `];
}

/** What the numbers say about a word. It never says "because": attention is where the model looked, hiding is what it needed. */
export function plainly(page, t) {
  const parts = [opening(page, t)], token = page.answer[t], falls = token && page.words && fallsOf(page, t);
  if (falls) {
    const s = best(falls), each = page.writes || page.fills;
    if (falls[s] > 0.01) parts.push("Hide ", word(page.source[s]), " and the log-probability", each ? [" of ", token.kind === "end" ? "stopping" : word(token)] : "", ` falls to ${logp((each ? page.logprobs[t] : page.logprobs[0]) - falls[s])}. `);
  }
  const other = (page.writes || page.fills) && token && alternatives(page, t)[0];
  if (other) parts.push("Its second choice here was ", h("b", {class: "other", dir: "auto"}, other.name), `, at ${percent(Math.exp(other.logp))}. `);
  if (page.writes && page.answer.length === 1 && token.kind === "end") parts.push("The answer is empty. ");
  if (page.writes && page.rows.outputs.at(-1).kind !== "end") parts.push(`The answer was stopped at ${page.answer.length} tokens. `);
  const unknown = page.source.filter(it => it.kind === "unknown").length;
  if (unknown) parts.push(`The model doesn’t know ${unknown === 1 ? "one word" : `${unknown} words`} of the text; it reads ‹unk› there. `);
  return parts;
}

/** How far the log-probability of the answer's token t falls when each source token is hidden. A label or passage is one. */
export function fallsOf(page, t, method = "falls") {
  const {shape: [size, columns], values} = page.words[method], column = page.writes || page.fills ? t : 0;
  return column < columns ? Array.from({length: size}, (_, s) => values[s * columns + column]) : null;
}

/** The other tokens that the model weighed at a place of the answer, likeliest first. */
export function alternatives(page, t) {
  if (page.labels) return [];
  const said = saidAt(page, t);
  return candidates(page, t).map(([text, p, id]) => ({name: pieceName(text), text, id, logp: p})).filter((_, i) => i !== said);
}

const asked = page => (page.media ? "The model read" : page.crosses || !page.writes ? "You wrote" : "You began");

function answered(page) {
  if (page.fills) return "What the model put in place of each mask, with its probability";
  if (page.finds) return "The passage that it found, with its probability";
  return page.writes ? "The model answered, each word with its probability" : page.answer.length ? "The model’s labels, each with its probability" : "";
}

export function sentence(page, state) {
  const found = i => page.finds && page.span && i >= page.span[0] && i <= page.span[1];
  const button = (token, i, side) => h("button", {
    class: `token${token.own ? "" : " ours"}${token.kind === "label" ? " label" : ""}${side === "s" && found(i) ? " found" : ""}`, "data-side": side, "data-i": i, dir: token.own ? "auto" : null,
    "aria-label": `${token.name}${side === "t" ? ` ${percent(Math.exp(page.logprobs[i]))}` : ""}, ${side === "t" ? "answer" : "source"} token ${i + 1}${token.kind === "unknown" ? ", a word that the model doesn’t know" : ""}`,
    onclick: () => state.set(side === "t" ? {t: i, s: null} : chooseSource(page, i)),
  }, h("span", {class: token.kind === "unknown" ? "unknown" : null}, token.name), side === "t" ? [" ", h("small", {}, percent(Math.exp(page.logprobs[i]))), token.kind === "label" ? h("i", {class: "sure", style: {width: `${(100 * Math.exp(page.logprobs[i])).toFixed(1)}%`}}) : null] : null);
  const seen = page.media && inputPicture(page, page.media.kind === "audio" ? 640 : 220, s => state.set(chooseSource(page, s)));
  const source = h("div", {class: "words source", role: "group", "aria-label": "What the model read"}, seen ? seen.node : page.source.map((it, i) => button(it, i, "s")));
  const answer = h("div", {class: "words answer", role: "group", "aria-label": "What it answered"}, page.answer.map((it, i) => button(it, i, "t")));
  const ribbons = g("svg", {class: "ribbons", "aria-hidden": "true"}), say = h("p", {class: "say", "aria-live": "polite"});
  const running = !seen && (page.finds || page.source.length + page.answer.length > 2 * RUNNING), apart = seen || !looks(page, 0).length;
  const stage = h("div", {class: `stage${running ? " running" : ""}${apart ? " apart" : ""}`},
    h("p", {class: "who"}, asked(page)), source, answer, h("p", {class: "who"}, answered(page)), ribbons);
  const node = h("section", {id: "sentence", "aria-label": "Sentence and answer"}, stage, say);
  if (!seen) roving(source, ".token");
  roving(answer, ".token");

  function fit() {
    if (running) return draw();
    const wide = row => row.scrollWidth > row.clientWidth + 6;
    stage.classList.remove("wraps");
    let size = innerWidth <= 700 ? 27 : 46;
    do stage.style.setProperty("--size", `${size}px`); while (--size >= 20 && (wide(source) || wide(answer)));
    stage.classList.toggle("wraps", size < 20);
    draw();
  }

  function draw() {
    if (apart || running) return;
    const {t} = state.now, box = stage.getBoundingClientRect(), paths = [], wraps = stage.classList.contains("wraps");
    const middle = (node, low) => { const at = node.getBoundingClientRect(); return [at.left - box.left + at.width / 2, (low ? at.bottom : at.top) - box.top]; };
    const above = [...source.children].map(it => middle(it, true)), below = [...answer.children].map(it => middle(it, false));
    page.answer.forEach((_, a) => {
      const on = a === t;
      if (wraps && !on) return;
      looks(page, a).forEach((w, s) => {
        if (w < LEAST || !above[s]) return;
        const [x1, y1] = above[s], [x2, y2] = below[a], half = (y1 + y2) / 2;
        paths.push([on, g("path", {
          d: `M${x1} ${y1 + 2}C${x1} ${half + 12} ${x2} ${half - 12} ${x2} ${y2 - 2}`, class: on ? "ribbon on" : "ribbon",
          "stroke-width": (1 + w * (on ? 9 : 7)).toFixed(1), "stroke-opacity": (on ? 0.35 + 0.6 * w : 0.12 + 0.62 * w).toFixed(2),
        })]);
      });
    });
    paths.sort((a, b) => a[0] - b[0]);
    ribbons.replaceChildren(...paths.map(it => it[1]));
  }

  function update() {
    const {t, s} = state.now, weights = looks(page, t), lit = weights.length ? best(weights) : -1;
    seen?.light(weights.length ? weights : page.source.map(() => 0), "Looked at", s);
    if (!seen) [...source.children].forEach((it, i) => {
      it.setAttribute("aria-pressed", s === i);
      it.classList.toggle("lit", i === lit);
      if (running) it.style.setProperty("--share", weights[i] ?? 0);
    });
    [...answer.children].forEach((it, i) => it.setAttribute("aria-pressed", t === i));
    say.replaceChildren(...plainly(page, t).flat(Infinity));
    draw();
  }
  return {node, update, fit};
}

/** Choosing a source token also shows the answer's token that looked at it most. */
function chooseSource(page, s) {
  const shares = page.answer.map((_, t) => looks(page, t)[s] ?? 0);
  return {s, t: Math.max(...shares) > 0 ? best(shares) : 0};
}
