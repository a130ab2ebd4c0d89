// An image or a recording as the model read it, and attention over it.

import {asTable, button, g, h, pressed, rect, roving} from "./dom.js";
import {fallsOf} from "./data.js";
import {drawCells, shade} from "./colours.js";
import {best, percent, range, signed} from "./numbers.js";

/** Where position `s` lies in a picture of one by one, or null for a class token. A position of a recording is around its time; a code of speech begins then. */
const placeOf = ({kind, across, first, place}, s, n) => (kind === "audio" ? [(s - (place ? 0.5 : 0)) / n, 0, 1 / n, 1] : s < first ? null : [((s - first) % across) / across, Math.floor((s - first) / across) / across, 1 / across, 1 / across]);

/** The spectrogram as a picture: time to the right, low tones at the bottom. */
const spectrogram = ({shape: [steps, tones], values}) => drawCells(h("canvas"), tones, steps, (m, t) => shade(values[t * tones + tones - 1 - m])).toDataURL();

/** Marks at round seconds, at most eight. */
function clock(seconds) {
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 60].find(it => seconds / it <= 8) ?? seconds;
  return h("div.clock", {"aria-hidden": "true"}, range(Math.ceil(0.92 * seconds / step)).map(i => h("span", {style: {left: `${100 * i * step / seconds}%`}}, `${Number((i * step).toFixed(1))} s`)));
}

/** A picture of an image or a recording, `width` pixels wide, whose positions can be lit. A wide recording plays. */
export function inputPicture(media, names, width, choose = null) {
  const audio = media.kind === "audio", height = audio ? Math.round(Math.min(120, width * 0.4)) : width, wide = audio && width > 400, cursor = rect(-2, 0, 2, height, {class: "cursor"});
  const sound = wide && media.sound && h("audio", {controls: true, src: `data:audio/wav;base64,${media.sound.b64}`, "aria-label": "Listen", ontimeupdate: () => cursor.setAttribute("x", sound.currentTime / media.seconds * width)});
  const act = s => { choose(s); if (sound) sound.currentTime = s * media.step; };
  const rects = names.map(({name}, s) => { const place = placeOf(media, s, names.length); return place && rect(place[0] * width, place[1] * height, place[2] * width, place[3] * height, {class: "patch", ...(choose && {...pressed(() => act(s)), "data-s": s, "aria-label": name})}); });
  const href = media.picture ?? (media.drawn ??= spectrogram(media.spectrogram));
  const view = g("svg", {viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none", role: choose ? "group" : "img", class: `input ${media.kind}`},
    g("image", {href, width, height, preserveAspectRatio: "none"}), rects, wide && cursor);
  const where = h("span.note");
  let shown = 0; // the chosen position, else the one that is lit most
  if (choose) roving(view, ".patch");
  return {node: choose ? h("div.pick", {style: {width: `${width}px`}}, view, audio && clock(media.seconds), h("div.steps", steps(media, by => rects[shown + by] && act(shown + by)), where), sound) : view, light(weights, name, chosen = null, written = percent) {
    const largest = Math.max(0, ...weights.map(Math.abs)) || 1, known = weights.length > 0;
    rects.forEach((it, s) => {
      if (!it) return;
      it.style.fillOpacity = ((choose ? 0.5 : 0.85) * Math.abs(weights[s] ?? 0) / largest).toFixed(3);
      it.classList.toggle("against", (weights[s] ?? 0) < 0);
      it.classList.toggle("chosen", s === chosen);
    });
    const most = Math.max(0, best(weights));
    shown = chosen ?? most;
    where.textContent = chosen === null && !known ? "" : `${chosen === null ? "most at " : ""}${names[shown]?.name ?? ""}${weights[shown] ? `, ${written(weights[shown])}` : ""}`;
    view.ariaLabel = known ? `${name}: most at ${names[most].name}, ${written(weights[most])}` : `${names.length} positions`;
  }};
}

/** Buttons from a position to its neighbours, for a finger, which is wider than many positions. */
function steps({kind, across}, go) {
  const ways = {"←": [-1, "Previous"], "→": [1, "Next"], ...(kind === "image" ? {"↑": [-across, "Up"], "↓": [across, "Down"]} : {})};
  return h("div", {role: "group", "aria-label": "Choose a neighbour"}, Object.entries(ways).map(([sign, [by, where]]) =>
    button(sign, () => go(by), {"aria-label": where})));
}

/** Every head's attention over the input, for the chosen token or the label; rollout, and what hiding a part costs. */
export function overInput(page, state) {
  const {maps, rollout, groups} = page.media, size = page.media.kind === "audio" ? 190 : 96;
  const spread = values => page.source.map((_, s) => values[groups.findIndex(it => it.includes(s))] ?? 0);
  const rowOf = t => Math.min(t, maps[0].shape[1] - 1);
  const row = ({shape, values}, r) => { const n = shape.at(-1); return [...values.slice(r * n, (r + 1) * n)]; };
  const of = (map, head, r) => row(map, head * map.shape[1] + r);
  const views = [];
  const figure = (caption, weights, act = null, about = caption, written = percent) => {
    const it = inputPicture(page.media, page.source, size), body = [it.node, h("small", caption)];
    views.push({it, weights, about, written});
    return act ? button(body, act, {class: "over", "aria-label": about}) : h("figure.over", body);
  };
  const [stack, kind] = page.media.place.split("."), off = (l, head) => page.isOff(`${stack}.${l}.${kind}.head.${head}`), rolled = !page.off.some(it => /\.(self|cross)\b/.test(it));
  const rows = maps.map((map, l) => h("div.overs", h("span", `layer ${l + 1}`), range(map.shape[0]).map(head => off(l, head) ? h("figure.over", h("small", `head ${head + 1}, off`)) : figure(`head ${head + 1}`, r => of(map, head, r), () => state.set({k: page.media.place, l, h: head}), `Layer ${l + 1} head ${head + 1}`))));
  const lost = "lost when hidden", fall = t => fallsOf(page, page.labels ? t : rowOf(t));
  const whole = h("div.overs", h("span", "all layers"), rolled ? figure("rollout", r => row(rollout, r)) : null, figure(lost, (_, t) => spread(fall(t)), null, lost, it => signed(it, 4)));
  const columns = [...(rolled ? [["Rollout", r => row(rollout, r)]] : []), ...maps.flatMap((map, l) => range(map.shape[0]).filter(head => !off(l, head)).map(head => [`layer ${l + 1} head ${head + 1}`, r => of(map, head, r)]))];
  const numbers = asTable("Attention to each position", () => { const found = columns.map(([, of]) => of(rowOf(state.now.t))); return [["Position", ...columns.map(it => it[0])], page.source.map((it, s) => [it.name, ...found.map(it => it[s].toFixed(4))])]; });
  const hidden = asTable("What hiding each part costs", () => { const falls = fall(state.now.t); return [["Part", "Lost log-probability"], page.hideable.map((it, i) => [it.name, signed(falls[i], 4)])]; });
  const node = h("div.media", h("h3", "Over the input ", h("span", "orange grows with the share, in each picture on its own scale")), rows, whole, numbers, hidden);
  return {node, update(now) { views.forEach(({it, weights, about, written}) => it.light(weights(rowOf(now.t), now.t), about, now.s, written)); }};
}
