// What the page shows about an answer, as `page_data` in Python returns it. The arrays are typed ones instead of base64.

import {logSoftmax} from "./matrix.js";
import {Watch} from "./layers.js";
import {mostLikely, verdict} from "./search.js";
import {reasons} from "./reasons.js";
import {breather} from "./session.js";

const BIN = 0.1, BINS = 300; // width and number of bins for the log-probabilities of tokens that aren't candidates
const ALTERNATIVES = 8, LENS = 3, VALUES = 8; // tokens at each place, tokens of a layer, numbers of a vector
const QUICK = 1e8, COSTLY = 4e9; // multiplications that nobody notices, and those that nobody wants to wait for

/** Answer questions with a session. `show` gets the page once there is an answer; the returned one has everything. */
export const answerer = session => async (question, signal, show, write) => {
  const breathe = breather(signal), found = await session.answer(question.text, question, breathe, write);
  const page = pageOf(session, found, question);
  show(page);
  await breathe();
  return measured(session, found, question, page, breathe);
};

/** All that is known as soon as there is an answer. */
function pageOf(session, found, {text, prefix, off}) {
  const {about, decoder} = session, {watch, said, logprobs} = found;
  const candidates = said.map((id, t) => withSaid(mostLikely(logprobs.row(t), ALTERNATIVES), id));
  const spelled = id => session.target.spell(id);
  return {
    ...about.page, source: text, text: session.text(text, found, found.best.ids), prefix, forced: found.forced, off, tokens: tokensOf(session, found),
    logprobs: said.map((id, t) => logprobs.row(t)[id]), vocabulary: logprobs.cols,
    alternatives: candidates.map((ids, t) => ids.map(id => [spelled(id), logprobs.row(t)[id], id])),
    parts: about.parts.map(it => ({...it, ...recorded(watch, it.name)})),
    attention: Object.fromEntries([...watch.calls].map(([name, call]) => [name, attentionOf(name, call)])),
    residuals: [...watch.parts].filter(([name]) => /add_norm_\d$/.test(name)).map(([name, it]) => [name, meanNorm(it.input), meanNorm(it.output)]),
    search: searchOf(session, found, text, spelled, candidates),
    why: said.length ? reasons(decoder, watch, candidates) : undefined,
    lens: lensCost(session, found) < QUICK ? lensOf(session, found) : undefined,
    without: Object.fromEntries(switches(session).map(({name}) => [name, {logprobs: [], change: null, text: null, score: null}])),
  };
}

/** Candidates with what was said among them. */
const withSaid = (ids, said) => (ids.includes(said) ? ids : [...ids.slice(0, -1), said]);

/** The tokens that each stack read and what was said, each with its kind: text, or the name of a special token. */
function tokensOf({encoder, source, target, about: {special}}, {source: read, inputs, said, begins, unknown}) {
  const {pad, bos, start, unk, eos} = special, kinds = {[pad]: "pad", [bos]: "start", [start]: "start", [unk]: "unknown", [eos]: "end"};
  const named = (ids, tokenizer) => ids.map(id => ({text: tokenizer.spell(id), id, kind: kinds[id] ?? "text"}));
  const first = named(read ?? inputs, source), written = unknown.values();
  for (const it of first) if (it.kind === "unknown") it.written = written.next().value ?? "";
  return {...(encoder ? {encoder: first} : {}), decoder: encoder ? named(inputs, target) : first, outputs: named(said, target), begins};
}

function searchOf(session, {search, inputs, begins, logprobs}, text, spelled, candidates) {
  const textOf = ids => (session.encoder ? session.text(text, {inputs, begins}, ids) : session.target.decode(ids));
  return {
    nodes: search.nodes.map(it => ({...it, token: spelled(it.id)})), cache_lengths: search.cacheLengths, sampled: false, others: othersOf(logprobs, candidates),
    answers: search.best.map(({ids, ...it}) => ({...it, text: textOf(ids)})), verdict: [verdict(search.best)],
  };
}

/** How many tokens other than the candidates have each log-probability, in bins. */
function othersOf(logprobs, candidates) {
  const values = new Float32Array(candidates.length * BINS), add = (t, id, n) => { values[t * BINS + Math.min(BINS - 1, Math.floor(-logprobs.row(t)[id] / BIN))] += n; };
  candidates.forEach((ids, t) => { for (let id = 0; id < logprobs.cols; id++) add(t, id, 1); ids.forEach(id => add(t, id, -1)); });
  return {shape: [candidates.length, BINS], values};
}

/** A part's shape and time, and the first numbers of every position before and after it. An attention includes its projections. */
function recorded(watch, name) {
  const call = watch.calls.get(name), inside = it => watch.parts.get(`${name}.${it}`), own = watch.parts.get(name);
  const input = call ? (inside("qkv") ?? inside("q")).input : own.input, output = call ? inside("out").output : own.output;
  const all = call ? [call, ...["qkv", "q", "out"].map(inside)] : [inside("norm") ?? own]; // of a residual connection, only the norm
  return {
    shape: [1, output.rows, output.cols], values: firstValues(output), milliseconds: all.reduce((sum, it) => sum + (it?.milliseconds ?? 0), 0),
    input_shape: input ? [1, input.rows, input.cols] : [], inputs: input ? firstValues(input) : [],
  };
}

const firstValues = x => Array.from({length: x.rows}, (_, t) => Array.from(x.row(t).subarray(0, VALUES)));

/** The weights of an attention, and what made its scores. */
function attentionOf(name, {q, k, heads, groups, width, weights, lse, sees}) {
  const size = q.rows * k.rows, causal = name.startsWith("decoder") && name.endsWith("self");
  return {
    weights: {shape: [heads, q.rows, k.rows], values: weights}, lse: {shape: [heads, q.rows], values: lse},
    entropy: Array.from({length: heads}, (_, head) => entropy(weights.subarray(head * size, (head + 1) * size)) / q.rows),
    q: byHead(q, width, Array.from({length: heads}, (_, head) => head)),
    k: byHead(k, width, Array.from({length: heads}, (_, head) => Math.floor((head * groups) / heads))),
    mask: causal ? maskOf(q.rows, k.rows, sees) : undefined,
  };
}

/** (T, G*K) -> (H, T, K), given the group of each head. */
function byHead(x, width, groups) {
  const values = new Float32Array(groups.length * x.rows * width);
  groups.forEach((group, head) => {
    for (let t = 0; t < x.rows; t++) values.set(x.row(t).subarray(group * width, (group + 1) * width), (head * x.rows + t) * width);
  });
  return {shape: [groups.length, x.rows, width], values};
}

function maskOf(queries, keys, sees) {
  const values = new Float32Array(queries * keys);
  for (let t = 0; t < queries; t++) { const [first, end] = sees(t); values.fill(1, t * keys + first, t * keys + end); }
  return {shape: [queries, keys], values};
}

/** In bits, summed over rows of weights. */
const entropy = weights => Math.max(0, weights.reduce((sum, w) => sum - (w > 0 ? w * Math.log2(w) : 0), 0));

/** The mean length of the rows. */
function meanNorm(x) {
  let sum = 0;
  for (let t = 0; t < x.rows; t++) sum += Math.hypot(...x.row(t));
  return sum / x.rows;
}

const lensCost = ({decoder: {blocks, projection}}, {said}) => blocks.length * said.length * projection.weight.data.length;

/** What each layer would have predicted, using the model's final norm and projection (logit lens). */
function lensOf({decoder, target}, {watch, said}) {
  const silent = new Watch(), states = [["embedded", "decoder.embedded"], ...decoder.blocks.map((it, n) => [`layer ${n}`, it.name])];
  return states.map(([name, part], n) => {
    const last = n === decoder.blocks.length, state = watch.parts.get(part).output;
    const p = logSoftmax(last ? watch.parts.get("decoder.projection").output.copy() : decoder.project(decoder.norm.forward(state, silent), silent));
    const best = said.map((_, t) => mostLikely(p.row(t), LENS));
    return {
      name, tokens: best.map(ids => ids.map(id => target.spell(id))), probabilities: best.map((ids, t) => ids.map(id => Math.exp(p.row(t)[id]))),
      ranks: said.map((id, t) => p.row(t).reduce((n, it) => n + (it > p.row(t)[id]), 0)),
    };
  });
}

/** The parts that can be switched off, in the order of computation. */
function switches({encoder, decoder}) {
  const of = part => [part.name, ...Array.from({length: part.heads ?? 0}, (_, head) => `${part.name}.head.${head}`)];
  return [encoder, decoder].filter(it => it).flatMap(stack => stack.blocks.flatMap(({subLayers}, layer) =>
    subLayers.flatMap(([part]) => of(part)).map(name => ({stack, layer, name}))));
}

/** A page with what takes longer: what changes without each token of the input, and without each part. */
async function measured(session, found, {off}, page, breathe) {
  const read = found.source ?? found.inputs.slice(0, found.begins + 1), left_out = [...page.left_out];
  const pass = page.model.parameters * (found.inputs.length + (found.source?.length ?? 0));
  const why = "it takes too long in a browser for a model of this size";
  const affordable = (cost, what) => cost < COSTLY || (left_out.push({what, why}), false);
  const words = affordable(pass * read.length, "words that mattered") ? await occlusion(session, found, read, off, breathe) : undefined;
  const parts = affordable((pass * switches(session).length) / 2, "the change of the score without each part");
  const lens = page.lens ?? (affordable(lensCost(session, found), "what each layer would have predicted") ? lensOf(session, found) : undefined);
  return {...page, words, lens, without: parts ? await partsOff(session, found, off, breathe) : page.without, left_out};
}

/** The log-probabilities of what was said after the prompt. */
const pick = (logprobs, {said, begins}) => said.slice(begins).map((id, i) => logprobs.row(begins + i)[id]);

/** How far the log-probabilities fall when each token of the input is hidden, (S, R): the unknown token takes its place. */
async function occlusion(session, found, read, off, breathe) {
  const {encoder, about: {special}} = session, watch = new Watch({off}), whole = pick(found.logprobs, found);
  const falls = new Float32Array(read.length * whole.length);
  for (let s = 0; s < read.length; s++) {
    const hidden = ids => ids.map((id, i) => (i === s ? special.unk : id));
    const pass = encoder ? {inputs: found.inputs, memory: session.encode(hidden(read), watch)} : {inputs: hidden(found.inputs), memory: null};
    pick(session.reread(pass, watch), found).forEach((it, r) => { falls[s * whole.length + r] = whole[r] - it; });
    await breathe();
  }
  return {whole: {shape: [whole.length], values: Float32Array.from(whole)}, falls: {shape: [read.length, whole.length], values: falls}};
}

/** What changes without each part. What was computed before the part isn't computed again. */
async function partsOff(session, found, off, breathe) {
  const {encoder, decoder} = session, whole = pick(found.logprobs, found), result = {}, kept = name => found.watch.parts.get(name).output;
  for (const {stack, layer, name} of switches(session)) {
    const watch = new Watch({off: [...off, name]}), before = kept(layer ? stack.blocks[layer - 1].name : `${stack.name}.embedded`);
    const memory = stack === encoder ? decoder.memory(encoder.through(before, [encoder.span(0, before.rows)], watch, layer), watch) : found.memory;
    const [x, from] = stack === decoder ? [before, layer] : [kept("decoder.embedded"), 0];
    const states = decoder.through(x, [decoder.span(0, x.rows, {memory})], watch, from), logprobs = pick(logSoftmax(decoder.project(states, watch)), found);
    result[name] = {logprobs, change: logprobs.reduce((sum, it, i) => sum + it - whole[i], 0), text: null, score: null};
    await breathe();
  }
  return result;
}
