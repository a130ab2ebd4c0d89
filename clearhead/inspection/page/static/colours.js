// Colours of numbers. One scale for weights and probabilities, always from 0 to 1, and one for what supports an answer or counts against it.

let stops = [], own = {};

const variable = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const parse = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));

/** Read the theme's colours. Call this when the theme changes. */
export function readColours() {
  stops = [0, 1, 2, 3, 4, 5, 6].map(it => parse(variable(`--s${it}`)));
  own = {for: parse(variable("--for")), against: parse(variable("--against")), ground: parse(variable("--s0")), line: variable("--line-2"), chosen: variable("--chosen-line")};
}

export const themed = name => own[name];

/** The colour of a number from 0 to 1, as [red, green, blue]. */
export function shade(value) {
  const at = Math.min(1, Math.max(0, value)) * 6, low = Math.min(5, Math.floor(at)), part = at - low;
  return stops[low].map((it, i) => Math.round(it + (stops[low + 1][i] - it) * part));
}

/** The colour of a contribution; `share` is its size, from −1 to 1. */
export function leaning(share) {
  const end = own[share < 0 ? "against" : "for"], part = Math.min(1, Math.abs(share));
  return own.ground.map((it, i) => Math.round(it + (end[i] - it) * part));
}

export const css = colour => `rgb(${colour.join(",")})`;

/** Draw a pixel a cell. `colour` gives that of a row and column, or null. */
export function drawCells(canvas, rows, columns, colour) {
  const context = canvas.getContext("2d"), pixels = context.createImageData(columns, rows);
  [canvas.width, canvas.height] = [columns, rows];
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
    const found = colour(r, c);
    if (found) pixels.data.set([...found, 255], 4 * (r * columns + c));
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** The style of a cell of a colour, with ink that can be read there. */
export const filled = colour => ({background: css(colour), color: inkOn(colour)});

/** Black or white, whichever is easier to read on a colour. */
export function inkOn(colour) {
  const [r, gr, b] = colour.map(it => ((it /= 255) <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * r + 0.7152 * gr + 0.0722 * b;
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#fff" : "#000";
}
