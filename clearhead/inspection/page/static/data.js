// The page's data: one JSON object, whose arrays are base64 of little-endian numbers.

const READ = {
  u16: [2, (view, at) => view.getUint16(at, true)],
  f32: [4, (view, at) => view.getFloat32(at, true)],
  i8: [1, (view, at) => view.getInt8(at)],
};

/** Decode an array to {shape, values}, with `values` flat. */
export function decode({shape, dtype, scale, b64, steps}) {
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

export const PLACES = {
  "encoder.self": ["Encoder, self", "source looks at source"],
  "decoder.self": ["Decoder, self", "answer so far looks back"],
  "decoder.cross": ["Decoder, cross", "answer looks at source"],
};

/** The attention modules of a place by layer, each with its decoded weights and lookups. */
function attentionOf(data) {
  const found = {};
  for (const [name, it] of Object.entries(data.attention)) {
    const [stack, layer, kind] = name.split("."), weights = decode(it.weights), [, rows, columns] = weights.shape;
    const mask = it.mask ? decode(it.mask).values : null;
    (found[`${stack}.${kind}`] ??= [])[layer] = {
      name, heads: weights.shape[0], rows, columns, entropy: it.entropy, raw: it,
      at: (head, row, column) => weights.values[(head * rows + row) * columns + column],
      barred: (row, column) => mask !== null && !mask[row * columns + column],
      mean(row, column) {
        let sum = 0;
        for (let head = 0; head < this.heads; head++) sum += this.at(head, row, column);
        return sum / this.heads;
      },
    };
  }
  return found;
}

const NAMES = {start: "start", end: "■ end", pad: "pad", unknown: "‹unk›"};

/** Text without the mark of a space, and with lone surrogates made visible. */
const spelled = text => text.replace(/^▁/, "").replace(/\p{Surrogate}/gu, it => `\ufffd${it.charCodeAt(0).toString(16)}`) || "␣";

/** A token's name where only its text is known, as in a search. */
export const pieceName = text => (text === "</s>" ? NAMES.end : spelled(text));

/** A token's name, and whether it is text of the user's. */
const named = token => (token.kind === "text" ? {name: spelled(token.text), own: true} : {name: NAMES[token.kind], own: false, kind: token.kind});

/** Everything the views read, from the page's JSON. */
export function prepare(data) {
  if (data.kind !== "page" || data.format_version !== 1) {
    throw new Error(`This page's data has format ${data.format_version}; expected 1. Make the page again with the same version of Clearhead.`);
  }
  const attention = attentionOf(data), tokens = data.tokens, begins = tokens.begins ?? 0;
  const rows = {encoder: (tokens.encoder ?? []).map(named), decoder: (tokens.decoder ?? []).map(named), outputs: (tokens.outputs ?? []).map(named)};
  const places = Object.keys(PLACES).filter(it => attention[it]);
  const writes = rows.outputs.length > 0, crosses = places.includes("decoder.cross");
  const source = crosses || !writes ? rows.encoder : rows.decoder.slice(0, begins + 1);
  const answer = writes ? rows.outputs.slice(begins) : (data.labels ?? []).map(([name]) => ({name, own: false}));
  const logprobs = writes ? data.logprobs.slice(begins) : (data.labels ?? []).map(([, p]) => p);
  const words = data.words && Object.fromEntries(["whole", "nothing", "falls", "gradients"].map(it => [it, decode(data.words[it])]));
  return {...data, attention, rows, places, writes, crosses, source, answer, logprobs, begins, words: words && {...words, error: data.words.error}};
}

/** The tokens that label the rows and columns of an attention at a place. */
export function axes(page, place) {
  const stack = place.split(".")[0];
  if (place === "decoder.cross") return [page.rows.outputs, page.rows.encoder];
  return [page.rows[stack], page.rows[stack]];
}

/** The row of the chosen token in an attention: of the source in an encoder, else of the answer. */
export const rowOf = (page, place, state) => (place === "encoder.self" ? state.s : page.begins + state.t);

/** How much the answer's token t looks at each source token: the mean over heads at the aligning layer. */
export function looks(page, t) {
  if (page.crosses) {
    const layer = page.attention["decoder.cross"][page.alignment_layer];
    return page.source.map((_, s) => layer.mean(t, s));
  }
  if (page.writes) {
    const layers = page.attention["decoder.self"], layer = layers?.[layers.length - 1];
    return layer ? page.source.map((_, s) => (s < layer.columns ? layer.mean(page.begins + t, s) : 0)) : [];
  }
  return [];
}
