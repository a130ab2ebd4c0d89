// All heads at a glance: a picture for each head, a row for each layer, a column for each kind of attention.

import {button, h, roving, section} from "./dom.js";
import {PLACES, changeOf, finding, headName, headsOn, rowOf} from "./data.js";
import {css, drawCells, shade, themed} from "./colours.js";
import {range, signed, sum} from "./numbers.js";
import {openHead} from "./open_head.js";
import {overInput} from "./media.js";

const LONG = 32; // tokens from which the pictures of heads are large
const SORTS = {layer: "by layer", entropy: "by entropy", worth: "by importance"};

/** Draw one head at the resolution of the device; where cells are smaller than a pixel, by the largest, so that no diagonal is lost. */
function paint(canvas, layer, head) {
  const ratio = Math.max(1, devicePixelRatio), {rows, columns} = layer, context = canvas.getContext("2d");
  const width = Math.max(1, Math.round((canvas.clientWidth || 60) * ratio)), size = width / columns, height = Math.max(1, Math.round(size * rows));
  if (size >= 2) {
    [canvas.width, canvas.height] = [width, height];
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
      const [x, y, x2, y2] = [c * size, r * size, (c + 1) * size, (r + 1) * size].map(Math.round);
      if (layer.barred(r, c)) strike(context, x, y, x2 - x, y2 - y);
      else { context.fillStyle = css(shade(layer.at(head, r, c))); context.fillRect(x, y, x2 - x, y2 - y); }
    }
    return;
  }
  const most = new Float32Array(width * height).fill(-1);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
    if (layer.barred(r, c)) continue;
    const at = Math.min(height - 1, Math.floor(r * size)) * width + Math.min(width - 1, Math.floor(c * size));
    most[at] = Math.max(most[at], layer.at(head, r, c));
  }
  drawCells(canvas, height, width, (r, c) => (most[r * width + c] < 0 ? null : shade(most[r * width + c])));
}

function strike(context, x, y, width, height) {
  context.strokeStyle = themed("line");
  context.lineWidth = Math.max(1, width / 9);
  context.beginPath();
  context.moveTo(x + width * 0.3, y + height * 0.7);
  context.lineTo(x + width * 0.7, y + height * 0.3);
  context.stroke();
}

export function attention(page, state, asker, signal) {
  const heads = sum(page.places.flatMap(it => page.attention[it].map(layer => layer.heads)));
  const long = page.places.some(it => page.attention[it][0].columns > LONG), many = page.places.some(it => page.attention[it][0].heads > 6), kinds = h("div", {class: `kinds${many ? " many" : ""}${long ? " long" : ""}`, role: "group", "aria-label": "Heads"}), opened = openHead(page, state), over = page.media?.maps ? overInput(page, state) : null, sorts = h("div.tools");
  let sort = "layer", minis = [], pictures = [];
  const legend = h("div.legend", h("span", "0"), h("i"), h("span", "1 weight"));
  for (const [name, text] of Object.entries(SORTS).filter(([name]) => name !== "worth" || page.measured)) sorts.append(button(text, () => { sort = name; build(); update(state.now, null); }, {"data-sort": name}));
  const node = section("attention", "Attention", `${heads} heads; each row is one query ${page.media ? "position" : "token"}; entropy in bits`, [sorts, legend], over?.node, kinds, opened.node);

  const seen = new IntersectionObserver(entries => entries.forEach(it => { if (it.isIntersecting) { it.target.draw(); seen.unobserve(it.target); } }), {rootMargin: "400px"});
  const worth = (place, l, head) => { const [stack, kind] = place.split("."); return changeOf(page, `${stack}.${l}.${kind}.head.${head}`, state.now.t) ?? 0; };

  function mini(place, layer, head, l) {
    const canvas = h("canvas"), tick = h("i.tick"), off = layer.off(head), entropy = layer.entropy[head].toFixed(2);
    const node = h("button.mini", {"data-k": place, "data-l": l, "data-h": head, "aria-label": `${headName(place, l, head)}, ${finding(page, place, layer, head)}${off ? "" : `, entropy ${entropy} bits`}`, onclick: () => state.set({k: place, l, h: head})}, h("span.frame", canvas, tick), h("small", off ? "off" : sort === "worth" ? signed(worth(place, l, head), page.digits) : entropy));
    minis.push({node, tick, place, layer, head, l});
    return shown(node, canvas, layer, head);
  }

  /** The mean of a layer's heads, at the end of its row. */
  function mean(place, layer, l) {
    const on = headsOn(layer).length, own = {...layer, off: () => !on, at: (_, row, column) => layer.mean(row, column)};
    const canvas = h("canvas", {role: "img", "aria-label": `${PLACES[place][0]} layer ${l + 1}, mean of ${on} heads, ${finding(page, place, own, 0)}`}), node = h("div.mini.mean", h("span.frame", canvas), h("small", on ? "mean" : "off"));
    return shown(node, canvas, own, 0);
  }

  function shown(node, canvas, layer, head) {
    node.draw = () => layer.off(head) || paint(canvas, layer, head);
    canvas.style.aspectRatio = layer.columns / layer.rows;
    pictures.push(node);
    seen.observe(node);
    return node;
  }

  function build() {
    [minis, pictures] = [[], []];
    sorts.querySelectorAll("button").forEach(it => it.ariaPressed = it.dataset.sort === sort);
    kinds.replaceChildren(...page.places.map(place => {
      const layers = page.attention[place], [title, about] = PLACES[place], across = Math.min(9, layers[0].heads + 1);
      const grid = h("div.grid", {style: {"--across": across}});
      if (sort === "layer") layers.forEach((layer, l) => grid.append(h("span", `layer ${l + 1}`), h("div.row", range(layer.heads).map(head => mini(place, layer, head, l)), mean(place, layer, l))));
      else {
        const all = layers.flatMap((layer, l) => range(layer.heads).map(head => [layer, head, l]));
        const key = ([layer, head, l]) => (layer.off(head) ? Infinity : sort === "worth" ? worth(place, l, head) : layer.entropy[head]);
        all.sort((a, b) => (key(a) === key(b) ? 0 : key(a) - key(b)));
        grid.append(h("span", sort === "worth" ? "largest drop first" : "sharpest first"), h("div.row", all.map(([layer, head, l]) => mini(place, layer, head, l))));
      }
      return h("div.kind", h("h3", title, h("span", about)), grid);
    }));
    roving(kinds, "button.mini");
  }

  function update(now, before) {
    if (page.labels && sort === "worth" && before && now.t !== before.t) build();
    for (const {node: it, tick, place, layer, head, l} of minis) {
      it.ariaPressed = place === now.k && l === now.l && head === now.h;
      const row = rowOf(page, place, now);
      if (tick.row === row) continue;
      tick.row = row;
      tick.hidden = row === null || row >= layer.rows;
      if (!tick.hidden) { tick.style.top = `${(100 * row) / layer.rows}%`; tick.style.height = `${100 / layer.rows}%`; }
    }
    if (before && before.theme !== now.theme) redraw();
    over?.update(now);
    opened.update(now, before);
  }

  addEventListener("beforeprint", () => pictures.forEach(it => it.draw()), {signal});

  function redraw() { pictures.forEach(it => { seen.unobserve(it); seen.observe(it); }); }

  build();
  return {node, update, fit() { redraw(); opened.fit(); }};
}
