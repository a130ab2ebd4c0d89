// Figure 1 for this model: a box for each recorded part. A step forward moves the data by one part; Play takes one after the other.

import {asTable, button, g, h, label, path, pressed, rect, roving, section} from "./dom.js";
import {drawCells, shade} from "./colours.js";
import {choices, headsOn} from "./data.js";
import {narrate, rowAt} from "./narration.js";
import {count, short} from "./numbers.js";
import {partKind, partTitle, sectionOf} from "./parts.js";
import {makePlayer} from "./player.js";

const ACROSS = {embedding: 66, embedded: 22, types: 44, self: 70, cross: 70, feed_forward: 68, add: 15, norm: 15, projection: 48, pointer: 52, head: 56, softmax: 68};
const UPRIGHT = {embedding: 34, self: 58, cross: 58, feed_forward: 36, softmax: 36};
const TALL = 32, FINGER = 12; // pixels of another upright part, and between two of them
const LABELS = {embedding: ["Embed-", "ding"], types: ["Token", "types"], self: ["Self-", "attention"], cross: ["Cross-", "attention"], feed_forward: ["Feed-", "forward"], projection: ["Linear"], pointer: ["Pointer"], head: ["Head"]};
const NORMS = {add: "Add & norm", norm: "Norm"}; // named where there is room
const MOST = 3; // layers of a stack that are all drawn
const PACE = 2600; // milliseconds to read about a step
const BARS = 3; // most likely tokens in the last box

const kindOf = name => { const last = name.split(".").pop(); return last.startsWith("add_norm") ? "add" : last === "embedding_norm" ? "norm" : last; };

/** The mean of an attention's heads, as a small picture. */
const thumbnail = layer => drawCells(h("canvas"), layer.rows, layer.columns, (r, c) => (layer.barred(r, c) ? null : shade(layer.mean(r, c)))).toDataURL();

export function flow(page, state, asker, signal) {
  const parts = page.parts.map(it => ({...it, kind: kindOf(it.name)})), read = {image: "image", audio: "recording"}[page.media?.kind] ?? "sentence", unit = page.media ? "positions" : "tokens";
  if (page.answer.length) parts.push({name: "softmax", stack: parts.at(-1).stack, kind: "softmax", shape: parts.at(-1).shape});
  const titleOf = it => (it.kind === "softmax" ? page.last[0] : partTitle(it.name));
  const box = h("div.figure.scroll"), code = h("details.code", h("summary"), h("pre", {tabindex: 0})), line = h("p.told", {"aria-live": "polite"}), about = h("div.about"), number = h("span.step");
  const tableOf = asTable("The parts", () => [["Part", "Output", "Parameters", "Milliseconds"],
    page.parts.map(it => [partTitle(it.name), it.shape.slice(1).join(" × "), count(it.parameters), it.milliseconds.toFixed(2)])]);
  const step = by => state.set({step: Math.min(parts.length - 1, Math.max(0, state.now.step + by))});
  const back = button("←", () => step(-1), {"aria-label": "Step back"});
  const forth = button("→", () => step(1), {"aria-label": "Step forward"});
  const slider = h("input", {type: "range", min: 0, max: parts.length - 1, "aria-label": "Step", oninput: () => state.set({step: Number(slider.value)})});
  const player = makePlayer({last: parts.length - 1, now: () => state.now.step, show: at => state.set({step: at}), pace: PACE, signal});
  const node = section("flow", "Flow", `Figure 1 of the paper for this model, holding your ${read}`, [player.button, back, slider, forth, number], box, about, code, tableOf);
  node.firstChild.append(line);
  const opened = new Set(), pictures = new Map();
  roving(box, ".part");
  let boxes = [], wires = [], layout = "", peeked = null; // the part that is hovered or has the focus
  const peek = event => { const at = event?.target.closest(".part:not(.more)")?.dataset.step, i = at === undefined ? null : Number(at); if (i !== peeked) { peeked = i; tell(); } };
  for (const kind of ["pointerover", "focusin"]) box.addEventListener(kind, peek);
  for (const kind of ["pointerleave", "focusout"]) box.addEventListener(kind, () => peek());

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

  const pictureOf = layer => { if (!pictures.has(layer)) pictures.set(layer, thumbnail(layer)); return pictures.get(layer); };

  function draw() {
    const upright = innerWidth <= 700, sizes = upright ? UPRIGHT : ACROSS, gap = upright ? FINGER : 8, room = Math.min(358, box.clientWidth || 358), depth = upright ? (room - 74) / 2 : 72;
    const had = box.contains(document.activeElement) ? document.activeElement.dataset.step : null;
    const at = {encoder: 0, decoder: 0, head: 0}, both = page.model.layers.encoder && page.model.layers.decoder;
    const rows = drawn();
    layout = spelled(rows);
    const items = rows.map(it => {
      const stack = it.stack === "head" ? "encoder" : it.stack, size = sizes[it.kind] ?? (upright ? TALL : 34), placed = {...it, stack, a: at[stack], size};
      at[stack] += size + gap;
      return placed;
    });
    const total = Math.max(at.encoder, at.decoder);
    const second = both ? (upright ? depth + 66 : 132) : upright ? 8 : 24;
    const width = upright ? room : total + 12, height = upright ? total + 44 : both ? 228 : 122;
    const place = it => {
      const along = it.a, first = it.stack === "encoder";
      return upright ? {x: first ? 8 : second, y: height - 26 - along - it.size, w: depth, h: it.size} : {x: 4 + along, y: first ? 24 : second, w: it.size, h: depth};
    };
    const lines = [], wire = (d, i, extra = "") => {
      const ink = g("path", {d, class: `wire ink${extra}`, pathLength: 1});
      lines.push(path(d, `wire${extra}`), ink);
      wires.push({node: ink, i});
    };
    wires = [];
    for (const stack of ["encoder", "decoder"]) {
      const own = items.filter(it => it.stack === stack);
      for (let j = 1; j < own.length; j++) {
        const a = place(own[j - 1]), b = place(own[j]), on = own[j].i;
        wire(upright ? `M${a.x + a.w / 2} ${a.y}V${b.y + b.h}` : `M${a.x + a.w} ${a.y + a.h / 2}H${b.x}`, on);
        if (own[j].kind === "add") wire(upright ? `M${a.x + a.w / 2} ${a.y + a.h + gap / 2}H${a.x + a.w + 7}V${b.y + b.h / 2}H${b.x + b.w}` : `M${a.x - gap / 2} ${a.y + a.h / 2}V${a.y - 8}H${b.x + b.w / 2}V${b.y}`, on, " thin");
      }
    }
    if (both) memory(items, place, wire, lines, upright);
    boxes = items.map(it => { const make = () => part(it, place(it), upright); return {i: it.i, more: it.kind === "more", make, node: make()}; });
    const texts = captions(items, place, upright, both, width, height, second, depth);
    box.replaceChildren(g("svg", {viewBox: `0 0 ${width} ${height}`, style: {"max-width": `${Math.round(width * 1.15)}px`, "min-width": `${Math.round(width * (upright ? 1 : 0.96))}px`}, role: "group", "aria-label": "Figure 1 for this model"}, lines, boxes.map(it => it.node), texts));
    mark(null);
    if (had) box.querySelector(`[data-step="${had}"]`)?.focus({preventScroll: true});
  }

  const spelled = rows => rows.map(it => `${it.i}${it.kind}`).join(" ");

  /** Show how far the data has come. What a step forward reaches is drawn as it's reached. */
  function mark(earlier) {
    const now = state.now.step, reached = i => earlier !== null && i > earlier && i === now;
    for (const {node: it, i} of wires) { it.classList.toggle("on", i <= now); it.classList.toggle("reached", reached(i)); }
    for (const {node: it, i, more} of boxes) {
      it.classList.toggle("on", i === now && !more);
      it.classList.toggle("later", i > now && !more);
      it.classList.toggle("reached", reached(i));
      it.tabIndex = i === now ? 0 : -1;
    }
  }

  /** Scroll to the current part: sideways inside the figure, or upright along with the page while it plays. */
  function follow() {
    const it = boxes.find(one => one.i === state.now.step)?.node, {left, width} = it.getBoundingClientRect(), frame = box.getBoundingClientRect();
    if (box.scrollWidth > box.clientWidth) box.scrollBy({left: left + width / 2 - frame.left - frame.width / 2});
    else if (player.playing && innerWidth <= 700) it.scrollIntoView({block: "center"});
  }

  function memory(items, place, wire, lines, upright) {
    const own = items.filter(it => it.stack === "encoder"), end = place(own.at(-1)), cross = items.filter(it => it.kind === "cross");
    const read = page.parts.filter(it => it.stack === "encoder").at(-1), after = own.at(-1).i, size = read.shape.slice(1).join(" × ");
    if (!cross.length) return;
    if (upright) {
      const y = end.y - 14, lane = end.x + end.w + 32, reach = cross.map(place);
      wire(`M${end.x + end.w / 2} ${end.y}V${y}H${lane}V${reach[0].y + reach[0].h / 2}`, after, " thick");
      cross.forEach((it, n) => wire(`M${lane} ${y}V${reach[n].y + reach[n].h / 2}H${reach[n].x}`, it.i, " thick"));
      lines.push(label(end.x + 4, y - 6, `memory ${size}`, "side"));
    } else {
      const x = end.x + end.w + 14, lane = 114, reach = cross.map(place);
      wire(`M${end.x + end.w} ${end.y + end.h / 2}H${x}V${lane}`, after, " thick");
      cross.forEach((it, n) => wire(`M${x} ${lane}H${reach[n].x + reach[n].w / 2}V${reach[n].y}`, it.i, " thick"));
      lines.push(label(x + 10, lane - 7, `memory, ${size}`, "side"));
    }
  }

  function captions(items, place, upright, both, width, height, second, depth) {
    const first = page.rows.encoder.length || page.rows.decoder.length;
    if (upright) return [page.model.layers.encoder ? label(8, height - 6, `source, ${page.rows.encoder.length} ${unit}`, "side") : null,
      page.model.layers.decoder ? label(second, height - 6, `answer so far, ${page.rows.decoder.length}`, "side") : null];
    const found = [label(4, 11, `${page.model.layers.encoder ? "Encoder" : "Decoder"} reads ${first} ${unit}`, "side")];
    if (both) found.push(label(4, second + depth + 17, `Decoder reads what is written so far, ${page.rows.decoder.length} tokens`, "side"));
    if (page.writes) found.push(label(width - 8, second + depth + 17, "the next word", "side last"));
    return found;
  }

  function part(it, r, upright) {
    if (it.kind === "more") {
      return g("g.part.more", {"aria-label": `Show ${it.layers.size} more layers`, "data-step": it.i, ...pressed(() => { opened.add(it.stack); draw(); })}, room(r),
        rect(r.x, r.y, r.w, r.h, {rx: 5}), label(r.x + r.w / 2, r.y + r.h / 2 + 4, `× ${it.layers.size}`, "mid"));
    }
    const name = titleOf(it), inner = [];
    const middle = [r.x + r.w / 2, r.y + r.h / 2], lines = it.kind === "self" && it.stack === "decoder" ? ["Masked", "self-att."] : it.kind === "softmax" ? [page.last[0]] : (LABELS[it.kind] ?? []);
    const flat = upright && it.kind !== "self" && it.kind !== "cross" ? [NORMS[it.kind] ?? lines.join("").replace("-d", "d")] : lines;
    const lettering = (x, y, kind) => flat.map((text, j) => label(x, y + 14 * j, text, kind, {"aria-hidden": "true"}));
    if (it.kind === "embedded") {
      inner.push(rect(r.x, r.y, r.w, r.h, {class: "clear"}), g("circle.shape", {cx: middle[0], cy: middle[1], r: 10}),
        path(`M${middle[0] - 6} ${middle[1]}q3 -6 6 0t6 0`, "wave"));
    } else {
      inner.push(rect(r.x, r.y, r.w, r.h, {class: "shape", rx: 5}));
      const layer = it.kind === "self" || it.kind === "cross" ? page.attention[`${it.stack}.${it.kind}`]?.[Number(it.name.split(".")[1])] : null;
      const picture = layer && headsOn(layer).length > 0 && ((x, y, size) => g("image", {x, y, width: size, height: size, href: pictureOf(layer), preserveAspectRatio: "none", style: {"--rows": layer.rows}}));
      if (picture && upright) inner.push(...lettering(r.x + 9, r.y + 25), picture(r.x + r.w - 42, r.y + 11, 36));
      else if (picture) inner.push(...lettering(middle[0], r.y + 15, "mid"), picture(middle[0] - 17, r.y + 34, 34));
      else {
        const said = it.kind === "softmax" && !upright ? page.answer[state.now.t]?.name ?? "" : "", n = flat.length + (said ? 1 : 0), y = said ? r.y + 17 : middle[1] + 4 - (n - 1) * 7;
        if (said) inner.push(...bars(r));
        inner.push(...lettering(middle[0], y, "mid"), said ? label(middle[0], y + 18, said.length > 8 ? `${said.slice(0, 7)}…` : said, "said mid", {"aria-hidden": "true"}) : null);
      }
    }
    const kind = it.kind === "softmax" ? "soft" : partKind(it.name);
    const choose = () => state.set({step: it.i, ...headOf(it)});
    return g("g", {class: `part ${kind}`, ...pressed(choose), "aria-label": name, "data-step": it.i}, upright ? room(r) : null, inner);
  }

  /** The most likely tokens as bars inside the last box. */
  function bars(r) {
    const all = page.number ? [] : page.finds ? [page.logprobs[state.now.t]] : choices(page, state.now.t).slice(0, BARS).map(it => it.logp);
    return all.map((p, n) => rect(r.x + 8, r.y + 43 + 8 * n, Math.max(1, (r.w - 16) * Math.exp(p)), 5, {class: "likely", rx: 1}));
  }

  /** The room around a part, which can be pressed too. */
  const room = r => rect(r.x, r.y - FINGER / 2, r.w, r.h + FINGER, {class: "clear"});

  /** Choosing an attention opens its head in the view of all heads. */
  function headOf(it) {
    return it.kind === "self" || it.kind === "cross" ? {k: `${it.stack}.${it.kind}`, l: Number(it.name.split(".")[1])} : {};
  }

  function tell() {
    const i = peeked ?? state.now.step, it = parts[i], at = rowAt(page, it, state.now), size = shape => shape.slice(1).join(" × ");
    number.textContent = `step ${state.now.step + 1} of ${parts.length}`;
    slider.value = state.now.step;
    slider.ariaValueText = `${state.now.step + 1} of ${parts.length}, ${titleOf(parts[state.now.step])}`;
    line.replaceChildren(...narrate(page, parts, i, state.now).flat(Infinity));
    code.hidden = !it.code || page.isOff(it.name);
    code.firstChild.textContent = `Source code of ${it.class}`;
    code.lastChild.textContent = it.code ?? "";
    const equation = it.kind === "softmax" ? page.last[1] : it.equation, of = it.kind === "softmax" ? null : sectionOf(it.name);
    const first = (what, rows) => (rows?.length ? h("span.numbers", `${what} ${rows[Math.min(rows.length - 1, at)].map(short).join(", ")}`) : "");
    about.replaceChildren(h("b", titleOf(it)), equation ? h("code", equation) : "", h("span", it.input_shape?.length ? `${size(it.input_shape)} → ${size(it.shape)}` : `out ${size(it.shape)}`),
      ...(it.kind === "softmax" ? [] : [h("span", `${count(it.parameters)} parameters`), h("span", `${it.milliseconds.toFixed(2)} ms`), of ? h("span", `paper § ${of}`) : "", h("span.numbers", it.name), first("first values in:", it.inputs), first("out:", it.values)]));
  }

  return {node, player, fit: draw, update(now, before) {
    player.follow();
    if (before && now.step !== before.step) peeked = null;
    if (!before || now.theme !== before.theme) pictures.clear();
    if (!before || now.theme !== before.theme || spelled(drawn()) !== layout) draw();
    else if (now.t !== before.t) { const last = boxes.at(-1), old = last.node; last.node = last.make(); old.replaceWith(last.node); }
    mark(before && now.step > before.step ? before.step : null);
    if (before && now.step !== before.step) follow();
    tell();
  }};
}
