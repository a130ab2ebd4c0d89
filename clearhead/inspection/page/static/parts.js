// The parts of a model: their names and the paper's sections.

/** Figure 1's colour of a part. */
export function partKind(name) {
  if (/\.(self|cross)(\.|$)/.test(name)) return "attn";
  if (/feed_forward/.test(name)) return "ff";
  if (/embedd|positions|types/.test(name)) return "embed";
  if (/projection|pointer|^head/.test(name)) return "lin";
  return "norm";
}

/** Layers and heads are counted from 1, as in the paper; names of parts count from 0. */
const counted = number => Number(number) + 1;

/** The name of a layer's state: "embedded", or "layer 0" for what the page calls layer 1. */
export const layerName = name => (name === "embedded" ? "input" : name.replace(/\d+$/, counted));

/** A part's name in words: decoder.1.cross.head.2 is "Cross 2 · head 3". */
export function partName(name) {
  if (name === "projection.bias") return "Projection · bias";
  const [stack, ...rest] = name.split("."), layer = /^\d+$/.test(rest[0]) ? rest.shift() : "";
  const what = {self: "Self", cross: "Cross", feed_forward: "Feed-forward", embedding: "Embedding", embedded: "Embedding", positions: "Positions", types: "Token types", norm: "Final norm", projection: "Projection", add_norm_1: "1st norm", add_norm_2: "2nd norm", add_norm_3: "3rd norm", embedding_norm: "Embedding norm"}[rest[0]] ?? rest.join(" ");
  const head = rest[1] === "head" ? ` · head ${counted(rest[2])}` : rest.at(-1) === "bias" ? " · bias" : "";
  return `${what}${layer && ` ${counted(layer)}`}${head}` || stack;
}

/** What a part is, in the words of Figure 1. */
export function partTitle(name) {
  const [stack, ...rest] = name.split("."), layer = /^\d+$/.test(rest[0]) ? rest.shift() : null, last = rest[0] ?? stack;
  const what = {self: stack === "decoder" ? "Masked self-attention" : "Self-attention", cross: "Cross-attention", feed_forward: "Feed-forward", embedding: "Embedding", types: "Token types", embedding_norm: "Embedding norm", embedded: "Positions", norm: "Final norm", projection: "Linear", pointer: "Pointer", head: "Head"}[last] ?? "Add & norm";
  return `${what}, ${stack === "head" ? "" : stack}${layer === null ? "" : ` layer ${counted(layer)}`}`.replace(/, $/, "");
}

/** What a part is, inside a sentence: "masked self-attention". */
export const partPhrase = name => partTitle(name).split(",")[0].toLowerCase();

/** The section of the paper that describes a part. */
export function sectionOf(name) {
  const last = name.split(".").pop();
  return {self: "3.2.1", cross: "3.2.3", feed_forward: "3.3", embedding: "3.4", embedded: "3.5", projection: "3.4"}[last] ?? (last.startsWith("add_norm") || last === "norm" ? "3.1" : null);
}
