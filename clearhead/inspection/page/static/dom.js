// Elements from a name, properties and children. Texts become text nodes, so nothing in them is ever markup.

import {range} from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if ((value ?? false) === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, it] of Object.entries(value)) node.style.setProperty(key, it);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter(it => (it ?? false) !== false));
  return node;
}

/** What makes elements from a name with classes, "p.note", properties if there are any, and children. */
const maker = create => (name, ...given) => {
  const [tag, ...kinds] = name.split("."), own = given[0]?.constructor === Object ? given.shift() : {};
  return fill(create(tag), kinds.length ? {class: kinds.join(" "), ...own} : own, given);
};
export const h = maker(it => document.createElement(it));
export const g = maker(it => document.createElementNS(SVG, it));

export const path = (d, kind) => g("path", {d, class: kind});
export const rect = (x, y, width, height, props) => g("rect", {x, y, width, height, ...props});

/** A line through points. */
export const line = points => path(points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""), "line");

/** A text in a picture. Its classes "mid" and "last" say where x is. */
export const label = (x, y, text, kind, props) => g("text", {x, y, class: kind, ...props}, text);

export const button = (text, act, props) => h("button", {class: "button", onclick: act, ...props}, text);

/** A token, in the reading face if it's the user's; and its name in a sentence. */
export const token = it => h("span", {class: it.own && "own", dir: "auto"}, it.name);
export const bold = (it, kind) => h("b", {class: kind, dir: "auto"}, it.name);

/** A picture with a name that states its finding, for those who don't see it. */
export const picture = (width, height, name, ...children) =>
  g("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name}, ...children);

/** A view: its title, a line that says how to read it, its tools, and what it shows. */
export const section = (id, title, about, tools, ...content) => h("section", {id},
  h("div.head", h("h2", title), about && h("p", about), tools && h("div.tools", tools)), content);

/** A box that can be scrolled sideways, with the keyboard too. */
export const scroller = (label, ...content) => h("div.scroll", {tabindex: 0, role: "group", "aria-label": label}, content);

/** Open a dialog. */
export function dialog(title, ...content) {
  const box = h("dialog.help", {"aria-label": title}, h("h2", title), content, h("form", {method: "dialog"}, button("Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

/** The details below a picture: the same numbers as a table, whose head and rows `build` returns when it's opened. */
export function asTable(what, build) {
  const label = `${what} as a table`, box = h("details.table", h("summary", label));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(scroller(label, table(what, ...build())));
  });
  return box;
}

export const table = (caption, head, rows) => h("table",
  h("caption.hidden", caption),
  h("thead", h("tr", head.map(it => h("th", {scope: "col"}, it)))),
  h("tbody", rows.map(([first, ...rest]) => h("tr", h("th", {scope: "row"}, first), rest.map(it => h("td", it))))));

const ACROSS = 64; // columns of a table that are shown at once

/** The columns around place t that a table of n shows at once. */
export const around = (t, n) => range(n).splice(Math.max(0, Math.min(t - ACROSS / 2, n - ACROSS)), ACROSS);

export const shownColumns = (places, n) => (places.length < n ? `Tokens ${places[0] + 1} to ${places.at(-1) + 1} of ${n}, around the chosen one. ` : "");

/** Scroll a box to what it holds, "left" or "top", after the frame, since measuring takes long. */
export function reveal(box, at, side) {
  clearTimeout(box.later);
  box.later = setTimeout(() => {
    const away = at.getBoundingClientRect()[side] - box.getBoundingClientRect()[side], room = side === "left" ? box.clientWidth : box.clientHeight;
    if (away < room / 5 || away > room * 0.9) box.scrollBy({[side]: away - room / 2});
  }, 100);
}

/** Mark the column of place t, and scroll to it. */
export function markColumn(box, t) {
  box.querySelectorAll("[data-t]").forEach(it => it.classList.toggle("column", Number(it.dataset.t) === t));
  const at = box.querySelector(".column");
  if (at) reveal(box, at, "left");
}

/** A bar in a row of `.bars`; `share` is its part of the whole width. */
export const bar = (share, kind) => h("span.track", h("i", {class: kind, style: {width: `${Math.max(0.5, 100 * Math.min(1, share)).toFixed(1)}%`}}));

export const modified = event => event.ctrlKey || event.altKey || event.metaKey;

/** Keep an event from whoever else would act on it. */
export const taken = event => { event.preventDefault(); event.stopPropagation(); };

/** What makes a shape a button. */
export const pressed = act => ({role: "button", tabindex: -1, onclick: act, onkeydown: event => {
  if (event.key !== "Enter" && event.key !== " ") return;
  taken(event);
  act();
}});

/** One Tab stop for a group of buttons, with arrow keys inside. Returns what to call for new buttons. */
export function roving(group, selector, horizontal = true) {
  const items = () => [...group.querySelectorAll(selector)];
  const settle = chosen => items().forEach(it => { it.tabIndex = it === chosen ? 0 : -1; });
  settle(items()[0]);
  group.addEventListener("focusin", event => { const it = event.target.closest(selector); if (it) settle(it); });
  group.addEventListener("keydown", event => {
    const back = horizontal ? "ArrowLeft" : "ArrowUp", forth = horizontal ? "ArrowRight" : "ArrowDown";
    const step = {[back]: -1, [forth]: 1}[event.key], all = items();
    const at = all.indexOf(event.target.closest(selector));
    if (!step || at < 0 || modified(event) || event.shiftKey) return;
    all[(at + step + all.length) % all.length].focus();
    taken(event);
  });
  return () => settle(items()[0]);
}
