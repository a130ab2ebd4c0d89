// The search, step by step: what was kept, what was dropped, and why the first answer won.

import {asTable, g, h, picture, table} from "./dom.js";
import {pieceName} from "./data.js";
import {logp, percent} from "./numbers.js";

const COLUMN = 128, ROW = 46, DROPPED = 4; // pixels, and dropped candidates to name at each step


export function decoding(page, state) {
  const {nodes, answers, verdict, cache_lengths: cached} = page.search, steps = Math.max(...nodes.map(it => it.step)), sampled = answers.length === 1 && nodes.every(it => it.fate !== "dropped");
  const path = at => { const found = new Set(); for (let it = nodes[at]; it; it = nodes[it.parent]) found.add(it.number); return found; };
  const won = answers[0]?.node === null ? new Set() : path(answers[0]?.node), living = new Set(answers.flatMap(it => (it.node === null ? [] : [...path(it.node)])));
  const box = h("div", {class: "scroll tree", tabindex: 0, role: "group", "aria-label": "Search tree, scrolls sideways"});
  const node = h("section", {id: "decoding"},
    h("div", {class: "head"}, h("h2", {}, "Decoding"), h("p", {}, sampled ? "One token after the other, each drawn from the model's probabilities" : "Solid: part of an answer. Dashed: kept, then lost. Below: dropped at once")), box,
    h("div", {class: "answers"}, h("h3", {}, answers.length > 1 ? "The answers, and why the first one won" : "The answer"), h("ol", {}, answers.map(it => h("li", {}, h("span", {class: "own", dir: "auto"}, it.text || "■ end"),
      h("small", {}, `total ${logp(it.total)} ÷ penalty ${it.penalty.toFixed(3)} = score ${logp(it.score)}${it.finished ? "" : ", cut off"}`)))), h("p", {}, verdict.join(" "))),
    asTable("The search as a table", () => table("Candidates", ["Token", "Step", "Log-probability", "Total", "Score", "Fate"], nodes.map(it => [pieceName(it.token), it.step, logp(it.log_probability), logp(it.total), logp(it.score), it.fate]))));

  function draw() {
    const t = state.now.t, row = {}, edges = [], found = [];
    const perStep = n => nodes.filter(it => it.step === n);
    let most = 1;
    for (let n = 1; n <= steps; n++) perStep(n).filter(it => it.fate !== "dropped").forEach((it, i) => { row[it.number] = it.beam ?? i; most = Math.max(most, row[it.number] + 1); });
    for (let n = 1; n <= steps; n++) { // ended candidates take a free row of their step
      const used = new Set(), own = perStep(n).filter(it => it.number in row);
      own.sort((a, b) => won.has(b.number) - won.has(a.number) || (a.beam ?? 99) - (b.beam ?? 99));
      own.forEach(it => { let at = row[it.number]; while (used.has(at)) at = (at + 1) % (most + 1); used.add(at); row[it.number] = at; most = Math.max(most, at + 1); });
    }
    const x = n => 66 + (n - 1) * COLUMN, y = at => 46 + at * ROW, low = y(most) + 4, width = x(steps) + 60, height = low + 22 + DROPPED * 18 + 34;
    if (t !== null && t < steps) found.push(g("rect", {x: x(t + 1) - 54, y: 24, width: 108, height: most * ROW, rx: 7, class: "column"}));
    for (let n = 1; n <= steps; n++) found.push(g("text", {x: x(n), y: 14, "text-anchor": "middle", class: `small${n - 1 === t ? " on" : ""}`}, `step ${n}`));
    for (const it of nodes) {
      if (!(it.number in row)) continue;
      const X = x(it.step), Y = y(row[it.number]), [px, py] = it.parent < 0 ? [8, y(0)] : [x(it.step - 1) + 44, y(row[it.parent])], best = won.has(it.number), lives = living.has(it.number);
      edges.push([best, g("path", {d: `M${px} ${py}C${px + 26} ${py} ${X - 66} ${Y} ${X - 44} ${Y}`, class: `edge${best ? " best" : lives ? " lives" : ""}`})]);
      const name = `${pieceName(it.token)}, log-probability ${logp(it.log_probability)}, total ${logp(it.total)}, score ${logp(it.score)}, ${it.fate}`;
      found.push(g("g", {class: `node${best ? " best" : lives ? " lives" : ""}${best && t === it.step - 1 ? " on" : ""}`, "aria-label": name, onclick: () => state.set({t: Math.min(it.step - 1, page.answer.length - 1)})},
        g("title", {}, name), g("rect", {x: X - 44, y: Y - 18, width: 88, height: 36, rx: 6}), g("text", {x: X, y: Y - 1, "text-anchor": "middle", class: it.token === "</s>" ? "ours" : "own"}, pieceName(it.token).slice(0, 10)),
        g("text", {x: X, y: Y + 13, "text-anchor": "middle", class: "small"}, logp(it.log_probability))));
    }
    for (let n = 1; n <= steps; n++) {
      const dropped = perStep(n).filter(it => !(it.number in row));
      if (dropped.length) found.push(g("text", {x: x(n), y: low + 14, "text-anchor": "middle", class: "small"}, `${dropped.length} dropped`));
      dropped.slice(0, DROPPED).forEach((it, i) => found.push(g("text", {x: x(n), y: low + 32 + i * 17, "text-anchor": "middle", class: it.token === "</s>" ? "ours lost" : "own lost"}, `${pieceName(it.token).slice(0, 9)} ${percent(Math.exp(it.log_probability))}`)));
      const filled = cached[n - 1];
      if (filled !== undefined) found.push(g("text", {x: x(n), y: height - 6, "text-anchor": "middle", class: "small"}, `cache ${filled} → ${filled + 1}`));
    }
    edges.sort((a, b) => a[0] - b[0]);
    box.replaceChildren(picture(width, height, `Search of ${steps} steps; the first answer is ${answers[0]?.text ?? "empty"}`, g("circle", {cx: 6, cy: y(0), r: 4, class: "root"}), edges.map(it => it[1]), found));
  }
  return {node, fit() {}, update(now, before) { if (!before || now.t !== before.t) draw(); }};
}
