// Greedy and beam search (section 6.1). It knows three calls of what decodes: `step`, `select` and `length`.

/** Constraints and ranking rules of a search. */
export class Rules {
  constructor({eos, suppress, beam, alpha, no_repeat_ngram: ngram, repetition_penalty: repetition}) {
    Object.assign(this, {eos, suppress: new Set(suppress), beam, alpha, ngram, repetition});
  }

  /** The length penalty ((5 + |Y|) / 6)^alpha, where |Y| counts the end token if there is one. */
  penalty(length) { return ((5 + length) / 6) ** this.alpha; }

  /** How many successors of a beam to look at, so that enough of them are allowed. */
  candidates(length) { return this.beam + 1 + this.suppress.size + (this.ngram || this.repetition > 1 ? length : 0); }

  /** The value to rank a candidate by: its penalised log-probability, or -Infinity if a rule forbids it. */
  rank(logProbability, token, tokens, tooShort) {
    if ((tooShort && token === this.eos) || this.suppress.has(token) || this.repeats(token, tokens)) return -Infinity;
    return this.repetition > 1 && tokens.includes(token) ? Math.fround(logProbability * this.repetition) : logProbability;
  }

  /** Whether a token would repeat an n-gram of its beam. */
  repeats(token, tokens) {
    const n = this.ngram, last = tokens.slice(tokens.length - n + 1);
    if (!n || tokens.length < n) return false;
    return tokens.some((_, i) => i + n <= tokens.length && tokens[i + n - 1] === token && last.every((it, j) => it === tokens[i + j]));
  }
}

/** The k most likely tokens of a row of log-probabilities. Ties go to the lower id. */
export function mostLikely(row, k) {
  const top = [];
  for (let token = 0; token < row.length; token++) {
    if (top.length === k && !(row[token] > row[top[k - 1]])) continue;
    let at = Math.min(top.length, k - 1);
    for (; at > 0 && row[top[at - 1]] < row[token]; at--) top[at] = top[at - 1];
    top[at] = token;
  }
  return top;
}

/**
 * Search for the best answer to one source.
 *
 * A hypothesis ends when its end token is among the `beam` top candidates, so beam 1 is greedy search. The search is over
 * when no live hypothesis can outscore the best answer; when it has `beam` answers and none does now; at the length limit;
 * or when nothing can be continued. If it has no answer by then, the live hypotheses are added as unfinished ones.
 */
export class Search {
  /**
   * @param decoding  what appends tokens to hypotheses: step(R tokens) -> log-probabilities (R, V), select(rows), length.
   * @param request   {maxSteps, minLen, maxLen, prefix}, as in `Request` of Python's decode/beams.py.
   */
  constructor(decoding, start, request, rules) {
    Object.assign(this, {decoding, request, rules, tokens: [start], nodes: [], answers: [], cacheLengths: [], done: false, length: 0});
    this.beams = [{total: 0, tokens: [], logprobs: [], node: -1}];
  }

  /** Append one token to every hypothesis. */
  step() {
    this.cacheLengths.push(this.decoding.length);
    const found = this.candidates(this.decoding.step(this.tokens)), continued = new Set(found.map(it => it.parent));
    const stranded = this.beams.filter((_, i) => !continued.has(i));
    found.sort((a, b) => b.total - a.total || a.parent - b.parent || a.token - b.token);
    const next = [], parents = [];
    this.length += 1;
    found.slice(0, 2 * this.rules.beam).forEach((it, rank) => { // at most `beam` of them end
      const end = it.token === this.rules.eos, ends = end && rank < this.rules.beam, stays = !end && next.length < this.rules.beam;
      const grown = this.grown(it, ends ? "ended" : stays ? "kept" : "dropped", stays ? next.length : null);
      if (ends) this.add({...grown, tokens: grown.tokens.slice(0, -1)}, true);
      if (stays) { next.push(grown); parents.push(it.parent); }
    });
    if (!next.length) this.addUnfinished(stranded);
    const before = this.beams.length;
    this.beams = next;
    this.close();
    if (this.done) return;
    this.tokens = next.map(it => it.tokens.at(-1));
    if (parents.length !== before || parents.some((it, i) => it !== i)) this.decoding.select(parents);
  }

  /** The allowed successors of all beams, given the log-probabilities of the next token (R, V). */
  candidates(logprobs) {
    const {prefix, minLen, maxLen} = this.request, forced = this.length === maxLen ? this.rules.eos : prefix[this.length];
    return this.beams.flatMap((beam, parent) => {
      const row = logprobs.row(parent), number = this.length + 1;
      if (Number.isNaN(row[0])) throw new Error(`The model’s probabilities for token ${number} aren’t numbers. Export a checkpoint with finite weights.`);
      const tokens = forced === undefined ? mostLikely(row, this.rules.candidates(this.length)) : [forced];
      const value = token => (forced === undefined ? this.rules.rank(row[token], token, beam.tokens, this.length < minLen) : row[token]);
      return tokens.map(token => ({parent, token, logprob: row[token], total: beam.total + value(token)}));
    }).filter(it => it.total > -Infinity);
  }

  /** A beam with one more token, which becomes a node of the tree. */
  grown({parent, token, logprob, total}, fate, beam) {
    const from = this.beams[parent], node = this.nodes.length;
    const score = total / this.rules.penalty(this.length);
    this.nodes.push({number: node, parent: from.node, step: this.length, id: token, log_probability: logprob, total, score, fate, beam});
    return {total, tokens: [...from.tokens, token], logprobs: [...from.logprobs, logprob], node};
  }

  /** Decide whether the search is over, and add the live hypotheses if it has no answer by then. */
  close() {
    const {maxSteps} = this.request, leader = Math.max(...this.beams.map(it => it.total)), best = Math.max(...this.answers.map(it => it.score));
    const full = this.answers.length >= this.rules.beam && leader / this.rules.penalty(this.length) <= best;
    // Log-probabilities only fall and the penalty only grows, so no live hypothesis can ever score above the bound.
    this.done = full || leader / this.rules.penalty(maxSteps) <= best || this.length >= maxSteps;
    if (this.done) this.addUnfinished(this.beams);
  }

  addUnfinished(beams) { if (!this.answers.length) for (const it of beams) if (it.tokens.length) this.add(it, false); }

  add({total, tokens, logprobs, node}, finished) {
    const length = logprobs.length, penalty = this.rules.penalty(length), sum = logprobs.reduce((a, b) => a + b, 0);
    this.answers.push({ids: tokens, node, log_probability: sum, total, length, penalty, score: total / penalty, finished});
  }

  /** The answers, finished ones first, then by score. If every token was forbidden, an empty one. */
  get best() {
    const sorted = [...this.answers].sort((a, b) => b.finished - a.finished || b.score - a.score).slice(0, this.rules.beam);
    const empty = {ids: [], node: null, log_probability: -Infinity, total: -Infinity, length: 0, penalty: 1, score: -Infinity, finished: false};
    return sorted.length ? sorted : [empty];
  }
}

/** Why the first answer won, in one sentence. */
export function verdict(answers) {
  const [first, second] = answers, by = x => x.toFixed(4);
  if (!second) return "It's the only answer.";
  if (first.finished !== second.finished) return "The first answer is finished. Answers that were cut off come last.";
  const better = answers.filter(it => it.total > first.total), rival = better.find(it => it.finished === first.finished);
  const lead = rival && by(rival.total - first.total), number = answers.indexOf(rival) + 1;
  if (rival) return `Answer ${number}'s total is higher by ${lead}, but it's shorter: the length penalty decides.`;
  if (better.length) return `Among finished answers, the first has the highest total, by ${by(first.total - second.total)}.`;
  return `The first answer has the highest total, ${by(first.total - second.total)} above the second's.`;
}
