// The layers of the paper, in the paper's order: attention, feed-forward, norms, residual.
//
// Axes: T queries, S keys, D width of the model, H heads, G heads of keys and values, K width of a head, F outputs.
// A `watch` keeps what parts read and gave, and switches parts off. It's an argument, so that looking changes nothing.

import {Matrix, columns, product, sum} from "./matrix.js";

/** What to keep of a pass, and what to leave out of it. */
export class Watch {
  constructor({off = [], keeps = false} = {}) {
    Object.assign(this, {off: new Set(off), keeps, parts: new Map(), calls: new Map()});
  }

  /** Run a part, and keep what it read and gave. */
  part(name, x, forward) {
    if (!this.keeps) return forward(x);
    const start = performance.now(), output = forward(x);
    this.parts.set(name, {input: x, output, milliseconds: performance.now() - start});
    return output;
  }

  /** The output of a sub-layer, or zeros if it's off. What it would have computed is kept. */
  unlessOff(name, x, forward) {
    const off = this.off.has(name), output = off && !this.keeps ? null : forward();
    return off ? new Matrix(x.rows, x.cols) : output;
  }
}

/** x W^T + b. (T, D) -> (T, F) */
export class Linear {
  constructor(name, weight, bias = null) { Object.assign(this, {name, weight, bias}); }

  forward(x, watch) {
    return watch.part(this.name, x, () => {
      const out = product(x, this.weight);
      if (this.bias) for (let t = 0; t < out.rows; t++) for (let f = 0; f < out.cols; f++) out.data[t * out.cols + f] += this.bias.data[f];
      return out;
    });
  }
}

/**
 * softmax(Q K^T / sqrt(d_k)) V for one query of one head: Equation 1.
 *
 * Writes the output (K,) to `out`, and the weights to `weights` (S,). Only the keys from `first` to `end` may be attended to.
 * Returns the logarithm of the sum in the softmax.
 */
function attendOne({q, k, v, width, at, head, group, first, end, bias}, out, weights) {
  const scale = 1 / Math.sqrt(width), from = at * q.cols + head * width, to = at * out.cols + head * width;
  let largest = -Infinity, total = 0;
  for (let s = first; s < end; s++) {
    const key = s * k.cols + group * width;
    let score = 0;
    for (let i = 0; i < width; i++) score += q.data[from + i] * k.data[key + i];
    score = score * scale + (bias ? bias(head, at, s) : 0);
    weights[s] = score;
    if (score > largest) largest = score;
  }
  for (let s = first; s < end; s++) total += weights[s] = Math.exp(weights[s] - largest);
  for (let s = first; s < end; s++) {
    const weight = (weights[s] /= total), value = s * v.cols + group * width;
    for (let i = 0; i < width; i++) out.data[to + i] += weight * v.data[value + i];
  }
  return largest + Math.log(total);
}

/**
 * Equation 1 for all heads. Each of the G heads of keys and values serves H / G heads of queries.
 *
 * q (T, H*K), k and v (S, G*K), sees(t) -> [first, end) of the keys -> (T, H*K)
 */
function attend(name, q, k, v, {heads, groups, width, sees, bias = null}, watch) {
  const out = new Matrix(q.rows, q.cols), scratch = new Float64Array(k.rows), start = performance.now();
  const kept = watch.keeps ? {weights: new Float32Array(heads * q.rows * k.rows), lse: new Float32Array(heads * q.rows)} : null;
  for (let head = 0; head < heads; head++) {
    if (watch.off.has(`${name}.head.${head}`) && !kept) continue;
    const group = Math.floor((head * groups) / heads);
    for (let t = 0; t < q.rows; t++) {
      const [first, end] = sees(t), sums = attendOne({q, k, v, width, at: t, head, group, first, end, bias}, out, scratch), row = head * q.rows + t;
      if (!kept) continue;
      kept.lse[row] = sums;
      for (let s = first; s < end; s++) kept.weights[row * k.rows + s] = scratch[s];
    }
    if (watch.off.has(`${name}.head.${head}`)) for (let t = 0; t < q.rows; t++) out.data.fill(0, t * q.cols + head * width, t * q.cols + (head + 1) * width);
  }
  if (kept) watch.calls.set(name, {q, k, output: out, heads, groups, width, sees, ...kept, milliseconds: performance.now() - start});
  return out;
}

/** MultiHeadAttention(x, x, x) with one product for queries, keys and values. */
export class SelfAttention {
  constructor(name, qkv, out, {heads, groups, width, rescale}) { Object.assign(this, {name, qkv, out, heads, groups, width, rescale}); }

  forward(x, spans, watch) { // (T, D) -> (T, D)
    const {heads, groups, width} = this, own = heads * width, shared = groups * width, projected = this.qkv.forward(x, watch), merged = new Matrix(x.rows, own);
    for (const {start, end, positions, first, cache, sees} of spans) {
      const rows = projected.span(start, end), q = columns(rows, 0, own), k = columns(rows, own, shared), v = columns(rows, own + shared, shared);
      positions.rotate(q, first);
      positions.rotate(k, first);
      multiply(q, this.rescale);
      const [keys, values] = cache ? cache.append(this.name, k, v) : [k, v];
      const bias = positions.bias && ((head, t, s) => positions.bias(head, s - first - t));
      merged.data.set(attend(this.name, q, keys, values, {heads, groups, width, sees: t => sees(first + t, keys.rows), bias}, watch).data, start * own);
    }
    return this.out.forward(merged, watch);
  }
}

/** MultiHeadAttention(x, memory, memory) with one product for keys and values. */
export class CrossAttention {
  constructor(name, q, kv, out, {heads, groups, width, rescale}) { Object.assign(this, {name, q, kv, out, heads, groups, width, rescale}); }

  /** The keys and values of the memory (S, D), (S, G*K) each. Needed once for a source. */
  project(memory, watch) {
    const both = this.kv.forward(memory, watch), shared = this.groups * this.width;
    return [columns(both, 0, shared), columns(both, shared, shared)];
  }

  forward(x, spans, watch) { // (T, D) -> (T, D)
    const {heads, groups, width} = this, q = this.q.forward(x, watch), merged = new Matrix(x.rows, q.cols);
    multiply(q, this.rescale);
    for (const {start, end, memory} of spans) {
      const [keys, values] = memory.get(this.name), sees = () => [0, keys.rows];
      merged.data.set(attend(this.name, q.span(start, end), keys, values, {heads, groups, width, sees}, watch).data, start * q.cols);
    }
    return this.out.forward(merged, watch);
  }
}

/** Multiply a matrix in place. */
export function multiply(x, factor) {
  if (factor !== 1) for (let i = 0; i < x.data.length; i++) x.data[i] *= factor;
}

/** max(0, x W_1 + b_1) W_2 + b_2: Equation 2, with any activation. A gated one is (f(x W_1) * x W_3) W_2 (Shazeer 2020). */
export class FeedForward {
  constructor(name, inner, outer, activation, gated) { Object.assign(this, {name, inner, outer, activation, gated}); }

  forward(x, _spans, watch) { // (T, D) -> (T, D)
    return watch.part(this.name, x, () => {
      const both = this.inner.forward(x, watch), width = this.outer.weight.cols, inner = new Matrix(x.rows, width);
      for (let t = 0; t < x.rows; t++) for (let i = 0; i < width; i++) {
        const at = t * both.cols + i;
        inner.data[t * width + i] = this.activation(both.data[at]) * (this.gated ? both.data[at + width] : 1);
      }
      return this.outer.forward(inner, watch);
    });
  }
}

const geluTanh = x => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const silu = x => x / (1 + Math.exp(-x));

/** The error function, within 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26). */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x);
  return Math.sign(x) * (1 - tail);
}

export const ACTIVATIONS = {relu: x => (x > 0 ? x : 0), gelu: x => 0.5 * x * (1 + erf(x / Math.SQRT2)), gelu_tanh: geluTanh, silu};
export const GATES = {swiglu: silu, geglu: geluTanh};

/** (x - mean) / sqrt(variance + eps) * weight + bias, with the biased variance (Ba et al. 2016). Without a bias, RMSNorm: no mean. */
export class Norm {
  constructor(name, weight, bias, eps, centred) { Object.assign(this, {name, weight, bias, eps, centred}); }

  /** The mean and the scale of row t. */
  measure(x, t) {
    const {cols, data} = x, at = t * cols;
    let mean = 0, squares = 0;
    if (this.centred) for (let i = 0; i < cols; i++) mean += data[at + i] / cols;
    for (let i = 0; i < cols; i++) squares += (data[at + i] - mean) ** 2;
    return [mean, 1 / Math.sqrt(squares / cols + this.eps)];
  }

  forward(x, watch) { // (T, D) -> (T, D)
    return watch.part(this.name, x, () => {
      const out = new Matrix(x.rows, x.cols);
      for (let t = 0, at = 0; t < x.rows; t++) {
        const [mean, scale] = this.measure(x, t);
        for (let i = 0; i < x.cols; i++, at++) out.data[at] = (x.data[at] - mean) * scale * this.weight.data[i] + (this.bias ? this.bias.data[i] : 0);
      }
      return out;
    });
  }
}

/** In place of a norm that a model doesn't have, such as the one at the end of a post-norm stack. */
export class Identity {
  constructor(name) { this.name = name; }
  forward(x, watch) { return watch.part(this.name, x, () => x); }
}

/**
 * The residual connection around a sub-layer, with normalisation (sections 3.1 and 5.4).
 *
 * post-norm (the paper):  norm(x + sublayer(x))
 * pre-norm:               x + sublayer(norm(x))
 */
export class AddNorm {
  constructor(name, norm, preNorm) { Object.assign(this, {name, norm, preNorm}); }

  forward(x, sublayer, watch) { // (T, D) -> (T, D)
    return watch.part(this.name, x, () => (this.preNorm ? sum(x, sublayer(this.norm.forward(x, watch))) : this.norm.forward(sum(x, sublayer(x)), watch)));
  }
}
