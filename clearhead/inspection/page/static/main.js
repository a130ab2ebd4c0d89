// The page: it reads its data, makes the views that this model has, and links them by one state.

import {g, h} from "./dom.js";
import {prepare} from "./data.js";
import {readColours} from "./colours.js";
import {makeState} from "./state.js";
import {count} from "./numbers.js";
import {firstChoice, sentence} from "./sentence.js";
import {card} from "./card.js";
import {flow} from "./flow.js";
import {attention} from "./attention.js";
import {decoding} from "./decoding.js";
import {layers} from "./layers.js";
import {words} from "./words.js";
import {headsOff} from "./heads_off.js";
import {film} from "./film.js";

const KEYS = [["← →", "token"], ["Shift ↑ ↓", "layer"], ["[ ]", "head"], [", .", "step"], ["1–7", "view"], ["Esc", "clear"], ["T", "theme"]];

/** The views that this model can have, in reading order: [id, title, maker]. */
function viewsOf(page) {
  const found = [["flow", "Flow", flow], ["attention", "Attention", page.places.length ? attention : null], ["decoding", "Decoding", page.search?.nodes.length ? decoding : null],
    ["layers", "Layers", page.lens || page.why ? layers : null], ["words", "Words", page.words ? words : null], ["heads", "Heads off", page.off ? headsOff : null], ["film", "Film", film]].filter(it => it[2]);
  return page.writes ? found : [...found.filter(it => it[0] === "words"), ...found.filter(it => it[0] !== "words")];
}

function valid(page) {
  const heads = (name, value) => page.places.some(place => (name === "l" ? page.attention[place].length : page.attention[place][0].heads) > value);
  return (name, value) => ({t: () => value < page.answer.length, s: () => value < page.source.length, l: () => heads("l", value), h: () => heads("h", value), step: () => value <= page.parts.length,
    frame: () => value < (page.film?.length ?? 0), k: () => page.places.includes(value), off: () => Object.hasOwn(page.off ?? {}, value), method: () => ["falls", "gradients"].includes(value), theme: () => ["light", "dark"].includes(value)})[name]();
}

function bar(page, views, toggleTheme) {
  const {name, layers: of, heads, d_model: d} = page.model, size = Object.values(of).join(" + ");
  return h("header", {class: "bar"},
    h("div", {class: "brand"}, g("svg", {width: 22, height: 22, viewBox: "0 0 22 22", "aria-hidden": "true"}, g("path", {d: "M4 3.5C4 11 18 11 18 18.5", class: "one"}), g("path", {d: "M18 3.5C18 11 4 11 4 18.5", class: "two"})), h("span", {}, "Clearhead")),
    h("div", {class: "facts"}, `${name} · ${size} layers · ${heads} heads · d ${d} · ${count(page.model.parameters)} parameters`),
    h("nav", {"aria-label": "Views"}, views.map(([id, title]) => h("a", {href: `#${id}`, "data-view": id}, title))),
    h("button", {class: "theme", "aria-label": "Dark or light", title: "Dark or light (T)", onclick: toggleTheme}, g("svg", {width: 17, height: 17, viewBox: "0 0 17 17", "aria-hidden": "true"}, g("circle", {cx: 8.5, cy: 8.5, r: 6.6, class: "ring"}), g("path", {d: "M8.5 1.9a6.6 6.6 0 0 1 0 13.2z", class: "half"}))));
}

function foot(page) {
  return h("footer", {}, h("p", {}, "Made by ", h("b", {}, page.command)), h("p", {class: "keys"}, KEYS.map(([keys, what]) => h("span", {}, keys.split(" ").map(it => h("kbd", {}, it)), ` ${what}`))),
    page.left_out.length ? h("p", {}, "Left out: ", page.left_out.map(it => `${it.what} (${it.why})`).join("; ")) : null);
}

function start(page) {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const place = page.places.includes("decoder.cross") ? "decoder.cross" : page.places.at(-1) ?? null;
  const state = makeState({t: firstChoice(page), s: null, k: place, l: place ? (place === "decoder.cross" ? page.alignment_layer : page.attention[place].length - 1) : 0, h: 0,
    step: page.parts.length - 1, off: "", frame: null, method: "falls", theme: ""}, valid(page));
  const applyTheme = () => { root.dataset.theme = state.now.theme || (system.matches ? "dark" : "light"); readColours(); };
  const toggleTheme = () => state.set({theme: root.dataset.theme === "dark" ? "light" : "dark"});
  applyTheme();
  const top = sentence(page, state), aside = card(page, state), views = viewsOf(page).map(([id, title, make]) => [id, title, make(page, state)]);
  document.title = `${page.source.filter(it => it.own).map(it => it.name).join(" ")} → ${page.text}`.slice(0, 90);
  document.body.replaceChildren(h("a", {class: "hidden skip", href: "#attention", "data-view": "attention"}, "Skip to attention"), bar(page, views, toggleTheme),
    h("div", {class: "page"}, h("main", {}, top.node, views.map(it => it[2].node)), h("aside", {"aria-label": "The chosen word"}, aside.node), foot(page)));
  const all = [top, aside, ...views.map(it => it[2])];
  state.on((now, before) => { if (now.theme !== before.theme) applyTheme(); all.forEach(it => it.update(now, before)); });
  system.addEventListener("change", () => { applyTheme(); all.forEach(it => it.update(state.now, null)); });
  all.forEach(it => it.update(state.now, null));
  all.forEach(it => it.fit?.());
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => all.forEach(it => it.fit?.())); });
  document.addEventListener("click", event => {
    const link = event.target.closest("[data-view]");
    if (!link) return;
    event.preventDefault();
    document.getElementById(link.dataset.view)?.scrollIntoView();
  });
  keys(page, state, views, toggleTheme);
  spy(views);
}

/** Mark the view that is on the screen. */
function spy(views) {
  const watch = new IntersectionObserver(entries => entries.forEach(it => {
    if (it.isIntersecting) document.querySelectorAll("nav a").forEach(link => (link.dataset.view === it.target.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  }), {rootMargin: "-40% 0px -55%"});
  views.forEach(([, , {node}]) => watch.observe(node));
}

function keys(page, state, views, toggleTheme) {
  const turn = (value, by, n) => (value + by + n) % n;
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select")) return;
    const {t, l, h: head, k, step} = state.now, layer = k && page.attention[k], n = page.answer.length;
    const act = {ArrowRight: () => state.set({t: turn(t, 1, n), s: null}), ArrowLeft: () => state.set({t: turn(t, -1, n), s: null}),
      "]": () => layer && state.set({h: turn(head, 1, layer[0].heads)}), "[": () => layer && state.set({h: turn(head, -1, layer[0].heads)}),
      ".": () => state.set({step: Math.min(step + 1, page.parts.length)}), ",": () => state.set({step: Math.max(step - 1, 0)}),
      Escape: () => state.set({s: null, off: ""}), t: toggleTheme, T: toggleTheme}[event.key];
    const updown = {ArrowUp: 1, ArrowDown: -1}[event.key];
    if (act) act();
    else if (event.shiftKey && updown && layer) state.set({l: turn(l, updown, layer.length)});
    else if (/^[1-7]$/.test(event.key)) views[Number(event.key) - 1]?.[2].node.scrollIntoView();
    else return;
    event.preventDefault();
  });
}

try {
  start(prepare(JSON.parse(document.getElementById("data").textContent)));
} catch (error) {
  document.body.replaceChildren(h("div", {class: "none broken"}, h("h1", {}, "This page can't be shown"), h("p", {}, error.message)));
  throw error;
}
