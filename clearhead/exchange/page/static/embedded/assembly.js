// Build a model from its settings and the weights in the document. Only this file maps settings to classes.

import {Matrix} from "./matrix.js";
import {ACTIVATIONS, AddNorm, CrossAttention, FeedForward, GATES, Identity, Linear, Norm, SelfAttention} from "./layers.js";
import {Block, Stack} from "./transformer.js";
import {positionsOf} from "./positions.js";

/** Bytes of base64 text. */
function bytesOf(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** Weights by name, as matrices; a vector is a row. Those in 8 bits are a whole number times the scale of their row. */
export function readWeights(table, text) {
  const {buffer} = bytesOf(text), found = new Map();
  for (const {name, shape, at, scales} of table) {
    const cols = shape.at(-1), rows = shape.reduce((a, b) => a * b, 1) / cols;
    if (scales === undefined) { found.set(name, new Matrix(rows, cols, new Float32Array(buffer, at, rows * cols))); continue; }
    const whole = new Int8Array(buffer, at, rows * cols), scale = new Float32Array(buffer, scales, rows), matrix = new Matrix(rows, cols);
    for (let r = 0, i = 0; r < rows; r++) for (let c = 0; c < cols; c++, i++) matrix.data[i] = whole[i] * scale[r];
    found.set(name, matrix);
  }
  return found;
}

/** The stacks of a model: {encoder, decoder}. A language model has no encoder. */
export function build(settings, weights) {
  const both = settings.topology === "encoder-decoder", shared = ["all", "embeddings"].includes(settings.tie), target = both ? "decoder." : "";
  const named = name => weights.get(name) ?? null, first = names => names.map(named).find(it => it) ?? null; // of tied matrices, one is there
  const inTarget = [`${target}embedding.weight`, ...(["all", "target"].includes(settings.tie) ? [`${target}projection.weight`] : [])];
  const source = both ? first(["encoder.embedding.weight", ...(shared ? inTarget : [])]) : null, embedding = first(inTarget) ?? source;
  const linear = (path, name) => new Linear(name, named(`${path}.weight`), named(`${path}.bias`));

  function norm(path, name) {
    const weight = named(`${path}.weight`);
    return weight && new Norm(name, weight, named(`${path}.bias`), settings.norm_eps, settings.norm === "layer");
  }

  function attention(kind, path, name, projections) {
    const {n_heads: heads, n_kv_heads: groups, d_head: width, rescale} = settings;
    return new kind(name, ...projections.map(it => linear(`${path}.${it}`, `${name}.${it}`)), {heads, groups, width, rescale});
  }

  function feedForward(path, name) {
    const gated = settings.feed_forward in GATES, activation = (gated ? GATES : ACTIVATIONS)[settings.feed_forward];
    return new FeedForward(name, linear(`${path}.inner`, `${name}.inner`), linear(`${path}.outer`, `${name}.outer`), activation, gated);
  }

  function block(path, name) {
    const decodes = name.startsWith("decoder"), crosses = decodes && both, numbers = crosses ? [1, 2, 3] : decodes ? [1, 3] : [1, 2];
    return new Block(name, {
      attention: attention(SelfAttention, `${path}.attention`, `${name}.self`, ["qkv", "out"]),
      crossAttention: crosses ? attention(CrossAttention, `${path}.cross_attention`, `${name}.cross`, ["q", "kv", "out"]) : null,
      feedForward: feedForward(`${path}.feed_forward`, `${name}.feed_forward`),
      addNorms: numbers.map(n => new AddNorm(`${name}.add_norm_${n}`, norm(`${path}.add_norm_${n}.norm`, `${name}.add_norm_${n}.norm`), settings.pre_norm)),
    });
  }

  function stack(name, prefix, matrix, layers) {
    const positions = positionsOf(settings, () => named(`${prefix}positions.table`), name === "encoder"), {embedding_scale: scale, logit_scale: logitScale} = settings;
    return new Stack({
      name, embedding: matrix, scale, positions, causal: name === "decoder", window: settings.window ?? Infinity, logitScale,
      embeddingNorm: norm(`${prefix}embedding_norm`, `${name}.embedding_norm`), norm: norm(`${prefix}norm`, `${name}.norm`) ?? new Identity(`${name}.norm`),
      blocks: Array.from({length: layers}, (_, n) => block(`${prefix}blocks.${n}`, `${name}.${n}`)),
      projection: new Linear(`${name}.projection`, named(`${prefix}projection.weight`) ?? matrix, named(`${prefix}projection.bias`)),
    });
  }

  return {
    encoder: both ? stack("encoder", "encoder.", source, settings.n_encoder_layers) : null,
    decoder: stack("decoder", target, embedding, settings.n_decoder_layers),
  };
}
