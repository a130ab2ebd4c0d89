// Figure 1: the blocks, the two stacks made of them, and the cache that a decoder reads its earlier tokens from.

import {Matrix} from "./matrix.js";
import {multiply} from "./layers.js";

/** Figure 1, left: self-attention, then feed-forward. Right: attention to the encoder's memory in between. */
export class Block {
  constructor(name, {attention, crossAttention = null, feedForward, addNorms}) {
    Object.assign(this, {name, attention, crossAttention, feedForward});
    this.subLayers = [attention, crossAttention, feedForward].filter(it => it).map((part, i) => [part, addNorms[i]]); // in order
  }

  forward(x, spans, watch) { // (T, D) -> (T, D)
    return watch.part(this.name, x, () => {
      for (const [part, addNorm] of this.subLayers) x = addNorm.forward(x, it => watch.unlessOff(part.name, it, () => part.forward(it, spans, watch)), watch);
      return x;
    });
  }
}

/** Figure 1: embedding, positions, N blocks and, in a pre-norm stack, a final norm. A decoder also has a projection. */
export class Stack {
  constructor(parts) { Object.assign(this, parts); }

  /** The embeddings of tokens (T,), which `spans` divide into sequences, times the scale: sqrt(d_model) in section 3.4. -> (T, D) */
  embed(tokens, spans, watch) {
    let x = watch.part(`${this.name}.embedding`, null, () => {
      const found = new Matrix(tokens.length, this.embedding.cols);
      tokens.forEach((token, t) => { const row = this.embedding.row(token), at = t * found.cols; for (let i = 0; i < row.length; i++) found.data[at + i] = row[i] * this.scale; });
      return found;
    });
    x = x.copy();
    for (const {start, end, first} of spans) this.positions.embed(x.span(start, end), first);
    x = this.embeddingNorm ? this.embeddingNorm.forward(x, watch) : x;
    return watch.part(`${this.name}.embedded`, x, () => x);
  }

  /** The blocks from one on, and the final norm. (T, D) -> (T, D) */
  through(x, spans, watch, from = 0) {
    for (const block of this.blocks.slice(from)) x = block.forward(x, spans, watch);
    return this.norm.forward(x, watch);
  }

  forward(tokens, spans, watch) { return this.through(this.embed(tokens, spans, watch), spans, watch); }

  /** Scores of the vocabulary. (T, D) -> (T, V) */
  project(x, watch) {
    if (this.logitScale === 1) return this.projection.forward(x, watch);
    const scaled = x.copy();
    multiply(scaled, this.logitScale);
    return this.projection.forward(scaled, watch);
  }

  /** One sequence of tokens at positions from `first` on: what its attention needs. */
  span(start, length, {first = 0, cache = null, memory = null} = {}) {
    const {window, positions} = this, sees = this.causal ? (t => [Math.max(0, t + 1 - window), t + 1]) : ((_, keys) => [0, keys]);
    return {start, end: start + length, first, positions, cache, memory, sees};
  }

  /** The keys and values that each block's cross-attention reads, for a source's memory (S, D). */
  memory(x, watch) { return new Map(this.blocks.filter(it => it.crossAttention).map(({crossAttention}) => [crossAttention.name, crossAttention.project(x, watch)])); }
}

/** The keys and values of the tokens that one hypothesis has read so far, for each self-attention. */
export class Cache {
  constructor(layers = new Map(), length = 0) { Object.assign(this, {layers, length}); }

  /** Append the keys and values of new tokens (T, G*K), and return all of them, (S, G*K). */
  append(name, k, v) {
    const held = this.layers.get(name), all = held ? [joined(held[0], k), joined(held[1], v)] : [k, v];
    this.layers.set(name, all);
    return all;
  }

  /** A cache of the same tokens, which grows on its own. */
  copy() { return new Cache(new Map(this.layers), this.length); }
}

/** The rows of both, in new memory: hypotheses that share their beginning stay apart. */
function joined(held, more) {
  const rows = held.rows + more.rows, out = new Matrix(rows, held.cols);
  out.data.set(held.data);
  out.data.set(more.data, held.data.length);
  return out;
}
