// Everything about the chosen word, each block with a link to its view.

import {bar, button, g, h, label, line, token} from "./dom.js";
import {contributions, fallsOf, looks, saidAt, visible, whyRow} from "./data.js";
import {force, prefixAt, textsAt} from "./forcing.js";
import {alternatives, origin} from "./sentence.js";
import {bySize, chance, count, largestOf, ordinal, percent, signed} from "./numbers.js";
import {partKind, partName} from "./parts.js";

const SHOWN = 3;

const most = (values, n = SHOWN) => values.map((it, i) => [i, it]).sort(bySize).slice(0, n);

/** A block of the card with a link to its view. A wide one takes a whole row on a phone. */
function block(title, link, to, ...content) {
  const [view, wide] = to.split(" ");
  return h("div", {class: `block ${wide ?? ""}`}, h("h3", title, link && h("a", {href: `#${view}`, "data-view": view}, link)), ...content);
}

/** Rows with a name, a share drawn as a bar of a kind, and a number. */
const bars = rows => h("div.bars", rows.map(([it, share, kind, number]) => [it, kind ? bar(share, kind) : h("span"), h("span.number", number)]));

/** What a word's rank was after each layer, on a logarithmic scale. */
function ranks(page, at) {
  const layers = page.lens, width = 220, n = layers.length, x = i => 20 + (i * (width - 40)) / Math.max(1, n - 1);
  const found = layers.map(it => it.ranks[at] + 1), y = rank => 20 + (44 * Math.log(rank)) / Math.log(Math.max(2, page.vocabulary));
  const every = Math.ceil(n / 5), shown = i => i % every === 0 || i === n - 1;
  const name = `Rank ${found.join(", then ")} of ${count(page.vocabulary)}`;
  return g("svg.ranks", {viewBox: `0 0 ${width} 92`, role: "img", "aria-label": name},
    line(found.map((it, i) => [x(i), y(it)])),
    found.map((it, i) => [
      g("circle.dot", {cx: x(i), cy: y(it), r: 4}),
      shown(i) ? label(x(i), y(it) - 10, ordinal(it), "big mid") : null,
      shown(i) ? label(x(i), 88, i ? `layer ${i}` : "start", "small mid") : null,
    ]));
}

/** The other tokens at this place. Choosing one continues from it. */
function instead(page, asker, t) {
  const others = alternatives(page, t).slice(0, SHOWN), note = h("p.note", {"aria-live": "polite"});
  if (!others.length) return null;
  const choose = it => (page.writes ? button(it.name, () => force(page, asker, prefixAt(page, t, it.id), textsAt(page, t, it.text), note), {class: `choice ${it.own ? "own" : ""}`, dir: "auto", "aria-label": `Continue from ${it.name}`}) : token(it));
  return block("Alternatives", page.search ? "Decoding" : "", "decoding", bars(others.map(it => [choose(it), 0, "", chance(it.logp)])), note);
}

function heading(page, t) {
  if (page.finds || page.number) return "The answer";
  return `${page.writes ? "Answer token" : page.fills ? "Mask" : "Label"} ${t + 1} of ${page.answer.length}`;
}

export function card(page, state, asker) {
  const node = h("div.card");

  function update() {
    const {t} = state.now, word = page.answer[t];
    if (!word) return node.replaceChildren(h("p.who", "This model gives a vector, not an answer."));
    const p = page.logprobs[t], how = page.label_kind && word.said ? "in the answer" : origin(page, t), weights = looks(page, t), found = [instead(page, asker, t)];
    if (weights.length) found.push(block("Looked at", "Attention", "attention", bars(most(weights).map(([s, w]) => [token(visible(page, t)[s]), w, "share", percent(w)]))));
    const falls = fallsOf(page, t), lost = falls && most(falls).filter(it => Math.abs(it[1]) >= 0.5 * 10 ** -page.digits);
    if (lost?.length) {
      const largest = largestOf(page.falls.values);
      found.push(block("When hidden", ...(page.media ? ["Attention", "attention"] : ["Words", "words"]), bars(lost.map(([s, fall]) => [token(page.hideable[s]), Math.abs(fall) / largest, fall > 0 ? "against" : "for", signed(-fall, page.digits)]))));
    }
    if (page.lens) found.push(block("Rank by layer", "Layers", "layers wide", ranks(page, page.begins + t)));
    if (whyRow(page, t) !== null) {
      const top = contributions(page, t, saidAt(page, t)).sort(bySize).slice(0, 5), largest = Math.abs(top[0]?.[1]) || 1;
      found.push(block(`Top contributions${page.number ? "" : " (logits)"}`, "Why", "layers wide", bars(top.map(([name, value]) => [
        h("span", h("span", {class: `key ${partKind(name)}`}), partName(name)), Math.abs(value) / largest, value < 0 ? "against" : "for", signed(value, page.digits)]))));
    }
    return node.replaceChildren(...[h("p.who", heading(page, t)), h("h2", {class: word.own && "own", dir: "auto"}, word.name),
      h("p.sub", page.number ? page.labels[0][0] : `${chance(p)} likely${how && `, ${how}`}`), ...found].filter(it => it));
  }
  return {node, update};
}
