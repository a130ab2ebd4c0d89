// The page's data: one JSON object, whose arrays are base64 of little-endian numbers.

import {named, nameAfter, pieceName} from "./names.js";
import {chance, range, signed} from "./numbers.js";

const READ = {
  u16: [2, (view, at) => view.getUint16(at, true)],
  f32: [4, (view, at) => view.getFloat32(at, true)],
  i8: [1, (view, at) => view.getInt8(at)],
  u8: [1, (view, at) => view.getUint8(at)],
};

/** Decode an array to {shape, values}, with `values` flat. One that a model in the page computed has them already. */
export function decode(array) {
  if (array.values) return array;
  const {shape, dtype, scale, b64, steps} = array;
  const bytes = Uint8Array.from(atob(b64), it => it.charCodeAt(0)), size = shape.reduce((a, b) => a * b, 1);
  const values = new Float32Array(size);
  if (dtype === "bit") for (let i = 0; i < size; i++) values[i] = (bytes[i >> 3] >> (i & 7)) & 1;
  else {
    const [width, read] = READ[dtype], view = new DataView(bytes.buffer);
    for (let i = 0; i < size; i++) values[i] = read(view, i * width) / scale;
  }
  if (steps) {
    const per = decode(steps).values, row = shape[shape.length - 1];
    for (let i = 0; i < size; i++) values[i] /= per[Math.floor(i / row)];
  }
  return {shape, values};
}

/** An object whose arrays are decoded. */
function decoded(some) {
  const one = it => (it?.dtype ? decode(it) : it);
  return Object.fromEntries(Object.entries(some).map(([name, it]) => [name, Array.isArray(it) ? it.map(one) : one(it)]));
}

export const PLACES = {
  "encoder.self": ["Encoder, self", "source looks at source"],
  "decoder.self": ["Decoder, self", "answer so far looks back"],
  "decoder.cross": ["Decoder, cross", "answer looks at source"],
};

/** The name of a head. */
export const headName = (k, l, head) => `${PLACES[k][0]} layer ${l + 1}, head ${head + 1}`;

/** The heads of a layer that are on. */
export const headsOn = layer => (layer.on ??= range(layer.heads).filter(head => !layer.off(head)));

/** The mean of a number over the heads of a layer that are on. */
const meanOf = (layer, of) => { const on = headsOn(layer); return on.reduce((sum, head) => sum + of(head), 0) / on.length; };

const ANSWER_TOKENS = 30; // at most, as in tasks/answer/windows.py

/** The attention modules of a place by layer, each with its decoded weights and lookups. */
function attentionOf(data) {
  const found = {};
  for (const [name, it] of Object.entries(data.attention)) {
    const [stack, layer, kind] = name.split("."), weights = decode(it.weights), [, rows, columns] = weights.shape;
    const mask = it.mask ? decode(it.mask).values : null;
    (found[`${stack}.${kind}`] ??= [])[layer] = {
      name, heads: weights.shape[0], rows, columns, entropy: it.entropy, raw: it,
      off: head => isOff(data, `${name}.head.${head}`),
      at: (head, row, column) => weights.values[(head * rows + row) * columns + column],
      barred: (row, column) => mask !== null && !mask[row * columns + column],
      mean(row, column) { return meanOf(this, head => this.at(head, row, column)); },
    };
  }
  return found;
}

/** Whether a part is off, by itself or with the attention that it belongs to. */
const isOff = ({off}, name) => off.some(it => name === it || name.startsWith(`${it}.`));

/** Everything the views read, from the page's JSON. */
export function prepare(data) {
  if (data.kind !== "page" || data.format_version !== 1) {
    throw Object.assign(new Error(`This page’s data has format ${data.format_version}; expected 1. Make the page again with the same version of Clearhead.`), {name: "DataError"});
  }
  const attention = attentionOf(data), tokens = data.tokens, begins = tokens.begins ?? 0;
  const rows = {encoder: named(tokens.encoder ?? []), decoder: named(tokens.decoder ?? []), outputs: named(tokens.outputs ?? [])};
  if (data.media) rows.encoder = rows.encoder.map(it => ({...it, own: false}));
  const places = Object.keys(PLACES).filter(it => attention[it]);
  const writes = rows.outputs.length > 0, crosses = writes && rows.encoder.length > 0, fills = Boolean(data.filled), finds = data.task === "answer";
  const source = crosses || !writes ? rows.encoder : rows.decoder.slice(0, begins + 1);
  const [words, why, media, spoken, spans] = ["words", "why", "media", "spoken", "spans"].map(it => data[it] && decoded(data[it])), hideable = media?.hidden?.map(name => ({name})) ?? source;
  const answered = said(data, rows, {writes, fills, finds, begins, words}), number = data.label_kind === "number";
  return {last: ["Softmax", "exp(zᵢ) / Σ exp(zⱼ)"], digits: 2, measure: "log-probability", ...data, forced: data.forced ?? [], copies: data.parts.some(it => it.name.endsWith("pointer")), isOff: name => isOff(data, name), asked: data.source, ...answered, number, shown: number ? x => signed(x, data.digits).replace("+", "") : chance, lastStep: data.parts.length - (answered.answer.length ? 0 : 1), measured: Object.values(data.without ?? {}).some(it => it.change !== null), attention, rows, places, writes, crosses, fills, finds, source, begins, words, why, media, spoken, hideable, falls: (words ?? media)?.falls, spans: spans && spansOf(spans)};
}

/** How far the log-probability of the answer's token t falls when each of `page.hideable` is hidden, or null. */
export function fallsOf(page, t, method = "falls") {
  const {shape: [size, columns], values} = page.words?.[method] ?? page.falls ?? {shape: []};
  return t < columns ? Array.from({length: size}, (_, s) => values[s * columns + t]) : null;
}

/** How likely an answer starts and ends at each position; position 0 stands for none. */
function spansOf({found, logprobs: {values}, text, places}) {
  const letters = [...text], start = places.map((_, s) => values[2 * s]), end = places.map((_, s) => values[2 * s + 1]), allowed = s => s === 0 || Boolean(places[s]);
  const of = (from, to) => ({from, to, name: places[from] ? letters.slice(places[from][0], places[to][1]).join("") : "no answer", logp: start[from] + end[to], score: start[from] + end[to] - start[0] - end[0]});
  const answers = start.flatMap((_, a) => (places[a] ? end.slice(a, a + ANSWER_TOKENS).flatMap((_, n) => (places[a + n] ? [of(a, a + n)] : [])) : []));
  return {own: of(...(found ?? [0, 0])), start, end, allowed, of, best: [...answers, of(0, 0)].sort((a, b) => b.logp - a.logp).slice(0, 6)};
}

/** What the model answered: tokens, fillings, a passage, all labels or a number, each with its log-probability and its place in `alternatives`. */
function said(data, rows, {writes, fills, finds, begins, words}) {
  if (writes) return {answer: rows.outputs.slice(begins), logprobs: data.logprobs.slice(begins)};
  if (fills) return {answer: data.filled.map(text => ({name: pieceName(text), own: true})), logprobs: data.logprobs};
  if (finds) return {answer: [{name: data.text || "no answer", own: Boolean(data.text)}], logprobs: [words ? words.whole.values[0] : 0]};
  const labels = data.labels ?? [];
  return {answer: labels.map(([name, , , said]) => ({name: data.label_kind === "number" ? data.text : name, own: false, kind: "label", said})), logprobs: labels.map(([, p]) => p)};
}

/** What could have been said at a place of the answer, most likely first: [text, log-probability, id]. Labels have one place. */
export const candidates = (page, t) => (page.labels ? page.labels : page.alternatives?.[page.begins + t]) ?? [];

/** The tokens that could have been said at a place of the answer, most likely first, with their names. */
export const choices = (page, t) => candidates(page, t).map(([text, p, id]) => ({name: page.labels ? text : nameAfter(() => (page.writes ? page.tokens.outputs.slice(0, page.begins + t) : []), text), own: !page.labels && text !== "</s>", text, id, logp: p}));

/** How the log-probability of the answer or label t changes without a part, or null. */
export const changeOf = (page, name, t) => { const it = page.without?.[name]; return page.labels && it ? it.logprobs[t] - page.logprobs[t] : it?.change ?? null; };

/** The row of `page.why` for a place of the answer, or null if it has none. */
export const whyRow = (page, t) => { const row = page.labels ? 0 : page.begins + t; return page.why && row < page.why.parts.shape[1] ? row : null; };

/** What each part added to the logit of candidate `one` at a place, less what it added to that of `other` if there is one: [[part, value]]. */
export function contributions(page, t, one, other = null) {
  const {names, parts: {shape: [, rows, k], values}} = page.why, row = whyRow(page, t), at = (p, choice) => values[(p * rows + row) * k + choice];
  return names.map((name, p) => [name, at(p, one) - (other === null ? 0 : at(p, other))]).filter(([name]) => !page.isOff(name));
}

/** The logit of a candidate, or the difference of two. */
export function logitOf(page, t, one, other = null) {
  const {shape: [, k], values} = page.why.logits, row = whyRow(page, t);
  return values[row * k + one] - (other === null ? 0 : values[row * k + other]);
}

/** The place of what was said among its candidates. */
export const saidAt = (page, t) => {
  const id = page.writes ? page.tokens.outputs[page.begins + t].id : page.labels?.[t]?.[2];
  return Math.max(0, candidates(page, t).findIndex(([text, , own]) => (page.fills ? text === page.filled[t] : own === id)));
};

/** The tokens that label the rows and columns of an attention at a place. */
export function axes(page, place) {
  const stack = place.split(".")[0];
  if (place === "decoder.cross") return [page.rows.outputs, page.rows.encoder];
  return [page.rows[stack], page.rows[stack]];
}

/** The row of the chosen token in an attention: of the source in an encoder, else of the answer. */
export const rowOf = (page, place, state) => (place === "encoder.self" ? state.s : page.begins + state.t);

/** What a head looks at most, in words. */
export function finding(page, place, layer, head) {
  let found = [0, 0], most = -1;
  for (let r = 0; r < layer.rows; r++) for (let c = 0; c < layer.columns; c++) {
    const choice = !layer.off(head) && !layer.barred(r, c) && (r > 0 || place !== "decoder.self");
    if (choice && layer.at(head, r, c) > most) [found, most] = [[r, c], layer.at(head, r, c)];
  }
  const [rows, columns] = axes(page, place);
  return layer.off(head) ? "switched off" : most < 0 ? "one token" : `${rows[found[0]].name} looks most at ${columns[found[1]].name}, ${most.toFixed(3)}`;
}

/** What the model could look at before the answer's token t: the source, or in a language model all tokens until then. */
export const visible = (page, t) => (page.crosses || !page.writes ? page.source : page.rows.decoder.slice(0, page.begins + t + 1));

/** How much the answer's token t looks at each visible token: the mean over heads at the aligning layer, or at a language model's last. */
export function looks(page, t) {
  const layers = page.attention[page.crosses ? "decoder.cross" : page.writes ? "decoder.self" : "encoder.self"], layer = layers?.[page.crosses ? page.alignment_layer : layers.length - 1];
  if (!layer || !headsOn(layer).length) return [];
  if (page.writes) return visible(page, t).map((_, s) => layer.mean(page.begins + t, s));
  if (!page.media?.maps) return [];
  const {shape: [, , size], values} = page.media.maps.at(-1); // a label: how the model's head reads the positions of the last layer
  return page.source.map((_, s) => meanOf(layer, head => values[head * size + s]));
}
