// The page: it gets its data from a source of answers, makes the views that this model has, and links them by one state.

import {button, g, h, path} from "./dom.js";
import {prepare} from "./data.js";
import {readColours} from "./colours.js";
import {inAddress, makeState} from "./state.js";
import {count} from "./numbers.js";
import {firstChoice, sentence} from "./sentence.js";
import {card} from "./card.js";
import {flow} from "./flow.js";
import {answers} from "./answers.js";
import {attention} from "./attention.js";
import {decoding} from "./decoding.js";
import {layers} from "./layers.js";
import {words} from "./words.js";
import {headsOff} from "./heads_off.js";
import {film} from "./film.js";
import {keyLine, listen} from "./keys.js";
import {share} from "./share.js";
import {tour} from "./tour.js";

const LATER = 150; // milliseconds until views off the screen follow

/** The views that this model can have, in reading order: [id, title, maker]. */
function viewsOf(page) {
  const found = [["answers", "Answers", page.spans ? answers : null], ["flow", "Flow", flow], ["attention", "Attention", page.places.length ? attention : null], ["decoding", "Decoding", page.search?.nodes.length ? decoding : null],
    ["layers", "Layers", page.lens || page.why ? layers : null], ["words", "Words", page.words ? words : null], ["heads", "Heads off", page.without ? headsOff : null], ["film", "Film", film]].filter(it => it[2]);
  const first = it => it[0] === "answers" || it[0] === "words";
  return page.writes ? found : found.sort((a, b) => first(b) - first(a));
}

/** Which values of the state this model has. */
function valid(page, live, views) {
  const heads = (name, value) => page.places.some(place => (name === "l" ? page.attention[place].length : page.attention[place][0].heads) > value);
  const parts = value => { const all = value.split(","); return (live || all.length === 1) && all.every(it => Object.hasOwn(page.without ?? {}, it)); };
  return (name, value) => ({t: () => value < page.answer.length, s: () => value < page.source.length, from: () => page.spans?.allowed(value), to: () => page.spans?.allowed(value), l: () => heads("l", value), h: () => heads("h", value), step: () => value <= page.lastStep,
    frame: () => value < (page.film?.frames.length ?? 0), k: () => page.places.includes(value), v: () => views.some(it => it[0] === value), off: () => parts(value),
    method: () => Boolean(page.words?.[value]?.shape), theme: () => ["light", "dark"].includes(value)})[name]();
}

function bar(facts, views, toggleTheme, act) {
  return h("header.bar",
    h("div.brand", g("svg", {width: 22, height: 22, viewBox: "0 0 22 22", "aria-hidden": "true"}, path("M4 3.5C4 11 18 11 18 18.5", "one"), path("M18 3.5C18 11 4 11 4 18.5", "two")), h("span", "Clearhead")),
    h("div.facts", facts),
    h("nav", {"aria-label": "Views"}, views.map(([id, title]) => h("a", {href: `#${id}`, "data-view": id}, title))),
    act && button("Share", act), button("", toggleTheme, {class: "theme", "aria-label": "Dark or light", title: "Dark or light (T)"}));
}

const factsOf = ({name, layers, heads, d_model: d, parameters}) => `${name.split(/[\\/]/).filter(it => it).at(-1)} · ${Object.values(layers).join(" + ")} layers · ${heads} heads · d ${d} · ${count(parameters)} parameters`;

function foot(page) {
  return h("footer", page.command ? h("p", "Made by ", h("b", page.command)) : null, keyLine(),
    page.left_out.length ? h("p", "Left out: ", page.left_out.map(it => `${it.what} (${it.why})`).join("; ")) : null);
}

/** Set the theme's colours: the one in the address, else the system's. */
function applyTheme(chosen) {
  document.documentElement.dataset.theme = chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  readColours();
}

const otherTheme = () => (document.documentElement.dataset.theme === "dark" ? "light" : "dark");

function start(page, asker, form, signal) {
  const kinds = viewsOf(page), place = page.places.includes("decoder.cross") ? "decoder.cross" : page.places.at(-1) ?? null;
  const state = makeState({t: firstChoice(page), s: null, from: null, to: null, k: place, l: place ? (place === "decoder.cross" ? page.alignment_layer : page.attention[place].length - 1) : 0, h: 0,
    step: 0, v: null, off: "", frame: null, method: "falls", theme: ""}, valid(page, asker.live, kinds), signal);
  const toggleTheme = () => state.set({theme: otherTheme()});
  asker.follow?.(state, signal);
  applyTheme(state.now.theme);
  const top = sentence(page, state, asker), aside = card(page, state, asker), views = kinds.map(([id, title, make]) => [id, title, make(page, state, asker, signal)]);
  document.title = `${page.writes && !page.crosses ? "" : `${page.source.filter(it => it.own).map(it => it.name).join(" ")} → `}${page.text}`.slice(0, 90);
  document.body.replaceChildren(h("a.hidden.skip", {href: `#${kinds[0][0]}`, "data-view": kinds[0][0]}, "Skip to the views"), bar(factsOf(page.model), views, toggleTheme, () => share(page, state)),
    h("div.page", h("main", h("h1.hidden", document.title), form, top.node, views.map(it => it[2].node)), h("aside", {"aria-label": "The chosen word"}, aside.node), foot(page)));
  const all = [top, aside, ...views.map(it => it[2])];
  const due = new Map(), offScreen = ({node}) => node.querySelector(".head")?.checkVisibility?.({contentVisibilityAuto: true}) === false;
  let later = 0;
  /** Update a view from the state that it shows. */
  const catchUp = (it, before) => { it.update(state.now, due.get(it) ?? before); due.delete(it); };
  const redraw = () => all.forEach(it => it.update(state.now, null)), fit = () => all.forEach(it => it.fit?.());
  const show = () => { if (state.now.v) document.getElementById(state.now.v)?.scrollIntoView(); };
  const go = id => (state.now.v === id ? show() : state.set({v: id}, {push: true}));
  state.on((now, before) => {
    if (now.theme !== before.theme) applyTheme(now.theme);
    const apart = all.filter(offScreen);
    for (const it of all) if (apart.includes(it)) due.set(it, due.get(it) ?? before); else catchUp(it, before);
    clearTimeout(later);
    later = setTimeout(() => [...due.keys()].forEach(it => catchUp(it)), LATER);
    if (now.v !== before.v) show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { applyTheme(state.now.theme); redraw(); }, {signal});
  const players = views.map(it => it[2].player).filter(it => it), own = at => players.find(it => it.button.closest("section").contains(at));
  /** Play or pause: what is playing, else the view with the focus, else the Flow. */
  const play = at => { const it = players.find(one => one.playing) ?? own(at) ?? (at === document.body ? players[0] : null); it?.toggle(); return Boolean(it); };
  redraw();
  fit();
  show();
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(fit); }, {signal});
  document.addEventListener("click", event => {
    const link = event.target.closest("[data-view]");
    if (!link) return;
    event.preventDefault();
    go(link.dataset.view);
  }, {signal});
  listen(page, state, {views: kinds.map(it => it[0]), go, toggleTheme, play, signal});
  spy(views, signal);
  tour(page, state, kinds.map(it => it[0]), signal);
}

/** Mark the view that is on the screen. */
function spy(views, signal) {
  const watch = new IntersectionObserver(entries => entries.forEach(it => {
    if (it.isIntersecting) document.querySelectorAll("nav a").forEach(link => (link.dataset.view === it.target.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  }), {rootMargin: "-40% 0px -55%"});
  views.forEach(([, , {node}]) => watch.observe(node));
  const nav = document.querySelector("nav"), more = new IntersectionObserver(([it]) => nav.classList.toggle("more", !it.isIntersecting), {root: nav, threshold: 0.9});
  more.observe(nav.lastChild);
  signal.addEventListener("abort", () => [watch, more].forEach(it => it.disconnect()));
}

function broken(error) {
  document.body.replaceChildren(h("div.none.broken", h("h1", "This page can't be shown"), h("p", error.message)));
}

/** Open the page with a source of answers: {models, first, ask}. The first example of the first model is asked first. See docs/architecture.md. */
export async function open(source) {
  let shown = new AbortController();
  const show = data => {
    const page = prepare(data), had = document.activeElement, off = had?.dataset.off, at = scrollY;
    shown.abort();
    shown = new AbortController();
    start(page, asker, form, shown.signal);
    if (!asker.live) return;
    const again = form.some(it => it.contains(had)) ? had : off && [...document.querySelectorAll("[data-off]")].find(it => it.dataset.off === off);
    if (again) again.focus({preventScroll: true}); // who uses the keyboard stays where they were
    scrollTo(0, at);
  };
  const [asker, form] = source.asking?.(source, show) ?? [{}, []];
  try {
    applyTheme(inAddress().get("theme"));
    const data = await source.first();
    if (data) return show(data);
    document.body.replaceChildren(bar(source.about ? factsOf(source.about) : "", [], () => applyTheme(otherTheme())), h("div.page", h("main", h("h1.hidden", "Clearhead"), form, source.note ? h("p.note", source.note) : "")));
    if (asker.question.text) asker.ask();
  } catch (error) {
    broken(error);
    if (error.name !== "DataError") throw error;
  }
}
