// One plain sentence about a step of the Flow, with the values of the chosen token.

import {bold} from "./dom.js";
import {axes, choices, headsOn, logitOf, whyRow} from "./data.js";
import {best, chance, count, percent, range, short, signed} from "./numbers.js";
import {partPhrase} from "./parts.js";

const NUMBERS = 3; // of a vector
const NAMED = 3; // most likely tokens

const many = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const vectors = ([, n, width]) => `${many(n, "vector")} of ${many(width, "number")}`;
const first = values => values.slice(0, NUMBERS).map(short).join(", ");

/** The row of a part's values that belongs to the chosen token: in a decoder the one that says it. */
export const rowAt = (page, it, {s, t}) => (it.stack === "decoder" ? page.begins + t : s ?? 0);

/** What a part did with the chosen token. `parts` are in the order of computation, softmax last. */
export function narrate(page, parts, i, state) {
  const it = parts[i], row = rowAt(page, it, state), token = page.rows[it.stack === "decoder" ? "decoder" : "encoder"][row], said = it.stack === "decoder" && page.answer[state.t];
  const name = token && [bold(token, !said && row === state.s && "chosen"), said ? [" → ", bold(said, "chosen")] : ""]; // what it reads, and what it says next
  const given = it.kind === "embedded" ? parts.find(one => one.name === `${it.stack}.embedding`)?.values?.[row] : it.inputs?.[row], made = it.values?.[row];
  const from = given && made ? [name, ` goes from ${first(given)} to ${first(made)}.`] : [], begins = what => (made ? [` The ${what} `, name, ` begins with ${first(made)}.`] : []);
  if (page.isOff(it.name)) return ["It’s switched off: zeros take the place of its output."];
  return {
    embedding: () => [page.media ? `The ${page.media.kind === "image" ? "image" : "recording"} becomes ` : `${many(it.shape[1], "token")} become${it.shape[1] === 1 ? "s" : ""} `, vectors(it.shape), ".", begins("vector of"), said ? [" It reads ", bold(token), " and has to say ", bold(said, "chosen"), "."] : ""],
    types: () => ["Each vector is marked with the part of the text that its token belongs to. ", from],
    embedded: () => (given && made && given.every((x, d) => x === made[d]) ? [page.model.positions === "none" ? "Nothing is added here: this model isn’t told positions." : `Nothing is added here: this model’s positions (${page.model.positions}) come in with attention.`] : ["Each position adds its own vector, so order counts: ", from]),
    self: () => attends(page, it, row, name), cross: () => attends(page, it, row, name),
    add: () => added(page, parts, i, name, row),
    feed_forward: () => [`Each vector goes through the same network on its own${it.equation ? `, from ${count(it.shape.at(-1))} numbers to ${count(page.model.d_ff)} and back` : ""}.`, begins("output for")],
    projection: () => [`The vector of `, bold(token), ` gives each of ${many(it.shape.at(-1), "token")} a score, its logit`, ...(whyRow(page, state.t) === null ? ["."] : ["; the highest is that of ", bold(choices(page, state.t)[0]), `, ${signed(logitOf(page, state.t, 0))}.`])],
    pointer: () => ["The pointer mixes two distributions: writing a token of the vocabulary, and copying one of the source."],
    head: () => headed(page, it, row, name),
    softmax: () => likely(page, it, state),
  }[it.kind]?.() ?? ["Each vector is normalised to the same scale: ", from];
}

function attends(page, it, row, name) {
  const [stack, number, kind] = it.name.split("."), place = `${stack}.${kind}`, layer = page.attention[place]?.[number], crosses = kind === "cross";
  const opening = crosses ? `${many(it.shape[1], "vector")} of the answer become queries; the ${page.rows.encoder.length} of the source become keys and values. ` : `${many(it.shape[1], "vector")} become queries, keys and values. `;
  if (!layer || !headsOn(layer).length) return [opening, layer ? "All heads are switched off." : "This attention doesn’t report its weights."];
  const columns = axes(page, place)[1], weights = range(layer.columns).map(c => layer.mean(row, c)), most = best(weights);
  return [opening, `In each of ${many(layer.heads, "head")}, row by row, a query scores the keys it may see: `, name, " looks most at ", bold(columns[most]), ` (${percent(weights[most])}, the mean of its heads). The heads join into ${vectors(it.shape)}.`];
}

/** What came in, plus what the sub-layer before this found. */
function added(page, parts, i, name, row) {
  const it = parts[i], before = parts[i - 1], opening = "The residual carries on: ";
  if (page.isOff(before.name)) return [opening, `nothing is added, since the ${partPhrase(before.name)} is switched off.`];
  const [came, found, made] = [it.inputs?.[row]?.[0], before.values?.[row]?.[0], it.values?.[row]?.[0]];
  if ([came, found, made].some(x => x === undefined)) return [opening, "what the sub-layer found is added to what came in."];
  return [opening, "the first number of ", name, `, ${short(came)}, plus ${short(found)} from ${partPhrase(before.name)}${page.model.pre_norm ? "" : ", normalised,"} gives ${short(made)}.`];
}

function headed(page, it, row, name) {
  const made = it.values?.[row];
  if (page.labels && !page.number) return [`The head gives each of ${many(page.labels.length, "label")} a score`, ...page.labels.filter(([, , id]) => it.values?.[0]?.length > id).slice(0, NAMED).map(([name, , id], n) => [n ? ", " : ": ", bold({name}), ` ${signed(it.values[0][id])}`]), "."];
  if (page.finds) return [`The head gives each of ${many(it.shape[1], "position")} two scores, as the first and as the last of the answer`, ...(made ? ["; those of ", name, ` are ${made.map(x => signed(x)).join(" and ")}.`] : ["."])];
  return page.fills ? [`The head gives each of ${many(it.shape.at(-1), "token")} a score at every mask.`] : [`The head makes ${many(it.shape.at(-1), "number")}.`];
}

function likely(page, it, {t}) {
  if (page.finds) return [`Softmax turns the scores of ${many(page.source.length, "position")} into probabilities of a first and a last one; that of the answer is ${chance(page.logprobs[t])}.`];
  if (page.number) return ["Times the deviation of the training data’s numbers, plus their mean: ", bold(page.answer[0]), "."];
  return [`${page.last[0]} turns ${many(it.shape.at(-1), "score")} into probabilities: `, choices(page, t).slice(0, NAMED).map((one, n) => [n ? ", " : "", bold(one), ` ${chance(one.logp)}`]), "."];
}
