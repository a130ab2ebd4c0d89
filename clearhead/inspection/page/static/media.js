// An image or a recording as the model read it, and attention over it.

import {asTable, button, g, h, pressed, rect, roving, table} from "./dom.js";
import {drawCells, shade} from "./colours.js";
import {percent, range, signed} from "./numbers.js";

/** Where each position lies in a picture of one by one: [x, y, width, height], or null for a class token. */
function places(page) {
  const {kind, across, first} = page.media, n = page.source.length;
  if (kind === "audio") return page.source.map((_, s) => [s / n, 0, 1 / n, 1]);
  return page.source.map((_, s) => (s < first ? null : [((s - first) % across) / across, Math.floor((s - first) / across) / across, 1 / across, 1 / across]));
}

/** The spectrogram as a picture: time to the right, low tones at the bottom. */
const spectrogram = ({shape: [steps, tones], values}) => drawCells(h("canvas"), tones, steps, (m, t) => shade(values[t * tones + tones - 1 - m])).toDataURL();

/** A picture of the input, whose positions can be lit. `size` is its width in pixels. */
export function inputPicture(page, size, choose = null) {
  const audio = page.media.kind === "audio", width = size, height = audio ? Math.round(Math.min(120, size * 0.4)) : size, at = places(page);
  const rects = at.map((place, s) => place && rect(place[0] * width, place[1] * height, place[2] * width, place[3] * height, {class: "patch", ...(choose ? {...pressed(() => choose(s)), "data-s": s, "aria-label": page.source[s].name} : {})}));
  const href = page.media.picture ?? (page.media.drawn ??= spectrogram(page.media.spectrogram));
  const view = g("svg", {viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none", role: choose ? "group" : "img", class: `input ${page.media.kind}`, "aria-label": "What the model read"},
    g("image", {href, width, height, preserveAspectRatio: "none"}), rects);
  const where = h("span.note");
  let shown = 0; // the chosen position, else the one that is lit most
  if (choose) roving(view, ".patch");
  return {node: choose ? h("div.pick", view, h("div.steps", steps(page, by => rects[shown + by] && choose(shown + by)), where)) : view, light(weights, name, chosen = null, written = percent) {
    const largest = Math.max(0, ...weights.map(Math.abs)) || 1, known = weights.length > 0;
    rects.forEach((it, s) => {
      if (!it) return;
      it.style.fillOpacity = ((choose ? 0.5 : 0.85) * Math.abs(weights[s] ?? 0) / largest).toFixed(3);
      it.classList.toggle("against", (weights[s] ?? 0) < 0);
      it.classList.toggle("chosen", s === chosen);
    });
    const most = weights.reduce((found, it, s) => (it > weights[found] ? s : found), 0);
    shown = chosen ?? most;
    where.textContent = chosen === null && !known ? "" : `${chosen === null ? "most at " : ""}${page.source[shown]?.name ?? ""}${weights[shown] ? `, ${written(weights[shown])}` : ""}`;
    view.ariaLabel = known ? `${name}: most at ${page.source[most]?.name ?? "no position"}, ${written(weights[most])}` : `What the model read, ${page.source.length} positions`;
  }};
}

/** Buttons from a position to its neighbours, for a finger, which is wider than many positions. */
function steps({media: {kind, across}}, go) {
  const ways = {"←": [-1, "Previous"], "→": [1, "Next"], ...(kind === "image" ? {"↑": [-across, "Up"], "↓": [across, "Down"]} : {})};
  return h("div", {role: "group", "aria-label": "Choose a neighbour"}, Object.entries(ways).map(([sign, [by, where]]) =>
    button(sign, () => go(by), {"aria-label": where})));
}

/** Every head's attention over the input, for the chosen token or the label; rollout, and what hiding a part costs. */
export function overInput(page, state) {
  const {maps, rollout, falls, groups} = page.media, size = page.media.kind === "audio" ? 190 : 96;
  const spread = values => { const found = page.source.map(() => 0); groups.forEach((group, i) => group.forEach(s => { found[s] = values[i]; })); return found; };
  const rowOf = t => (maps[0].shape[1] > 1 ? Math.min(t, maps[0].shape[1] - 1) : 0);
  const row = ({shape, values}, r) => { const n = shape.at(-1); return [...values.slice(r * n, (r + 1) * n)]; };
  const of = (map, head, r) => row(map, head * map.shape[1] + r);
  const views = [];
  const figure = (caption, weights, act = null, about = caption, written = percent) => {
    const it = inputPicture(page, size), body = [it.node, h("small", caption)];
    views.push({it, weights, about, written});
    return act ? button(body, act, {class: "over", "aria-label": about}) : h("figure.over", body);
  };
  const [stack, kind] = page.media.place.split("."), off = (l, head) => page.isOff(`${stack}.${l}.${kind}.head.${head}`), rolled = !page.off.some(it => /\.(self|cross)\b/.test(it));
  const rows = maps.map((map, l) => h("div.overs", h("span", `layer ${l + 1}`), range(map.shape[0]).map(head => off(l, head) ? h("figure.over", h("small", `head ${head + 1}, off`)) : figure(`head ${head + 1}`, r => of(map, head, r), () => state.set({k: page.media.place, l, h: head}), `Layer ${l + 1} head ${head + 1}`))));
  const lost = page.labels ? `lost by ${page.answer[0].name} when hidden` : "lost when hidden";
  const whole = h("div.overs", h("span", "all layers"), rolled ? figure("rollout", r => row(rollout, r)) : null, figure(lost, r => spread(row(falls, r)), null, lost, it => signed(it, 4)));
  const numbers = asTable("Attention to each position as a table", () => { const r = rowOf(state.now.t), heads = maps.flatMap((map, l) => range(map.shape[0]).filter(head => !off(l, head)).map(head => [`layer ${l + 1} head ${head + 1}`, of(map, head, r)])); return table("Positions", ["Position", ...(rolled ? ["Rollout"] : []), ...heads.map(([name]) => name)], page.source.map((it, s) => [it.name, ...(rolled ? [row(rollout, r)[s].toFixed(4)] : []), ...heads.map(([, shares]) => shares[s].toFixed(4))])); });
  const hidden = asTable("What hiding each part costs, as a table", () => { const r = rowOf(state.now.t); return table("Hidden parts", ["Part", "Lost log-probability"], groups.map((group, i) => [page.source[group[0]].name, signed(row(falls, r)[i], 4)])); });
  const node = h("div.media", h("h3", "Over the input ", h("span", "orange grows with the share; each picture has its own scale, and its name says the largest share")), rows, whole, numbers, hidden);
  return {node, update(now) { views.forEach(({it, weights, about, written}) => it.light(weights(rowOf(now.t)), about, now.s, written)); }};
}
