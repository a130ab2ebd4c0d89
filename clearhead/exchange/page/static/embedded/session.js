// From a text to an answer: encode the source, search, and read the answer back with everything kept for the page.

import {build, readWeights} from "./assembly.js";
import {Watch} from "./layers.js";
import {logSoftmax} from "./matrix.js";
import {Rules, Search} from "./search.js";
import {Tokenizer} from "./tokenizer.js";
import {Cache} from "./transformer.js";

const MOST_TOKENS = 2 ** 31; // more than any answer has
const CONTINUATION = 20; // tokens that a language model adds, unless decode.max_len is set
const MOST_WEIGHTS = 1.6e7; // attention weights that a page keeps: 64 MB
const PAUSE = 30; // milliseconds of work, after which the browser may draw and take clicks

/** Let the browser work if it hasn't for a while. Rejects when the signal says that the answer isn't wanted any more. */
export function breather(signal) {
  let last = performance.now();
  return async () => {
    if (performance.now() - last > PAUSE) { await new Promise(done => setTimeout(done)); last = performance.now(); }
    signal?.throwIfAborted();
  };
}

/** Hypotheses being decoded: a cache each, and the memory that they share. */
class Decoding {
  constructor(decoder, memory, watch) { Object.assign(this, {decoder, memory, watch, caches: [new Cache()]}); }

  get length() { return this.caches[0].length; }

  /** Read tokens of the only hypothesis, without asking what comes next. */
  prefill(tokens) {
    if (tokens.length) this.decoder.forward(tokens, [this.span(0, tokens.length, 0)], this.watch);
    this.caches[0].length += tokens.length;
  }

  /** Append a token to every hypothesis, and return the log-probabilities of the next one. R tokens -> (R, V) */
  step(tokens) {
    const x = this.decoder.forward(tokens, tokens.map((_, row) => this.span(row, 1, row)), this.watch);
    for (const cache of this.caches) cache.length += 1;
    return logSoftmax(this.decoder.project(x, this.watch));
  }

  span(start, length, row) {
    const cache = this.caches[row];
    return this.decoder.span(start, length, {first: cache.length, cache, memory: this.memory});
  }

  /** Replace row i with row rows[i]. A row may be repeated. */
  select(rows) { this.caches = rows.map(row => this.caches[row].copy()); }
}

/** A model with its tokenizers and settings, ready for texts. `about` is all that Python wrote about it, `weights` are base64. */
export class Session {
  constructor(about, weights) {
    const {source, target} = about.tokenizers, one = new Tokenizer(source), model = build(about.settings, readWeights(about.weights, weights));
    Object.assign(this, model, {about, rules: new Rules(about.decode), source: one, target: target ? new Tokenizer(target) : one});
  }

  /** The ids of a text as the first stack reads them. Throws an Error for the reader if it can't be read. */
  read(text) {
    const {special, longest, task, settings, decode} = this.about, half = text.match(/\p{Surrogate}/u);
    if (half) {
      const code = half[0].charCodeAt(0).toString(16).toUpperCase();
      throw new Error(`The text contains U+${code}, a lone surrogate (half of a character), at position ${half.index + 1}. Remove it and try again.`);
    }
    if (this.encoder && !text.trim()) throw new Error(`The text is blank. Write something to ${task}.`);
    const ids = [...(settings.begin ? [special.bos] : []), ...this.source.encode(text)], most = Math.min(longest, this.mostKept());
    if (ids.length > most) {
      const advice = most < longest ? "The model can read more: split the text, or use Clearhead itself." : "Split the text.";
      throw new Error(`The text has ${ids.length.toLocaleString("en")} tokens; this page reads at most ${most.toLocaleString("en")}. ${advice}`);
    }
    const unknown = this.encoder || decode.unknown === "unk" ? [] : [...new Set(this.source.unknown(text))].slice(0, 5);
    if (unknown.length) throw new Error(`The model doesn’t know ${unknown.map(it => `“${it}”`).join(", ")}. Use words of its training text.`);
    if (this.encoder) return [...ids, special.eos];
    return ids.length ? ids : [special.bos];
  }

  /** Tokens whose attention fits into the page: each head of each attention keeps a square of them. */
  mostKept() {
    const {n_heads: heads, n_encoder_layers: left, n_decoder_layers: right} = this.about.settings;
    return Math.floor(Math.sqrt(MOST_WEIGHTS / (heads * (this.encoder ? left + 2 * right : right))));
  }

  /** The length limits of an answer, as in Python's decode/session.py. If minimum and maximum contradict, the maximum wins. */
  request(ids, prefix) {
    const {decode, settings} = this.about, length = ids.length - 1; // without the end token
    if (!this.encoder) return this.continuation(ids.length, prefix);
    const minLen = Math.max(decode.min_len, Math.ceil(Math.min(decode.min_ratio * length, MOST_TOKENS)));
    const byRatio = decode.max_ratio === null ? MOST_TOKENS : Math.max(1, Math.floor(Math.min(decode.max_ratio * length, MOST_TOKENS)));
    const maxLen = Math.max(Math.min(decode.max_len || MOST_TOKENS, byRatio), prefix.length); // a prefix is never cut
    const least = Math.max(length + decode.max_extra, minLen + 1, prefix.length + 1); // the end token takes one more step
    const maxSteps = Math.min(least, maxLen + 1, settings.max_len);
    return {maxSteps, minLen: Math.min(minLen, maxSteps - 1), maxLen, prefix};
  }

  /** The length limits of what a language model adds to a prompt of `length` tokens. */
  continuation(length, prefix) {
    const {decode, settings: {max_len: block}} = this.about, limit = decode.max_len ?? Math.max(Math.min(CONTINUATION, block - length), decode.min_len, 1);
    if (length + limit > block) throw new Error(`The text has ${length} tokens; with ${limit} more, that exceeds the model’s ${block}. Give a shorter text.`);
    return {maxSteps: Math.max(limit, prefix.length), minLen: Math.min(decode.min_len, limit), maxLen: null, prefix};
  }

  /**
   * Answer a text. `write` gets the text of the best hypothesis after each step. Returns the search, and the pass over source
   * and answer with everything that it computed.
   */
  async answer(text, {prefix = [], off = []} = {}, breathe = breather(), write = () => {}) {
    const ids = this.read(text), {special} = this.about, watch = new Watch({off, keeps: true}), request = this.request(ids, prefix);
    const memory = this.encoder ? this.encode(ids, watch) : null, prompt = this.encoder ? [special.start] : ids;
    const decoding = new Decoding(this.decoder, memory, new Watch({off}));
    decoding.prefill(prompt.slice(0, -1));
    const search = new Search(decoding, prompt.at(-1), request, this.rules);
    for (; !search.done; await breathe()) {
      search.step();
      if (!search.done) write(this.text(text, {inputs: prompt, begins: prompt.length - 1}, search.beams[0].tokens));
    }
    const [best] = search.best, said = [...prompt.slice(1), ...best.ids, ...(best.finished ? [special.eos] : [])];
    const pass = {source: this.encoder ? ids : null, inputs: [...prompt, ...best.ids].slice(0, said.length), said, begins: prompt.length - 1, memory};
    const forced = [...said.slice(pass.begins).keys()].filter(n => n < prefix.length || n === request.maxLen);
    return {search, best, ...pass, forced, unknown: this.source.unknown(text), watch, logprobs: this.reread(pass, watch)};
  }

  /** What the decoder reads of a source. */
  encode(ids, watch) { return this.decoder.memory(this.encoder.forward(ids, [this.encoder.span(0, ids.length)], watch), watch); }

  /** The log-probabilities of everything at each place of an answer (T, V), with the whole answer read at once. */
  reread({inputs, memory}, watch) {
    const states = this.decoder.forward(inputs, [this.decoder.span(0, inputs.length, {memory})], watch);
    return logSoftmax(this.decoder.project(states, watch).copy());
  }

  /** The text of an answer's tokens. A language model continues the reader's text. */
  text(text, {inputs, begins}, ids) {
    if (!this.encoder) return text + this.target.continuation(inputs.slice(0, begins + 1), ids);
    return oneLine(this.target.decode(ids));
  }
}

const BREAK = "\\r\\n|[\\n\\v\\f\\r\\x1c-\\x1e\\x85\\u2028\\u2029]";

/** A text with a space in place of every line break, and none for one at its end. */
const oneLine = text => text.replace(new RegExp(`(?:${BREAK})$`), "").replace(new RegExp(BREAK, "g"), " ");
