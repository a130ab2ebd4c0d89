// A link to the page, and a picture of the view on the screen.

import {button, dialog, g, h} from "./dom.js";
import {headName} from "./data.js";
import {inAddress} from "./state.js";

const MARGIN = 24, SCALE = 2; // pixels around the picture, and for each of the screen

/** What a picture shows. */
function captionOf(page, {t, k, l, h: head}, view) {
  const word = page.answer[t], opened = view.id === "attention" && k ? headName(k, l, head) : "";
  return [page.model.name, `“${page.asked ?? ""}” → “${page.text}”`, view.querySelector("h2")?.textContent, word && `chosen: ${word.name}`, opened].filter(it => it).join(" · ");
}

/** A view with a caption as SVG: [width, height, text]. */
function drawing(view, caption) {
  const copy = view.cloneNode(true), width = view.clientWidth + 2 * MARGIN, own = view.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((it, i) => { it.style.background = `0 0 / 100% 100% url(${own[i].toDataURL()})`; });
  copy.querySelectorAll(".button, [type=range], details:not([open])").forEach(it => it.remove());
  const body = h("body", {style: {width: `${width}px`, padding: `0 ${MARGIN}px ${MARGIN}px`}}, copy, h("p.note", caption));
  document.body.append(body);
  const height = body.offsetHeight;
  body.remove();
  const svg = g("svg", {width, height, "data-theme": document.documentElement.dataset.theme}, g("style", document.querySelector("style").textContent), g("foreignObject", {width, height}, body));
  return [width, height, new XMLSerializer().serializeToString(svg).replace(/[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")];
}

/** Save a view as PNG, or as SVG if the browser doesn't let a canvas have it. Returns what to tell the reader. */
async function save(view, caption) {
  const [width, height, text] = drawing(view, caption), source = `data:image/svg+xml,${encodeURIComponent(text)}`, image = new Image(), canvas = h("canvas", {width: SCALE * width, height: SCALE * height});
  image.src = source;
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  let href = source;
  try { href = canvas.toDataURL(); } catch (error) { if (error.name !== "SecurityError") throw error; }
  const download = `${view.id}.${href === source ? "svg" : "png"}`;
  h("a", {href, download}).click();
  return `Saved as ${download}.`;
}

/** Share the view on the screen. */
export function share(page, state) {
  const view = [...document.querySelectorAll("section")].findLast(it => it.getBoundingClientRect().top < innerHeight / 2), caption = captionOf(page, state.now, view);
  const given = inAddress(), note = h("p.note", {role: "status"});
  given.delete("v");
  if (view.id !== "sentence") given.set("v", view.id);
  const link = h("input", {readonly: true, "aria-label": "Link", value: `${location.href.split("#")[0]}#${given}`});
  const offer = (name, act, failed) => button(name, async () => { note.textContent = await act().catch(() => failed); });
  const copy = async () => { link.select(); await navigator.clipboard.writeText(link.value); return "The link is copied."; };
  dialog("Share", h("p", caption), location.protocol === "about:" ? null : [link, offer("Copy link", copy, "Copy the link from the box.")],
    offer("Save picture", () => save(view, caption), "The browser can’t draw this; take a screenshot."), note);
}
