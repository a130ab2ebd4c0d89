// One head opened: its weights as a matrix and as lines, and which dimensions of query and key made one of them.

import {asTable, bold, g, h, label, modified, path, picture, rect, reveal, scroller, taken} from "./dom.js";
import {axes, decode, finding, headName, rowOf} from "./data.js";
import {css, drawCells, inkOn, shade} from "./colours.js";
import {inputPicture} from "./media.js";
import {best, logp, range, signed, sum, weight} from "./numbers.js";

const LARGEST = 16; // tokens of a matrix that is drawn with numbers
const LEAST = 0.02, LEAST_LONG = 0.1, LINES = 600; // weights that are drawn as lines
const LABEL = 82;
const PITCH = 14; // pixels of a cell with a label

const weightsOf = (layer, head, row) => range(layer.columns).map(c => layer.at(head, row, c));
const short = text => (text.length > 11 ? `${[...text].slice(0, 10).join("")}…` : text);

export function openHead(page, state) {
  const matrix = h("div.matrix"), lines = h("div.lines"), why = h("figure.full"), matrixTitle = h("figcaption"), linesTitle = h("figcaption");
  const details = h("div"), products = h("div"), limit = (value, most) => Math.min(most - 1, Math.max(0, value));
  const content = [h("figure", matrixTitle, matrix), h("figure", linesTitle, lines), why, details, products], node = h("div.open");
  let hover = null, kept = null, room = 820; // the cell under the pointer, the one pressed, and pixels across

  function chosen() {
    const {k, l, h: head} = state.now, layer = page.attention[k][l];
    const [row, column] = hover ?? kept ?? [limit(rowOf(page, k, state.now) ?? 0, layer.rows), null];
    return {k, l, head, layer, row, column: column ?? best(weightsOf(layer, head, row)), one: column !== null};
  }

  const text = (token, props) => g("text", {...props, class: token.own ? "own" : "ours"}, short(token.name));

  function cells({k, layer, head}) {
    const [rows, columns] = axes(page, k), wide = Math.max(22, Math.min(52, 350 / layer.columns)), high = layer.rows > 10 ? 27 : 34;
    const width = LABEL + layer.columns * wide + 4, height = 36 + layer.rows * high + 6, found = [];
    columns.forEach((it, c) => found.push(text(it, {x: LABEL + c * wide + wide / 2, y: layer.columns > 8 ? 24 : 26, "text-anchor": "middle", "data-column": c, ...(layer.columns > 8 ? {transform: `rotate(-28 ${LABEL + c * wide + wide / 2} 26)`} : {})})));
    rows.forEach((it, r) => {
      found.push(text(it, {x: LABEL - 9, y: 36 + r * high + high / 2 + 5, "text-anchor": "end", "data-row": r}));
      for (let c = 0; c < layer.columns; c++) {
        const x = LABEL + c * wide + 1, y = 36 + r * high + 1, barred = layer.barred(r, c), w = layer.at(head, r, c), fill = shade(w);
        found.push(g("g", {"data-r": r, "data-c": c}, rect(x, y, wide - 2, high - 2, {rx: 3, class: barred ? "barred" : "cell", fill: barred ? "transparent" : css(fill)}),
          barred ? path(`M${x + wide / 2 - 6} ${y + high / 2 + 4}l10 -10`, "stroke") : label(x + wide / 2 - 1, y + high / 2 + 4, weight(w), "value mid", {style: {fill: inkOn(fill)}})));
      }
    });
    const outline = g("rect.chosen", {rx: 4});
    return {view: picture(width, height, named(k, layer, head), found, outline), outline, box: (r, c) => (c === null ? {x: LABEL, y: 36 + r * high, width: layer.columns * wide, height: high} : {x: LABEL + c * wide, y: 36 + r * high, width: wide, height: high})};
  }

  /** A long text's weights on a canvas, a pixel a cell and drawn larger, with an overlay for the hovered row and column. */
  function pixels({k, layer, head}) {
    const [rows, columns] = axes(page, k), canvas = h("canvas", {style: {width: `${layer.columns * PITCH}px`}, role: "img", "aria-label": named(k, layer, head)});
    drawCells(canvas, layer.rows, layer.columns, (r, c) => (layer.barred(r, c) ? null : shade(layer.at(head, r, c))));
    const rowMark = h("i.mark"), said = h("p.where"), names = (where, all, n) => h(`div.${where}`, {"aria-hidden": "true"}, (!page.media || all !== page.source) && all.slice(0, n).map(it => h("span", {class: it.own && "own"}, short(it.name))));
    const across = names("across", columns, layer.columns), down = names("down", rows, layer.rows), wrap = h("div.canvas", h("i.corner"), across, down, h("div.plane", canvas, rowMark));
    const cellAt = event => {
      const box = canvas.getBoundingClientRect();
      return [limit(Math.floor(((event.clientY - box.top) / box.height) * layer.rows), layer.rows), limit(Math.floor(((event.clientX - box.left) / box.width) * layer.columns), layer.columns)];
    };
    canvas.addEventListener("pointermove", event => point(cellAt(event)));
    canvas.addEventListener("click", event => keep(cellAt(event)));
    return {view: wrap, said, mark({row, column, one}) {
      for (const [group, at] of [[across, column], [down, row]]) [...group.children].forEach((it, i) => it.classList.toggle("on", i === at));
      rowMark.style.top = `${(100 * row) / layer.rows}%`;
      rowMark.style.height = `${100 / layer.rows}%`;
      if (!one) reveal(wrap.parentElement, rowMark, "top");
      said.textContent = `${rows[row].name} looks at ${columns[column].name}: ${layer.at(head, row, column).toFixed(4)}`;
    }};
  }

  /** Where the chosen row looks, over the input. What is pressed becomes the row, or in cross-attention the column. */
  function overlay({k}) {
    over = inputPicture(page.media, page.source, 360, s => (k === "encoder.self" ? state.set({s}) : keep([chosen().row, s])));
    return over.node;
  }

  function threads({k, layer, head}) {
    const [rows, columns] = axes(page, k), many = Math.max(layer.rows, layer.columns), pitch = many > 24 ? 14 : many > LARGEST ? 20 : 27, height = many * pitch + 12, width = Math.min(340, room), x1 = LABEL, x2 = width - LABEL;
    const y = (i, n) => 14 + (i * (height - 24)) / Math.max(1, n - 1), least = many > LARGEST ? LEAST_LONG : LEAST, found = [];
    for (let r = 0; r < layer.rows; r++) for (let c = 0; c < layer.columns; c++) { const w = layer.at(head, r, c); if (w > least && !layer.barred(r, c)) found.push([w, r, c]); }
    if (!found.length) for (let r = 0; r < layer.rows; r++) { const c = best(weightsOf(layer, head, r)); found.push([layer.at(head, r, c), r, c]); }
    found.sort((a, b) => b[0] - a[0]);
    const curves = found.slice(0, LINES).reverse().map(([w, r, c]) => g("path.thread", {d: `M${x1 + 4} ${y(r, layer.rows)}C${x1 + 60} ${y(r, layer.rows)} ${x2 - 60} ${y(c, layer.columns)} ${x2 - 4} ${y(c, layer.columns)}`, "data-r": r, "data-c": c, "stroke-width": (1 + 7 * w).toFixed(1), "stroke-opacity": faint(w), "data-w": w}));
    const names = [...rows.map((it, r) => [it, r, null, x1 - 6, y(r, layer.rows), "end"]), ...columns.map((it, c) => [it, null, c, x2 + 6, y(c, layer.columns), "start"])].map(([it, r, c, x, at, anchor]) =>
      g("g.end", {"data-row": r, "data-column": c}, rect(anchor === "end" ? 0 : x2, at - pitch / 2, LABEL, pitch, {class: "clear"}), text(it, {x, y: at + 5, "text-anchor": anchor})));
    return picture(width, height, `${named(k, layer, head)}, as lines`, curves, names);
  }

  const title = k => headName(k, state.now.l, state.now.h);
  const named = (k, layer, head) => `${title(k)}, ${finding(page, k, layer, head)}`, faint = w => (0.15 + 0.8 * w).toFixed(2);
  let cellView = null, pixelView = null, over = null;

  function build() {
    const it = chosen(), off = it.layer.off(it.head), seen = page.media && it.k !== "decoder.self", small = !seen && Math.max(it.layer.rows, it.layer.columns) <= LARGEST;
    node.classList.toggle("none", off);
    if (off) return node.replaceChildren(`${title(it.k)} is switched off.`);
    node.replaceChildren(...content);
    cellView = small ? cells(it) : null;
    pixelView = small ? null : pixels(it);
    matrix.replaceChildren(scroller("Weights; arrow keys choose a cell", (cellView ?? pixelView).view), pixelView?.said ?? "");
    over = null;
    lines.replaceChildren((seen ? overlay : threads)(it));
    details.replaceChildren(asTable("This head", () => weightsTable(it)));
    mark();
    tableOfProducts();
  }

  /** The products of the chosen cell, but not of one under the pointer, as a table. */
  function tableOfProducts() {
    const it = chosen(), [rows, columns] = axes(page, it.k), found = productsOf(it), pair = `Query of ${rows[it.row].name} × key of ${columns[it.column].name}`;
    products.replaceChildren(found ? asTable("The products", () => [["Dimension", `${pair} ÷ √${found.length}`], found.map((v, d) => [d, signed(v, 4)])]) : "");
  }

  /** Keep a cell chosen: one that was pressed or reached with arrow keys. */
  function keep(cell) {
    [kept, hover] = [cell, null];
    mark();
    tableOfProducts();
  }

  /** The cell that an event is about: [row, column], a row as a whole, or null. */
  function cellOf(event) {
    const {r, c = null, row = r} = event.target.closest("[data-r], .end[data-row]")?.dataset ?? {};
    return row === undefined ? null : [Number(row), c && Number(c)];
  }
  for (const group of [matrix, lines]) {
    group.addEventListener("pointerover", event => point(cellOf(event) ?? hover));
    group.addEventListener("pointerleave", () => point(null));
    group.addEventListener("click", event => { const cell = cellOf(event); if (cell) keep(cell); });
  }

  matrix.addEventListener("keydown", event => {
    const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key], {layer, row, column} = chosen();
    if (!move || event.shiftKey || modified(event)) return;
    linesTitle.ariaLive = "polite";
    keep([limit(row + move[0], layer.rows), limit(column + move[1], layer.columns)]);
    taken(event);
  });

  function weightsTable({k, layer, head}) {
    const [rows, columns] = axes(page, k);
    return [["looks", ...columns.map(it => it.name)], rows.slice(0, layer.rows).map((it, r) => [it.name, ...columns.map((_, c) => (layer.barred(r, c) ? "–" : layer.at(head, r, c).toFixed(4)))])];
  }

  function point(at) {
    if (String(at) === String(hover)) return;
    hover = at;
    mark();
  }

  /** Repaint what depends on the chosen or hovered row: outlines and captions, never the pictures. */
  function mark() {
    const it = chosen(), [rows, columns] = axes(page, it.k), {layer, head, row, column} = it;
    if (layer.off(head)) return;
    if (cellView) {
      const box = cellView.box(row, it.one ? column : null);
      for (const [name, value] of Object.entries(box)) cellView.outline.setAttribute(name, value);
      for (const [kind, at] of [["row", row], ["column", column]]) matrix.querySelectorAll(`text[data-${kind}]`).forEach(it => it.classList.toggle("on", Number(it.dataset[kind]) === at));
    } else pixelView.mark(it);
    lines.querySelectorAll(".thread").forEach(node => {
      const on = Number(node.dataset.r) === row;
      node.classList.toggle("on", on);
      node.setAttribute("stroke-opacity", on ? Math.max(0.35, node.dataset.w).toFixed(2) : faint(node.dataset.w));
    });
    lines.querySelectorAll(".end").forEach(node => node.querySelector("text").classList.toggle("on", node.dataset.row ? Number(node.dataset.row) === row : layer.at(head, row, Number(node.dataset.column)) > 0.1));
    matrixTitle.replaceChildren(h("b", title(it.k)), " as a matrix; rows look at columns");
    over?.light(weightsOf(layer, head, row), title(it.k), it.k === "encoder.self" ? row : column);
    linesTitle.replaceChildren(`and ${over ? "over the input" : "as lines"}; `, bold(rows[row]), " looks at ", bold(columns[column]), `, ${layer.at(head, row, column).toFixed(4)}`);
    explain(it, rows, columns);
  }

  /** The products of query and key that make a score, or null if they aren't here or the key may not be looked at. */
  function productsOf({layer, head, row, column}) {
    const {q, k} = layer.raw;
    if (!q || layer.barred(row, column)) return null;
    const width = q.shape.at(-1), one = (layer.queries ??= decode(q).values), other = (layer.keys ??= decode(k).values);
    return range(width).map(d => (one[(head * layer.rows + row) * width + d] * other[(head * layer.columns + column) * width + d]) / Math.sqrt(width));
  }

  function explain(it, rows, columns) {
    const {layer, head, row, column} = it, at = productsOf(it);
    if (!at) return why.replaceChildren();
    const width = at.length, sums = (layer.sums ??= decode(layer.raw.lse).values);
    const w = layer.at(head, row, column), total = sum(at), exact = w > 0.001, score = w > 0 ? Math.log(w) + sums[head * layer.rows + row] : total;
    const largest = Math.max(...at.map(Math.abs)) || 1, top = at.map((v, d) => [d, v]).sort((a, b) => b[1] - a[1]).slice(0, 3).map(it => it[0]), each = room / width;
    const lowest = Math.max(0, ...at.map(v => -v)) / largest, bottom = 58 + Math.max(20, 50 * lowest + 4);
    const bars = at.flatMap((v, d) => {
      const high = (50 * Math.abs(v)) / largest, named = top.includes(d) && v > 0;
      return [rect(d * each + each * 0.12, v > 0 ? 58 - high : 58, each * 0.76, Math.max(0.5, high), {rx: 1.5, class: `${v < 0 ? "against" : "for"}${named ? " named" : ""}`}),
        named ? label(d * each + each / 2, 74, d, "small mid") : null];
    });
    const name = `${width} products, the largest in dimensions ${top.join(", ")}`;
    why.replaceChildren(h("figcaption", h("b", "Why this weight: "), "the query of ", bold(rows[row]), " times the key of ", bold(columns[column]),
      `, dimension by dimension; the ${width} products over √${width} make a score of ${exact ? "" : "≈"}${logp(score)}, and the softmax of its row makes it ${w.toFixed(4)}`),
      picture(room, bottom, name, path(`M0 58H${room}`, "axis"), bars));
  }

  function fit() {
    const wide = Math.min(820, node.clientWidth || 820);
    if (wide === room) return;
    room = wide;
    build();
  }

  return {node, fit, update(now, before) {
    if (!before || ["k", "l", "h", "s", "t"].some(it => now[it] !== before[it])) [hover, kept] = [null, null];
    linesTitle.ariaLive = "off";
    if (!before || ["k", "l", "h", "theme"].some(it => now[it] !== before[it])) build();
    else if (now.s !== before.s || now.t !== before.t) {
      mark();
      tableOfProducts();
    }
  }};
}
