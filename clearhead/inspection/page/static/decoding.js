// The search, step by step: what was kept, what was dropped, and why the first answer won. Any candidate can be forced.

import {asTable, g, h, picture, pressed, roving, scroller, section, table} from "./dom.js";
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
  const logs = h("button.button", {"aria-pressed": "false", onclick: () => { logs.setAttribute("aria-pressed", logs.getAttribute("aria-pressed") !== "true"); draw(); }}, "Log-probabilities");
  const written = p => (logs.getAttribute("aria-pressed") === "true" ? logp(p) : chance(p));
  const node = section("decoding", "Decoding", about, logs, box, note, drawing?.node, cache(page.search.cache_lengths),
    h("div.answers", h("h3", answers.length > 1 ? "The answers, and why the first one won" : "The answer"), h("ol", answers.map(it => h("li", h("span.own", {dir: "auto"}, it.text || "■ end"),
      h("small", `total ${logp(it.total)} ÷ penalty ${it.penalty.toFixed(3)} = score ${logp(it.score)}${it.finished ? "" : `, stopped at ${it.length} tokens`}`)))), h("p", verdict.join(" "))),
    asTable("Alternatives at every token", () => table("Alternatives", ["Token", ...Array(7).fill("instead")], page.answer.map((it, t) => [it.name, ...alternatives(page, t).slice(0, 7).map(other => [h("span.own", {dir: "auto"}, other.name), h("small", chance(other.logp))])]))),
    asTable("The search as a table", () => table("Candidates", ["Token", "Step", "Log-probability", "Total", "Score", "Fate"], nodes.map(it => [nameOf(it), it.step, logp(it.log_probability), logp(it.total), logp(it.score), it.fate]))));

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
  const path = at => { const found = new Set(); for (let it = nodes[at]; it; it = nodes[it.parent]) found.add(it.number); return found; };
  const won = answers[0]?.node === null || !answers[0] ? new Set() : path(answers[0].node), living = new Set(answers.flatMap(it => (it.node === null ? [] : [...path(it.node)])));
  const [row, most] = placed(nodes, steps, won), edges = [], found = [], x = n => 66 + (n - first) * COLUMN, y = at => 46 + at * ROW, low = y(most) - 10, width = x(steps) + 60;
  const named = nodes.length <= MOST ? DROPPED : 0, height = low + 14 + named * line;
  for (let n = first; n <= steps; n++) found.push(g("rect", {x: x(n) - 54, y: 24, width: 108, height: most * ROW, rx: 7, class: "column", "data-step": n}), g("text", {x: x(n), y: 14, "text-anchor": "middle", class: "small", "data-step": n}, `step ${n}`));
  for (const it of nodes) {
    if (!(it.number in row)) continue;
    const X = x(it.step), Y = y(row[it.number]), [px, py] = it.parent < 0 ? [8, y(0)] : [x(it.step - 1) + 44, y(row[it.parent])], best = won.has(it.number), lives = living.has(it.number);
    edges.push([best, g("path", {d: `M${px} ${py}C${px + 26} ${py} ${X - 66} ${Y} ${X - 44} ${Y}`, class: `edge${best ? " best" : lives ? " lives" : ""}`})]);
    const name = `${nameOf(it)}, log-probability ${logp(it.log_probability)}, total ${logp(it.total)}, score ${logp(it.score)}, ${it.fate}`;
    found.push(g("g", {class: `node${best ? " best" : lives ? " lives" : ""}`, "data-step": best ? it.step : null, "aria-label": name, ...act(it)},
      g("title", name), g("rect", {x: X - 44, y: Y - 22, width: 88, height: FINGER, rx: 6}), g("text", {x: X, y: Y - 1, "text-anchor": "middle", "aria-hidden": "true", class: face(it.token)}, begin(nameOf(it))),
      g("text", {x: X, y: Y + 13, "text-anchor": "middle", "aria-hidden": "true", class: "small"}, written(it.log_probability))));
  }
  for (let n = first; n <= steps; n++) {
    const dropped = nodes.filter(it => it.step === n && !(it.number in row));
    if (dropped.length) found.push(g("text", {x: x(n), y: low + 8, "text-anchor": "middle", class: "small"}, `${dropped.length} dropped`));
    dropped.slice(0, named).forEach((it, i) => found.push(g("g.dropped", {"aria-label": `${nameOf(it)}, ${chance(it.log_probability)}, dropped`, ...act(it)}, g("rect", {x: x(n) - 52, y: low + 13 + i * line, width: 104, height: line, class: "clear"}),
      g("text", {x: x(n), y: low + 17 + (i + 0.5) * line, "text-anchor": "middle", class: `${face(it.token)} lost`}, `${begin(nameOf(it))} ${written(it.log_probability)}`))));
  }
  edges.sort((a, b) => a[0] - b[0]);
  return grouped(width, height, `Search of ${steps} steps; the first answer is ${answers[0]?.text || "empty"}`, g("circle", {cx: 6, cy: y(0), r: 4, class: "root"}), edges.map(it => it[1]), found);
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
    found.push(g("rect", {x: x - 6, y: 20, width: 144, height: 14 + all.length * high, rx: 7, class: "column", "data-step": n}), g("text", {x, y: 14, class: "small", "data-step": n}, `step ${n}`));
    all.forEach(({name: own, text, logp: p, id}, i) => {
      const it = here.find(one => one.id === id), on = drawn?.id === id, y = 26 + i * high, share = Math.exp(p), chance = how === "forced" ? Number(on) : page.search.drawn_with?.[page.begins + at]?.[i], cut = chance === 0;
      const name = `${own}, ${percent(share)}${on ? `, ${how}` : cut ? ", couldn’t be drawn" : ""}${chance && how === "sampled" ? `, drawn with ${percent(chance)}` : ""}`;
      found.push(g("g", {class: `draw${on ? " drawn" : ""}`, "aria-label": name, ...act(it ?? {id, token: text, parent: drawn?.parent ?? -1, step: n})}, g("title", name), g("rect", {x, y, width: 132, height: high, class: "clear"}),
        g("rect", {x, y, width: Math.max(2, 132 * share), height: high - 3, rx: 2, class: cut ? "share cut" : "share"}), g("text", {x: x + 4, y: y + high / 2 + 4, class: face(text)}, begin(own)), g("text", {x: x + 132, y: y + high / 2 + 4, "text-anchor": "end", class: "small"}, written(p))));
    });
  }
  const hatch = g("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"}, g("rect", {width: 2, height: 6, class: "stripe"}));
  return grouped(width, 40 + 8 * high, `${steps} tokens, ${page.forced.length ? `${steps - page.forced.length} of them ` : ""}drawn from the model’s probabilities`, g("defs", hatch), found);
}

/** A picture whose parts can be chosen, so that it's a group and not an image. */
const grouped = (...given) => { const view = picture(...given); view.setAttribute("role", "group"); return view; };
