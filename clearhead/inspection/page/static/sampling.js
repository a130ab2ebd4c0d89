// What could be drawn at the chosen step, at any temperature and with any cut, from the log-probabilities in the page.

import {bar, bold, button, h, token} from "./dom.js";
import {choices, decode} from "./data.js";
import {count, percent, sum} from "./numbers.js";

const WIDTH = 0.1; // of a bin of the log-probabilities of tokens without a name
const ALL = {temperature: 1, k: Infinity, p: 1};

/** Tokens at a place of the answer, most likely first: each one that has a name, and the others as [how many, their log-probability]. */
function weighed(page, t) {
  const named = choices(page, t).map(it => ({...it, n: 1})), {shape: [, bins], values} = (page.search.bins ??= decode(page.search.others)), row = (page.begins + t) * bins;
  const others = [...values.subarray(row, row + bins)].map((n, bin) => ({n, logp: -(bin + 0.5) * WIDTH})).filter(it => it.n), least = named.at(-2)?.logp ?? 0; // the last one with a name may be any that was said
  const missing = Math.max(0, 1 - sum(named.map(it => Math.exp(it.logp)))), shift = Math.log(missing / sum(others.map(it => it.n * Math.exp(it.logp))));
  return [...named, ...others.map(it => ({...it, logp: Math.min(least, it.logp + (Number.isFinite(shift) ? shift : 0))}))].sort((a, b) => b.logp - a.logp);
}

/** The probability of drawing each token: divided by the temperature, then only the k most likely, then the fewest that reach p. */
function drawable(page, t, {temperature, k, p} = ALL) {
  const all = weighed(page, t), weights = all.map((it, i) => (i < k ? Math.exp((it.logp - all[0].logp) / temperature) : 0)), mass = all.reduce((total, it, i) => total + it.n * weights[i], 0);
  let before = 0;
  const kept = all.map(({n}, i) => {
    const each = weights[i] / mass, most = Math.max(0, Math.min(n, Math.ceil((p - before) / each - 1e-9) || 0)); // how many are drawn from before p is reached
    before += n * each;
    return most * each;
  });
  const whole = sum(kept), shares = all.map((it, i) => ({...it, share: kept[i] / whole})), rest = shares.filter(it => !it.name);
  return {named: shares.filter(it => it.name), rest: {n: rest.reduce((total, it) => total + it.n, 0), share: rest.reduce((total, it) => total + it.share, 0)}};
}

/** Numbers from 0 to 1 that only depend on the seed (mulberry32). */
function uniforms(seed) {
  let at = seed >>> 0;
  return () => {
    at = (at + 0x6d2b79f5) >>> 0;
    let x = Math.imul(at ^ (at >>> 15), at | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

/** The controls and the bars of the chosen step. */
export function sampling(page, state) {
  const most = Math.max(1, choices(page, 0).length - 1), title = h("h3"), bars = h("div.bars"), said = h("p.note", {"aria-live": "polite"});
  let draw = null, drawn = 0, rows = [], shown = null;
  const slider = (name, low, high, step, value, written) => {
    const out = h("output"), input = h("input", {type: "range", min: low, max: high, step, value, "aria-label": name, oninput: () => { begin(); show(); }});
    return {node: h("label", name, input, out), get value() { return Number(input.value); }, write() { out.textContent = written(Number(input.value)); input.ariaValueText = out.textContent; }};
  };
  const cut = k => (k > most ? "all" : count(k));
  const controls = {temperature: slider("Temperature", 0.1, 2, 0.1, 1, it => it.toFixed(1)), k: slider("Top-k", 1, most + 1, 1, most + 1, cut), p: slider("Top-p", 0.05, 1, 0.05, 1, it => it.toFixed(2))};
  const seed = h("input", {type: "number", min: 0, max: 4294967295, value: 1, "aria-label": "Seed", oninput: begin});
  const node = h("div.sampling", title, h("div.controls", Object.values(controls).map(it => it.node), h("label", "Seed", seed), button("Sample", sample)), bars, said);

  const found = () => { const {temperature, k, p} = controls; return drawable(page, state.now.t, {temperature: temperature.value, k: k.value > most ? Infinity : k.value, p: p.value}); };

  /** Begin a new sequence of draws. */
  function begin() {
    [draw, drawn] = [null, 0];
    said.replaceChildren();
    rows.forEach(it => it.name.classList.remove("drawn"));
  }

  function sample() {
    const {named} = found();
    draw ??= uniforms(Number(seed.value));
    drawn += 1;
    let left = draw();
    const at = named.findIndex(it => (left -= it.share) < 0), it = named[at], row = rows[at < 0 ? rows.length - 1 : at];
    rows.forEach(one => one.name.classList.toggle("drawn", one === row));
    said.replaceChildren(`Draw ${drawn} with seed ${seed.value}: `, it ? bold(it, "own") : "one of the others", ".");
  }

  /** Move the bars, which stay in their places. */
  function show() {
    const {named, rest} = found();
    Object.values(controls).forEach(it => it.write());
    rows.forEach(({name, track, number}, i) => {
      const {share} = named[i] ?? rest;
      name.classList.toggle("cut", !share);
      track.firstChild.style.width = `${(100 * share).toFixed(2)}%`;
      number.textContent = share ? percent(share) : "cut off";
    });
  }

  function update(now) {
    if (shown === now.t) return;
    shown = now.t;
    const {named, rest} = drawable(page, now.t);
    title.replaceChildren(`What could be drawn at step ${now.t + 1}, where the answer has `, token(page.answer[now.t]));
    rows = [...named, ...(rest.n ? [{name: `${count(rest.n)} others`}] : [])].map(it => ({name: token(it), track: bar(0, "share"), number: h("span.number")}));
    bars.replaceChildren(...rows.flatMap(it => [it.name, it.track, it.number]));
    begin();
    show();
  }
  return {node, update};
}
