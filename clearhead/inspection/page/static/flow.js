// Figure 1 for this model: a box for each recorded part. A step forward moves the data by one part.

import {asTable, g, h, pressed, roving, section, table} from "./dom.js";
import {drawCells, shade} from "./colours.js";
import {headsOn} from "./data.js";
import {count, percent, short} from "./numbers.js";
import {partKind, partTitle, sectionOf} from "./parts.js";

const ACROSS = {embedding: 66, embedded: 22, types: 44, self: 70, cross: 70, feed_forward: 68, add: 15, norm: 15, projection: 48, pointer: 52, head: 56, softmax: 68};
const UPRIGHT = {embedding: 34, self: 58, cross: 58, feed_forward: 36, softmax: 36};
const TALL = 32, FINGER = 12; // pixels of another upright part, and between two of them
const LABELS = {embedding: ["Embed-", "ding"], types: ["Token", "types"], self: ["Self-", "attention"], cross: ["Cross-", "attention"], feed_forward: ["Feed-", "forward"], projection: ["Linear"], pointer: ["Pointer"], head: ["Head"], softmax: ["Softmax"]};
const NORMS = {add: "Add & norm", norm: "Norm"}; // named where there is room
const MOST = 3; // layers of a stack that are all drawn

const kindOf = name => { const last = name.split(".").pop(); return last.startsWith("add_norm") ? "add" : last === "embedding_norm" ? "norm" : last; };

/** The mean of an attention's heads, as a small picture. */
const thumbnail = layer => drawCells(h("canvas"), layer.rows, layer.columns, (r, c) => (layer.barred(r, c) ? null : shade(layer.mean(r, c)))).toDataURL();

export function flow(page, state) {
  const parts = page.parts.map(it => ({...it, kind: kindOf(it.name)})), read = {image: "image", audio: "recording"}[page.media?.kind] ?? "sentence", unit = page.media ? "positions" : "tokens";
  if (page.answer.length) parts.push({name: "softmax", stack: parts.at(-1).stack, kind: "softmax", shape: parts.at(-1).shape});
  const box = h("div", {class: "figure scroll"}), code = h("details", {class: "code"}, h("summary"), h("pre", {tabindex: 0})), about = h("div", {class: "about", "aria-live": "polite"}), number = h("span", {class: "step"});
  const tableOf = asTable("The parts as a table", () => table("Parts of the model", ["Part", "Output", "Parameters", "Milliseconds"],
    page.parts.map(it => [partTitle(it.name), it.shape.slice(1).join(" × "), count(it.parameters), it.milliseconds.toFixed(2)])));
  const step = by => state.set({step: Math.min(parts.length - 1, Math.max(0, state.now.step + by))});
  const back = h("button", {class: "button", "aria-label": "Step back", onclick: () => step(-1)}, "←");
  const forth = h("button", {class: "button", "aria-label": "Step forward", onclick: () => step(1)}, "→");
  const node = section("flow", "Flow", `Figure 1 of the paper for this model, holding your ${read}`, [back, number, forth], box, about, code, tableOf);
  const opened = new Set();
  roving(box, ".part");
  let boxes = [];

  /** Which parts are drawn: of a deep stack, the first, the chosen and the last layer. */
  function drawn() {
    const now = parts[state.now.step], layerOf = it => { const at = it.name.split(".")[1]; return /^\d+$/.test(at) ? Number(at) : null; };
    const rows = [];
    parts.forEach((it, i) => {
      const layers = page.model.layers[it.stack] ?? 0, layer = layerOf(it);
      const keep = layer === null || layers <= MOST || opened.has(it.stack) || layer === 0 || layer === layers - 1 || (now.stack === it.stack && layerOf(now) === layer);
      if (keep) rows.push({...it, i});
      else {
        const last = rows.at(-1);
        if (last?.kind === "more") last.layers.add(layer);
        else rows.push({kind: "more", stack: it.stack, layers: new Set([layer]), i});
      }
    });
    return rows;
  }

  function draw() {
    const upright = innerWidth <= 700, sizes = upright ? UPRIGHT : ACROSS, gap = upright ? FINGER : 8, room = Math.min(358, box.clientWidth || 358), depth = upright ? (room - 74) / 2 : 72;
    const had = box.contains(document.activeElement) ? document.activeElement.dataset.step : null;
    const at = {encoder: 0, decoder: 0, head: 0}, both = page.model.layers.encoder && page.model.layers.decoder;
    const items = drawn().map(it => {
      const stack = it.stack === "head" ? "encoder" : it.stack, size = sizes[it.kind] ?? (upright ? TALL : 34), placed = {...it, stack, a: at[stack], size};
      at[stack] += size + gap;
      return placed;
    });
    const total = Math.max(at.encoder, at.decoder), now = state.now.step;
    const second = both ? (upright ? depth + 66 : 132) : upright ? 8 : 24;
    const width = upright ? room : total + 12, height = upright ? total + 44 : both ? 228 : 122;
    const place = it => {
      const along = it.a, first = it.stack === "encoder";
      return upright ? {x: first ? 8 : second, y: height - 26 - along - it.size, w: depth, h: it.size} : {x: 4 + along, y: first ? 24 : second, w: it.size, h: depth};
    };
    const lines = [], wire = (d, on, extra = "") => lines.push(g("path", {d, class: `wire${on ? " on" : ""}${extra}`}));
    for (const stack of ["encoder", "decoder"]) {
      const own = items.filter(it => it.stack === stack);
      for (let j = 1; j < own.length; j++) {
        const a = place(own[j - 1]), b = place(own[j]), on = own[j].i <= now;
        wire(upright ? `M${a.x + a.w / 2} ${a.y}V${b.y + b.h}` : `M${a.x + a.w} ${a.y + a.h / 2}H${b.x}`, on);
        if (own[j].kind === "add") wire(upright ? `M${a.x + a.w / 2} ${a.y + a.h + gap / 2}H${a.x + a.w + 7}V${b.y + b.h / 2}H${b.x + b.w}` : `M${a.x - gap / 2} ${a.y + a.h / 2}V${a.y - 8}H${b.x + b.w / 2}V${b.y}`, on, " thin");
      }
    }
    if (both) memory(items, place, wire, lines, upright, now);
    boxes = items.map(it => part(it, place(it), upright, now));
    const texts = captions(items, place, upright, both, width, height, second, depth);
    box.replaceChildren(g("svg", {viewBox: `0 0 ${width} ${height}`, style: {"max-width": `${Math.round(width * 1.15)}px`, "min-width": `${Math.round(width * (upright ? 1 : 0.96))}px`}, role: "group", "aria-label": "Figure 1 for this model"}, lines, boxes, texts));
    if (had) box.querySelector(`[data-step="${had}"]`)?.focus({preventScroll: true});
  }

  function memory(items, place, wire, lines, upright, now) {
    const own = items.filter(it => it.stack === "encoder"), end = place(own.at(-1)), cross = items.filter(it => it.kind === "cross");
    const read = page.parts.filter(it => it.stack === "encoder").at(-1), after = now >= own.at(-1).i, size = read.shape.slice(1).join(" × ");
    if (!cross.length) return;
    if (upright) {
      const y = end.y - 14, lane = end.x + end.w + 32, reach = cross.map(place);
      wire(`M${end.x + end.w / 2} ${end.y}V${y}H${lane}V${reach[0].y + reach[0].h / 2}`, after, " thick");
      cross.forEach((it, n) => wire(`M${lane} ${y}V${reach[n].y + reach[n].h / 2}H${reach[n].x}`, it.i <= now, " thick"));
      lines.push(g("text", {x: end.x + 4, y: y - 6, class: "side"}, `memory ${size}`));
    } else {
      const x = end.x + end.w + 14, lane = 114, reach = cross.map(place);
      wire(`M${end.x + end.w} ${end.y + end.h / 2}H${x}V${lane}`, after, " thick");
      cross.forEach((it, n) => wire(`M${x} ${lane}H${reach[n].x + reach[n].w / 2}V${reach[n].y}`, it.i <= now, " thick"));
      lines.push(g("text", {x: x + 10, y: lane - 7, class: "side"}, `memory, ${size}`));
    }
  }

  function captions(items, place, upright, both, width, height, second, depth) {
    const first = page.rows.encoder.length || page.rows.decoder.length;
    if (upright) return [page.model.layers.encoder ? g("text", {x: 8, y: height - 6, class: "side"}, `source, ${page.rows.encoder.length} ${unit}`) : null,
      page.model.layers.decoder ? g("text", {x: second, y: height - 6, class: "side"}, `answer so far, ${page.rows.decoder.length}`) : null];
    const found = [g("text", {x: 4, y: 11, class: "side"}, `${page.model.layers.encoder ? "Encoder" : "Decoder"} reads ${first} ${unit}`)];
    if (both) found.push(g("text", {x: 4, y: second + depth + 17, class: "side"}, `Decoder reads what is written so far, ${page.rows.decoder.length} tokens`));
    if (page.writes) found.push(g("text", {x: width - 8, y: second + depth + 17, class: "side", "text-anchor": "end"}, "the next word"));
    return found;
  }

  function part(it, r, upright, now) {
    if (it.kind === "more") {
      return g("g", {class: "part more", "aria-label": `Show ${it.layers.size} more layers`, "data-step": it.i, ...pressed(() => { opened.add(it.stack); draw(); })}, room(r),
        g("rect", {x: r.x, y: r.y, width: r.w, height: r.h, rx: 5}), g("text", {x: r.x + r.w / 2, y: r.y + r.h / 2 + 4, "text-anchor": "middle"}, `× ${it.layers.size}`));
    }
    const on = it.i === now, name = it.kind === "softmax" ? "Softmax" : partTitle(it.name), inner = [];
    const middle = [r.x + r.w / 2, r.y + r.h / 2], lines = it.kind === "self" && it.stack === "decoder" ? ["Masked", "self-att."] : (LABELS[it.kind] ?? []);
    const flat = upright && it.kind !== "self" && it.kind !== "cross" ? [NORMS[it.kind] ?? lines.join("").replace("-d", "d")] : lines;
    const label = (x, y, anchor) => flat.map((text, j) => g("text", {x, y: y + 14 * j, "text-anchor": anchor, "aria-hidden": "true"}, text));
    if (it.kind === "embedded") {
      inner.push(g("rect", {x: r.x, y: r.y, width: r.w, height: r.h, class: "clear"}), g("circle", {class: "shape", cx: middle[0], cy: middle[1], r: 10}),
        g("path", {class: "wave", d: `M${middle[0] - 6} ${middle[1]}q3 -6 6 0t6 0`}));
    } else {
      inner.push(g("rect", {class: "shape", x: r.x, y: r.y, width: r.w, height: r.h, rx: 5}));
      const layer = it.kind === "self" || it.kind === "cross" ? page.attention[`${it.stack}.${it.kind}`]?.[Number(it.name.split(".")[1])] : null;
      const picture = layer && headsOn(layer).length > 0 && ((x, y, size) => g("image", {x, y, width: size, height: size, href: thumbnail(layer), preserveAspectRatio: "none"}));
      if (picture && upright) inner.push(...label(r.x + 9, r.y + 25, "start"), picture(r.x + r.w - 42, r.y + 11, 36));
      else if (picture) inner.push(...label(middle[0], r.y + 15, "middle"), picture(middle[0] - 17, r.y + 34, 34));
      else {
        const said = it.kind === "softmax" && !upright ? page.answer[state.now.t]?.name ?? "" : "", n = flat.length + (said ? 1 : 0), y = middle[1] + 4 - (n - 1) * 7;
        inner.push(...label(middle[0], y, "middle"), said ? g("text", {x: middle[0], y: y + 18, "text-anchor": "middle", class: "said", "aria-hidden": "true"}, said.length > 8 ? `${said.slice(0, 7)}…` : said) : null);
      }
    }
    const kind = it.kind === "softmax" ? "soft" : partKind(it.name);
    const choose = () => state.set({step: it.i, ...headOf(it)});
    return g("g", {class: `part ${kind}${on ? " on" : ""}${it.i > now ? " later" : ""}`, ...pressed(choose), tabindex: on ? 0 : -1, "aria-label": name, "data-step": it.i}, upright ? room(r) : null, inner);
  }

  /** The room around a part, which can be pressed too. */
  const room = r => g("rect", {x: r.x, y: r.y - FINGER / 2, width: r.w, height: r.h + FINGER, class: "clear"});

  /** Choosing an attention opens its head in the view of all heads. */
  function headOf(it) {
    return it.kind === "self" || it.kind === "cross" ? {k: `${it.stack}.${it.kind}`, l: Number(it.name.split(".")[1])} : {};
  }

  function tell() {
    const it = parts[state.now.step];
    number.textContent = `step ${state.now.step + 1} of ${parts.length}`;
    if (it.kind === "softmax") {
      code.hidden = true;
      const p = page.logprobs[state.now.t];
      about.replaceChildren(h("b", {}, "Softmax"), h("code", {}, "exp(zᵢ) / Σ exp(zⱼ)"), h("span", {}, `${page.finds ? `turns the scores of ${count(page.source.length)} positions into probabilities of a first and a last one; that of the answer` : `turns ${count(it.shape.at(-1))} logits into probabilities; the chosen one`} is ${percent(Math.exp(p))}`));
      return;
    }
    const of = sectionOf(it.name), at = it.stack === "decoder" ? (page.crosses ? state.now.t : page.begins + state.now.t) : (state.now.s ?? 0), size = shape => shape.slice(1).join(" × ");
    const first = (what, rows) => (rows?.length ? h("span", {class: "numbers"}, `${what} ${rows[Math.min(rows.length - 1, at)].map(short).join(", ")}`) : "");
    if (page.isOff(it.name)) {
      code.hidden = true;
      return about.replaceChildren(h("b", {}, partTitle(it.name)), h("span", {}, "switched off: zeros take the place of its output"));
    }
    about.replaceChildren(h("b", {}, partTitle(it.name)), it.equation ? h("code", {}, it.equation) : "", h("span", {}, it.input_shape?.length ? `${size(it.input_shape)} → ${size(it.shape)}` : `out ${size(it.shape)}`),
      h("span", {}, `${count(it.parameters)} parameters`), h("span", {}, `${it.milliseconds.toFixed(2)} ms`), of ? h("span", {}, `paper § ${of}`) : "", first("first values in:", it.inputs), first("out:", it.values));
    code.hidden = !it.code;
    code.firstChild.textContent = `Source code of ${it.class}`;
    code.lastChild.textContent = it.code;
  }

  return {node, fit: draw, update(now, before) {
    if (!before || now.step !== before.step || now.t !== before.t || now.theme !== before.theme) draw();
    tell();
  }};
}
