// The page's data: one JSON object, whose arrays are base64 of little-endian numbers.

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

const SPECIAL = {"</s>": NAMES.end, "<s>": NAMES.start, "<pad>": NAMES.pad, "<unk>": NAMES.unknown};

/** Text without the mark of a space, and with lone surrogates made visible. */
const spelled = text => text.replace(/^▁/, "").replace(/\p{Surrogate}/gu, it => `\ufffd${it.charCodeAt(0).toString(16)}`) || "␣";

/** A token's name where only its text is known, as in a search. */
export const pieceName = text => SPECIAL[text] ?? spelled(text);

/** A token's name, and whether it is text of the user's. */
const named = token => (token.kind === "mask" ? {name: token.text, own: false, kind: "mask"} : token.kind === "text" ? {name: spelled(token.text), own: true} : {name: NAMES[token.kind], own: false, kind: token.kind});

/** Everything the views read, from the page's JSON. */
export function prepare(data) {
  if (data.kind !== "page" || data.format_version !== 1) {
    throw Object.assign(new Error(`This page’s data has format ${data.format_version}; expected 1. Make the page again with the same version of Clearhead.`), {name: "DataError"});
  }
  const attention = attentionOf(data), tokens = data.tokens, begins = tokens.begins ?? 0;
  const rows = {encoder: (tokens.encoder ?? []).map(named), decoder: (tokens.decoder ?? []).map(named), outputs: (tokens.outputs ?? []).map(named)};
  if (data.media) rows.encoder = rows.encoder.map(it => ({...it, own: false}));
  const places = Object.keys(PLACES).filter(it => attention[it]);
  const writes = rows.outputs.length > 0, crosses = writes && rows.encoder.length > 0, fills = Boolean(data.filled), finds = data.task === "answer";
  const source = crosses || !writes ? rows.encoder : rows.decoder.slice(0, begins + 1);
  const words = data.words && Object.fromEntries(["whole", "nothing", "falls", "gradients"].filter(it => data.words[it]).map(it => [it, decode(data.words[it])]));
  const answered = said(data, rows, {writes, fills, finds, begins, words});
  return {...data, asked: data.source, ...answered, lastStep: data.parts.length - (answered.answer.length ? 0 : 1), measured: Object.values(data.without ?? {}).some(it => it.change !== null), attention, rows, places, writes, crosses, fills, finds, source, begins, words: words && {...words, error: data.words.error},
    why: data.why && {...data.why, parts: decode(data.why.parts), logits: decode(data.why.logits)}, media: data.media && mediaOf(data.media)};
}

/** What the model answered: tokens, fillings, a passage or labels, each with its log-probability and its place in `alternatives`. */
function said(data, rows, {writes, fills, finds, begins, words}) {
  if (writes) return {answer: rows.outputs.slice(begins), logprobs: data.logprobs.slice(begins)};
  if (fills) return {answer: data.filled.map(text => ({name: pieceName(text), own: true})), logprobs: data.logprobs};
  if (finds) return {answer: [{name: data.text || "no answer", own: Boolean(data.text)}], logprobs: [words ? words.whole.values[0] : 0]};
  return {answer: (data.labels ?? []).map(([name]) => ({name, own: false, kind: "label"})), logprobs: (data.labels ?? []).map(([, p]) => p)};
}

function mediaOf(media) {
  return {...media, maps: media.maps?.map(decode), rollout: media.rollout && decode(media.rollout), falls: media.falls && decode(media.falls), spectrogram: media.spectrogram && decode(media.spectrogram)};
}

/** What could have been said at a place of the answer, likeliest first: [text, log-probability, id]. Labels have one place. */
export const candidates = (page, t) => (page.labels ? page.labels : page.alternatives?.[page.begins + t]) ?? [];

/** The row of `page.why` for a place of the answer, or null if it has none. */
export const whyRow = (page, t) => { const row = page.labels ? 0 : page.begins + t; return page.why && row < page.why.parts.shape[1] ? row : null; };

/** What each part added to the logit of candidate `one` at a place, less what it added to that of `other` if there is one: [[part, value]]. */
export function contributions(page, t, one, other = null) {
  const {names, parts: {shape: [, rows, k], values}} = page.why, row = whyRow(page, t);
  return names.map((name, p) => [name, values[(p * rows + row) * k + one] - (other === null ? 0 : values[(p * rows + row) * k + other])]);
}

/** The logit of a candidate, or the difference of two. */
export function logitOf(page, t, one, other = null) {
  const {shape: [, k], values} = page.why.logits, row = whyRow(page, t);
  return values[row * k + one] - (other === null ? 0 : values[row * k + other]);
}

/** The place of what was said among its candidates. */
export const saidAt = (page, t) => {
  const id = page.writes ? page.tokens.outputs[page.begins + t].id : page.labels ? page.labels[t]?.[2] : null;
  return id === null ? 0 : Math.max(0, candidates(page, t).findIndex(it => it[2] === id));
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
    const choice = !layer.barred(r, c) && (r > 0 || place !== "decoder.self");
    if (choice && layer.at(head, r, c) > most) [found, most] = [[r, c], layer.at(head, r, c)];
  }
  const [rows, columns] = axes(page, place);
  return most < 0 ? "one token" : `${rows[found[0]].name} looks most at ${columns[found[1]].name}, ${most.toFixed(3)}`;
}

/** How much the answer's token t looks at each source token: the mean over heads at the aligning layer. */
export function looks(page, t) {
  if (page.crosses) {
    const layer = page.attention["decoder.cross"]?.[page.alignment_layer];
    return layer ? page.source.map((_, s) => layer.mean(t, s)) : [];
  }
  if (page.writes) {
    const layers = page.attention["decoder.self"], layer = layers?.[layers.length - 1];
    return layer ? page.source.map((_, s) => (s < layer.columns ? layer.mean(page.begins + t, s) : 0)) : [];
  }
  if (page.media?.maps) { // a label: how the model's head reads the positions of the last layer
    const {shape: [heads, , size], values} = page.media.maps.at(-1);
    return page.source.map((_, s) => { let sum = 0; for (let head = 0; head < heads; head++) sum += values[head * size + s]; return sum / heads; });
  }
  return [];
}
