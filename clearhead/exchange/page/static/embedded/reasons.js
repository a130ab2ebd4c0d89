// What each part of a decoder contributed to the logits of some tokens (direct logit attribution, Elhage et al. 2021).
//
// The input of the projection is a sum of the embedding, the positions, and the output of each head and feed-forward
// network. A norm divides by a scale. With the scale of the recorded pass, it's linear, so a logit is a sum of one term a part.

import {Identity} from "./layers.js";

/** The contributions to the logits of the candidates at each place, (T, C). -> {names, parts (P, T, C), logits (T, C), error} */
export function reasons(decoder, watch, candidates) {
  const {weight, bias} = decoder.projection, terms = outputTerms(decoder, watch), d = weight.cols, rows = candidates.length, wide = candidates[0].length;
  const names = [...terms.map(it => it[0]), ...(bias ? ["projection.bias"] : [])], own = watch.parts.get("decoder.projection").output;
  const parts = new Float32Array(names.length * rows * wide), logits = new Float32Array(rows * wide);
  let error = 0;
  const contribution = (p, t, id) => {
    if (p === terms.length) return bias.data[id];
    let value = 0;
    for (let i = 0; i < d; i++) value += terms[p][1][t * d + i] * weight.data[id * d + i];
    return value * decoder.logitScale;
  };
  candidates.forEach((ids, t) => ids.forEach((id, c) => {
    const values = names.map((_, p) => contribution(p, t, id)), at = t * wide + c;
    values.forEach((it, p) => { parts[p * rows * wide + at] = it; });
    logits[at] = own.data[t * own.cols + id];
    error = Math.max(error, Math.abs(values.reduce((a, b) => a + b, 0) - logits[at]));
  }));
  return {names, parts: {shape: [names.length, rows, wide], values: parts}, logits: {shape: [rows, wide], values: logits}, error};
}

/** The output of a stack as what each part added to it: [name, values (T, D) in float64]. */
function outputTerms(stack, watch) {
  const {name, embeddingNorm, blocks, norm} = stack, part = it => watch.parts.get(it), wide = x => Float64Array.from(x.data);
  const tokens = wide(part(`${name}.embedding`).output), whole = wide(embeddingNorm ? part(embeddingNorm.name).input : part(`${name}.embedded`).output);
  const places = whole.map((it, i) => it - tokens[i]);
  let terms = [[`${name}.embedding`, tokens], ...(places.some(it => it) ? [[`${name}.positions`, places]] : [])];
  if (embeddingNorm) terms = normalised(terms, embeddingNorm, part(embeddingNorm.name).input);
  for (const block of blocks) for (const [layer, addNorm] of block.subLayers) {
    terms.push(...added(layer, block, watch));
    if (!addNorm.preNorm) terms = normalised(terms, addNorm.norm, part(addNorm.norm.name).input);
  }
  return norm instanceof Identity ? terms : normalised(terms, norm, part(norm.name).input);
}

/** The terms that a sub-layer added; zeros if it's off. Each head is one, since W_O sums over heads. */
function added(layer, block, watch) {
  const off = watch.off.has(layer.name), values = x => (off ? new Float64Array(x.length) : x);
  if (layer === block.feedForward) return [[layer.name, values(Float64Array.from(watch.parts.get(layer.name).output.data))]];
  const {output, heads, width} = watch.calls.get(layer.name), {weight: {rows: d, cols, data}, bias} = layer.out, found = [];
  for (let head = 0; head < heads; head++) {
    const x = new Float64Array(output.rows * d);
    for (let t = 0; t < output.rows; t++) for (let f = 0; f < d; f++) for (let i = head * width; i < (head + 1) * width; i++) {
      x[t * d + f] += output.data[t * cols + i] * data[f * cols + i];
    }
    found.push([`${layer.name}.head.${head}`, values(x)]);
  }
  return bias ? [...found, [`${layer.name}.bias`, values(repeated(bias.data, output.rows))]] : found;
}

/** Apply a norm to each term, with the scale of the recorded pass. */
function normalised(terms, norm, x) {
  const scales = Array.from({length: x.rows}, (_, t) => norm.measure(x, t)[1]), d = x.cols;
  const scaled = values => {
    const out = new Float64Array(values.length);
    for (let t = 0; t < x.rows; t++) {
      let mean = 0;
      if (norm.centred) for (let i = 0; i < d; i++) mean += values[t * d + i] / d;
      for (let i = 0; i < d; i++) out[t * d + i] = (values[t * d + i] - mean) * scales[t] * norm.weight.data[i];
    }
    return out;
  };
  const found = terms.map(([name, values]) => [name, scaled(values)]);
  return norm.bias ? [...found, [`${norm.name}.bias`, repeated(norm.bias.data, x.rows)]] : found;
}

const repeated = (values, rows) => Float64Array.from({length: rows * values.length}, (_, i) => values[i % values.length]);
