// One head opened: its weights as a matrix and as lines, and which dimensions of query and key made one of them.

import {asTable, g, h, picture, table} from "./dom.js";
import {PLACES, axes, decode, rowOf} from "./data.js";
import {css, inkOn, shade} from "./colours.js";
import {logp, weight} from "./numbers.js";

const LARGEST = 16; // tokens of a matrix that is drawn with numbers
const LEAST = 0.02, LEAST_LONG = 0.1, LINES = 600; // weights that are drawn as lines
const LABEL = 82;

const best = (layer, head, row) => { let at = 0; for (let c = 1; c < layer.columns; c++) if (layer.at(head, row, c) > layer.at(head, row, at)) at = c; return at; };
const short = text => (text.length > 11 ? `${[...text].slice(0, 10).join("")}…` : text);

export function openHead(page, state) {
  const matrix = h("div", {class: "matrix"}), lines = h("div", {class: "lines"}), why = h("figure", {class: "full"}), matrixTitle = h("figcaption"), linesTitle = h("figcaption");
  const details = h("div");
  const node = h("div", {class: "open"}, h("figure", {}, matrixTitle, matrix), h("figure", {}, linesTitle, lines), why, details);
  let hover = null;

  function chosen() {
    const {k, l, h: head} = state.now, layer = page.attention[k][l];
    const row = hover ? hover[0] : Math.min(rowOf(page, k, state.now) ?? 0, layer.rows - 1);
    return {k, l, head, layer, row, column: hover && hover[1] !== null ? hover[1] : best(layer, head, row)};
  }

  const text = (token, props, on) => g("text", {...props, class: `${token.own ? "own" : "ours"}${on ? " on" : ""}`}, short(token.name));

  function cells({k, layer, head}) {
    const [rows, columns] = axes(page, k), wide = Math.max(22, Math.min(52, 350 / layer.columns)), high = layer.rows > 10 ? 27 : 34;
    const width = LABEL + layer.columns * wide + 4, height = 36 + layer.rows * high + 6, found = [];
    columns.forEach((it, c) => found.push(text(it, {x: LABEL + c * wide + wide / 2, y: layer.columns > 8 ? 24 : 26, "text-anchor": "middle", "data-column": c, ...(layer.columns > 8 ? {transform: `rotate(-28 ${LABEL + c * wide + wide / 2} 26)`} : {})})));
    rows.forEach((it, r) => {
      found.push(text(it, {x: LABEL - 9, y: 36 + r * high + high / 2 + 5, "text-anchor": "end", "data-row": r}));
      for (let c = 0; c < layer.columns; c++) {
        const x = LABEL + c * wide + 1, y = 36 + r * high + 1, barred = layer.barred(r, c), w = layer.at(head, r, c), fill = shade(w);
        found.push(g("g", {"data-r": r, "data-c": c}, g("rect", {x, y, width: wide - 2, height: high - 2, rx: 3, class: barred ? "barred" : "cell", fill: barred ? "transparent" : css(fill)}),
          barred ? g("path", {d: `M${x + wide / 2 - 6} ${y + high / 2 + 4}l10 -10`, class: "stroke"}) : g("text", {x: x + wide / 2 - 1, y: y + high / 2 + 4, "text-anchor": "middle", class: "value", style: {fill: inkOn(fill)}}, weight(w))));
      }
    });
    const outline = g("rect", {class: "chosen", rx: 4});
    return {view: picture(width, height, title(k), found, outline), outline, box: (r, c) => (c === null ? {x: LABEL, y: 36 + r * high, width: layer.columns * wide, height: high} : {x: LABEL + c * wide, y: 36 + r * high, width: wide, height: high})};
  }

  /** A long text's weights on a canvas, a pixel a cell and drawn larger, with an overlay for the hovered row and column. */
  function pixels({k, layer, head}) {
    const size = Math.max(3, Math.min(18, Math.floor(480 / layer.columns))), canvas = h("canvas", {width: layer.columns, height: layer.rows, style: {width: `${layer.columns * size}px`}, role: "img", "aria-label": title(k)});
    const context = canvas.getContext("2d"), cells = context.createImageData(layer.columns, layer.rows);
    for (let r = 0; r < layer.rows; r++) for (let c = 0; c < layer.columns; c++) if (!layer.barred(r, c)) cells.data.set([...shade(layer.at(head, r, c)), 255], 4 * (r * layer.columns + c));
    context.putImageData(cells, 0, 0);
    const rowMark = h("i", {class: "mark"}), said = h("p", {class: "where"}), wrap = h("div", {class: "canvas"}, canvas, rowMark);
    canvas.addEventListener("pointermove", event => {
      const box = canvas.getBoundingClientRect(), r = Math.floor(((event.clientY - box.top) / box.height) * layer.rows), c = Math.floor(((event.clientX - box.left) / box.width) * layer.columns);
      if (r >= 0 && r < layer.rows && c >= 0 && c < layer.columns) point([r, c]);
    });
    canvas.addEventListener("pointerleave", () => point(null));
    return {view: h("div", {class: "scroll"}, wrap, said), mark({row, column}) {
      const [rows, columns] = axes(page, k);
      rowMark.style.setProperty("top", `${(100 * row) / layer.rows}%`);
      rowMark.style.setProperty("height", `${100 / layer.rows}%`);
      said.textContent = `${rows[row].name} looks at ${columns[column].name}: ${layer.at(head, row, column).toFixed(4)}`;
    }};
  }

  function threads({k, layer, head}) {
    const [rows, columns] = axes(page, k), many = Math.max(layer.rows, layer.columns), pitch = many > 24 ? 14 : many > LARGEST ? 20 : 27, height = many * pitch + 12, width = 340, x1 = LABEL, x2 = width - LABEL;
    const y = (i, n) => 14 + (i * (height - 24)) / Math.max(1, n - 1), least = many > LARGEST ? LEAST_LONG : LEAST, found = [];
    for (let r = 0; r < layer.rows; r++) for (let c = 0; c < layer.columns; c++) { const w = layer.at(head, r, c); if (w > least && !layer.barred(r, c)) found.push([w, r, c]); }
    found.sort((a, b) => b[0] - a[0]);
    const curves = found.slice(0, LINES).reverse().map(([w, r, c]) => g("path", {d: `M${x1 + 4} ${y(r, layer.rows)}C${x1 + 60} ${y(r, layer.rows)} ${x2 - 60} ${y(c, layer.columns)} ${x2 - 4} ${y(c, layer.columns)}`,
      class: "thread", "data-r": r, "data-c": c, "stroke-width": (1 + 7 * w).toFixed(1), "stroke-opacity": (0.1 + 0.55 * w).toFixed(2), "data-w": w}));
    const names = [...rows.map((it, r) => [it, r, null, x1 - 6, y(r, layer.rows), "end"]), ...columns.map((it, c) => [it, null, c, x2 + 6, y(c, layer.columns), "start"])].map(([it, r, c, x, at, anchor]) =>
      g("g", {class: "end", "data-row": r, "data-column": c}, g("rect", {x: anchor === "end" ? 0 : x2, y: at - pitch / 2, width: LABEL, height: pitch, class: "clear"}), text(it, {x, y: at + 5, "text-anchor": anchor})));
    return picture(width, height, `${title(k)} as lines`, curves, names);
  }

  const title = k => `${PLACES[k][0]} layer ${state.now.l}, head ${state.now.h}`;
  let cellView = null, pixelView = null;

  function build() {
    const it = chosen(), small = Math.max(it.layer.rows, it.layer.columns) <= LARGEST;
    cellView = small ? cells(it) : null;
    pixelView = small ? null : pixels(it);
    matrix.replaceChildren(small ? h("div", {class: "scroll", tabindex: 0, role: "group", "aria-label": "Weights, scroll sideways"}, cellView.view) : pixelView.view);
    lines.replaceChildren(threads(it));
    for (const group of [matrix, lines]) {
      group.onpointerover = event => { const cell = event.target.closest("[data-r]"); if (cell) point([Number(cell.dataset.r), Number(cell.dataset.c)]); };
      group.onpointerleave = () => point(null);
    }
    lines.querySelectorAll("[data-row]").forEach(end => { if (end.dataset.row !== undefined) end.addEventListener("pointerover", () => point([Number(end.dataset.row), null])); });
    details.replaceChildren(asTable("This head as a table", () => weightsTable(it)));
    mark();
  }

  function weightsTable({k, layer, head}) {
    const [rows, columns] = axes(page, k);
    return table(title(k), ["looks", ...columns.map(it => it.name)], rows.slice(0, layer.rows).map((it, r) => [it.name, ...columns.map((_, c) => (layer.barred(r, c) ? "–" : layer.at(head, r, c).toFixed(4)))]));
  }

  function point(at) {
    if (String(at) === String(hover)) return;
    hover = at;
    mark();
  }

  /** Repaint what depends on the chosen or hovered row: outlines and captions, never the pictures. */
  function mark() {
    const it = chosen(), [rows, columns] = axes(page, it.k), {layer, head, row, column} = it;
    if (cellView) {
      const box = cellView.box(row, hover ? hover[1] : null);
      for (const [name, value] of Object.entries(box)) cellView.outline.setAttribute(name, value);
      matrix.querySelectorAll("text[data-row]").forEach(node => node.classList.toggle("on", Number(node.dataset.row) === row));
      matrix.querySelectorAll("text[data-column]").forEach(node => node.classList.toggle("on", Number(node.dataset.column) === column));
    } else pixelView.mark(it);
    lines.querySelectorAll(".thread").forEach(node => {
      const on = Number(node.dataset.r) === row;
      node.classList.toggle("on", on);
      node.setAttribute("stroke-opacity", (on ? Math.max(0.35, node.dataset.w) : 0.1 + 0.55 * node.dataset.w).toFixed(2));
    });
    lines.querySelectorAll(".end").forEach(node => node.querySelector("text").classList.toggle("on", node.dataset.row !== undefined && node.dataset.row !== null ? Number(node.dataset.row) === row : layer.at(head, row, Number(node.dataset.column)) > 0.1));
    const bold = token => h("b", {dir: "auto"}, token.name);
    matrixTitle.replaceChildren(h("b", {}, title(it.k)), " as a matrix; rows look at columns");
    linesTitle.replaceChildren("and as lines; ", bold(rows[row]), " looks at ", bold(columns[column]), `, ${layer.at(head, row, column).toFixed(4)}`);
    products(it, rows, columns);
  }

  function products({layer, head, row, column}, rows, columns) {
    const {q, k, lse} = layer.raw;
    if (!q || layer.barred(row, column)) return why.replaceChildren();
    const width = q.shape.at(-1), one = (layer.queries ??= decode(q).values), other = (layer.keys ??= decode(k).values), sums = (layer.sums ??= decode(lse).values);
    const at = [...Array(width).keys()].map(d => (one[(head * layer.rows + row) * width + d] * other[(head * layer.columns + column) * width + d]) / Math.sqrt(width));
    const w = layer.at(head, row, column), total = at.reduce((a, b) => a + b, 0), exact = w > 0.001, score = w > 0 ? Math.log(w) + sums[head * layer.rows + row] : total;
    const largest = Math.max(...at.map(Math.abs)) || 1, top = at.map((v, d) => [d, v]).sort((a, b) => b[1] - a[1]).slice(0, 3).map(it => it[0]), each = 820 / width;
    const lowest = Math.max(0, ...at.map(v => -v)) / largest, bottom = 58 + Math.max(20, 50 * lowest + 4);
    const bars = at.flatMap((v, d) => {
      const high = (50 * Math.abs(v)) / largest, named = top.includes(d) && v > 0;
      return [g("rect", {x: d * each + each * 0.12, y: v > 0 ? 58 - high : 58, width: each * 0.76, height: Math.max(0.5, high), rx: 1.5, class: `${v < 0 ? "against" : "for"}${named ? " named" : ""}`}),
        named ? g("text", {x: d * each + each / 2, y: 74, "text-anchor": "middle", class: "small"}, d) : null];
    });
    const name = `${width} products, the largest in dimensions ${top.join(", ")}`;
    why.replaceChildren(h("figcaption", {}, h("b", {}, "Why this weight: "), "the query of ", h("b", {dir: "auto"}, rows[row].name), " times the key of ", h("b", {dir: "auto"}, columns[column].name),
      `, dimension by dimension; the ${width} products over √${width} make a score of ${exact ? "" : "≈"}${logp(score)}, and the softmax of its row makes it ${w.toFixed(4)}`),
      picture(820, bottom, name, g("path", {d: "M0 58H820", class: "axis"}), bars));
  }

  return {node, fit() {}, update(now, before) {
    hover = null;
    if (!before || ["k", "l", "h", "theme"].some(it => now[it] !== before[it])) build();
    else mark();
  }};
}
