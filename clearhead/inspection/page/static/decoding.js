// The search, step by step: what was kept, what was dropped, and why the first answer won. Any candidate can be forced.

import {asTable, button, g, h, label, path, picture, pressed, rect, roving, scroller, section, token} from "./dom.js";
import {choices} from "./data.js";
import {nameAfter} from "./names.js";
import {force} from "./forcing.js";
import {chance, logp, percent} from "./numbers.js";
import {sampling} from "./sampling.js";
import {alternatives, origin} from "./sentence.js";

const COLUMN = 128, ROW = 52, DROPPED = 4, MOST = 400, FINGER = 44; // pixels, dropped candidates to name at each step, nodes beyond which they are only counted, and pixels for a finger

const face = text => (text === "</s>" ? "ours" : "own"), begin = name => [...name].slice(0, 9).join("");

export function decoding(page, state, asker) {
  const {nodes, answers, verdict, sampled} = page.search, nameOf = namesOf(page), box = scroller("Search, scrolls sideways"), note = h("p.note", {"aria-live": "polite"});
  const about = sampled ? "One token after the other, drawn from the model’s probabilities. The bar is the model’s probability; hatched tokens couldn’t be drawn" : "Solid: part of an answer. Dashed: kept, then lost. Below: dropped at once. Choose a candidate to continue from it";
  const drawing = page.search.others && page.answer.length ? sampling(page, state) : null;
  const logs = button("Log-probabilities", () => { logs.ariaPressed = logs.ariaPressed !== "true"; draw(); }, {"aria-pressed": "false"});
  const written = p => (logs.ariaPressed === "true" ? logp(p) : chance(p));
  const node = section("decoding", "Decoding", about, logs, box, note, drawing?.node, cache(page.search.cache_lengths),
    h("div.answers", h("h3", answers.length > 1 ? "The answers, and why the first one won" : "The answer"), h("ol", answers.map(it => h("li", token({own: true, name: it.text || "■ end"}),
      h("small", `total ${logp(it.total)} ÷ penalty ${it.penalty.toFixed(3)} = score ${logp(it.score)}${it.finished ? "" : `, stopped at ${it.length} tokens`}`)))), h("p", verdict.join(" "))),
    asTable("Alternatives at every token", () => [["Token", ...Array(7).fill("instead")], page.answer.map((it, t) => [it.name, ...alternatives(page, t).slice(0, 7).map(other => [token(other), h("small", chance(other.logp))])])]),
    asTable("The search", () => [["Token", "Step", "Log-probability", "Total", "Score", "Fate"], nodes.map(it => [nameOf(it), it.step, logp(it.log_probability), logp(it.total), logp(it.score), it.fate])]));

  /** Continue from a candidate: its whole path is forced. */
  function continueFrom(it) {
    const path = [];
    for (let at = it; at; at = nodes[at.parent]) path.unshift(at);
    if (path.every((one, i) => one.id === page.tokens.outputs[page.begins + i]?.id)) return state.set({t: path.length - 1, s: null});
    return force(page, asker, path.map(one => one.id), path.map(one => one.token), note);
  }
  const act = it => pressed(() => continueFrom(it)), settle = roving(box, "[role=button]");
  let narrow = null;

  function mark() {
    box.querySelectorAll("[data-step]").forEach(it => it.classList.toggle("on", Number(it.dataset.step) === state.now.t + 1));
  }

  function fit() {
    if (narrow === innerWidth <= 700) return;
    draw();
  }

  function draw() {
    narrow = innerWidth <= 700;
    box.replaceChildren((sampled ? draws : tree)(page, nameOf, act, narrow ? FINGER : 18, written));
    settle();
    mark();
  }
  fit();
  return {node, fit, update(now) { mark(); drawing?.update(now); }};
}

/** The cache of keys and values after the last step, one cell for each token. Those from before the first step look older. */
function cache(lengths) {
  if (!lengths.length) return null;
  const most = lengths.at(-1) + 1, shown = Math.min(most, 60);
  return h("p.cache", h("span", `Cache: ${lengths[0]} → ${most} tokens, one more each step`), h("span.cells", {"aria-hidden": "true"}, [...Array(shown)].map((_, i) => h("i", {class: i < lengths[0] ? "old" : ""}))));
}

/** Where each kept candidate is drawn: its row, by number. */
function placed(nodes, steps, won) {
  const row = {};
  let most = 1;
  for (let n = 1; n <= steps; n++) {
    const used = new Set(), own = nodes.filter(it => it.step === n && it.fate !== "dropped");
    own.sort((a, b) => won.has(b.number) - won.has(a.number) || (a.beam ?? 99) - (b.beam ?? 99));
    own.forEach((it, i) => { let at = it.beam ?? i; while (used.has(at)) at += 1; used.add(at); row[it.number] = at; most = Math.max(most, at + 1); });
  }
  return [row, most];
}

function tree(page, nameOf, act, line, written) {
  const {nodes, answers} = page.search, steps = nodes.at(-1).step, first = nodes[0].step;
  const branch = at => { const found = new Set(); for (let it = nodes[at]; it; it = nodes[it.parent]) found.add(it.number); return found; };
  const won = answers[0]?.node === null || !answers[0] ? new Set() : branch(answers[0].node), living = new Set(answers.flatMap(it => (it.node === null ? [] : [...branch(it.node)])));
  const [row, most] = placed(nodes, steps, won), edges = [], found = [], x = n => 66 + (n - first) * COLUMN, y = at => 46 + at * ROW, low = y(most) - 10, width = x(steps) + 60;
  const named = nodes.length <= MOST ? DROPPED : 0, height = low + 14 + named * line;
  for (let n = first; n <= steps; n++) found.push(rect(x(n) - 54, 24, 108, most * ROW, {rx: 7, class: "column", "data-step": n}), label(x(n), 14, `step ${n}`, "small mid", {"data-step": n}));
  for (const it of nodes) {
    if (!(it.number in row)) continue;
    const X = x(it.step), Y = y(row[it.number]), [px, py] = it.parent < 0 ? [8, y(0)] : [x(it.step - 1) + 44, y(row[it.parent])], best = won.has(it.number), fate = best ? " best" : living.has(it.number) ? " lives" : "";
    edges.push([best, path(`M${px} ${py}C${px + 26} ${py} ${X - 66} ${Y} ${X - 44} ${Y}`, `edge${fate}`)]);
    const name = `${nameOf(it)}, log-probability ${logp(it.log_probability)}, total ${logp(it.total)}, score ${logp(it.score)}, ${it.fate}`;
    found.push(g("g", {class: `node${fate}`, "data-step": best ? it.step : null, "aria-label": name, ...act(it)},
      g("title", name), rect(X - 44, Y - 22, 88, FINGER, {rx: 6}), label(X, Y - 1, begin(nameOf(it)), `${face(it.token)} mid`, {"aria-hidden": "true"}),
      label(X, Y + 13, written(it.log_probability), "small mid", {"aria-hidden": "true"})));
  }
  for (let n = first; n <= steps; n++) {
    const dropped = nodes.filter(it => it.step === n && !(it.number in row));
    if (dropped.length) found.push(label(x(n), low + 8, `${dropped.length} dropped`, "small mid"));
    dropped.slice(0, named).forEach((it, i) => found.push(g("g.dropped", {"aria-label": `${nameOf(it)}, ${chance(it.log_probability)}, dropped`, ...act(it)}, rect(x(n) - 52, low + 13 + i * line, 104, line, {class: "clear"}),
      label(x(n), low + 17 + (i + 0.5) * line, `${begin(nameOf(it))} ${written(it.log_probability)}`, `${face(it.token)} lost mid`))));
  }
  edges.sort((a, b) => a[0] - b[0]);
  return grouped(width, height, `Search of ${steps} steps; the first answer is ${answers[0]?.text || "empty"}`, g("circle.root", {cx: 6, cy: y(0), r: 4}), edges.map(it => it[1]), found);
}

/** The name of each candidate, after its path. */
function namesOf({search: {nodes}, tokens: {outputs}, begins}) {
  const before = at => (nodes[at] ? [...before(nodes[at].parent), {text: nodes[at].token, kind: "text"}] : outputs.slice(0, begins)), names = nodes.map(it => nameAfter(() => before(it.parent), it.token));
  return it => names[it.number];
}

/** The distribution that each token was drawn from. What couldn't be drawn is hatched. */
function draws(page, nameOf, act, high, written) {
  const {nodes} = page.search, steps = nodes.at(-1).step, width = 24 + steps * 150, found = [];
  for (let n = 1; n <= steps; n++) {
    const at = n - 1, here = nodes.filter(it => it.step === n), how = origin(page, at), drawn = here.find(it => it.fate !== "dropped"), x = 12 + at * 150;
    const all = choices(page, at);
    found.push(rect(x - 6, 20, 144, 14 + all.length * high, {rx: 7, class: "column", "data-step": n}), label(x, 14, `step ${n}`, "small", {"data-step": n}));
    all.forEach(({name: own, text, logp: p, id}, i) => {
      const it = here.find(one => one.id === id), on = drawn?.id === id, y = 26 + i * high, share = Math.exp(p), odds = how === "forced" ? Number(on) : page.search.drawn_with?.[page.begins + at]?.[i], cut = odds === 0;
      const name = `${own}, ${percent(share)}${on ? `, ${how}` : cut ? ", couldn’t be drawn" : ""}${odds && how === "sampled" ? `, drawn with ${percent(odds)}` : ""}`;
      found.push(g("g", {class: `draw${on ? " drawn" : ""}`, "aria-label": name, ...act(it ?? {id, token: text, parent: drawn?.parent ?? -1, step: n})}, g("title", name), rect(x, y, 132, high, {class: "clear"}),
        rect(x, y, Math.max(2, 132 * share), high - 3, {rx: 2, class: cut ? "share cut" : "share"}), label(x + 4, y + high / 2 + 4, begin(own), face(text)), label(x + 132, y + high / 2 + 4, written(p), "small last")));
    });
  }
  const hatch = g("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"}, g("rect.stripe", {width: 2, height: 6}));
  return grouped(width, 40 + 8 * high, `${steps} tokens, ${page.forced.length ? `${steps - page.forced.length} of them ` : ""}drawn from the model’s probabilities`, g("defs", hatch), found);
}

/** A picture whose parts can be chosen, so that it's a group and not an image. */
const grouped = (...given) => { const view = picture(...given); view.setAttribute("role", "group"); return view; };
