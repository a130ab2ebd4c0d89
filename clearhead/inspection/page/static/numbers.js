// Numbers as the page writes them. Minus is the true minus sign.

/** The numbers from 0 to n − 1. */
export const range = n => [...Array(n).keys()];

/** The place of the largest number. */
export const best = values => values.indexOf(Math.max(...values));

export const sum = values => values.reduce((a, b) => a + b, 0);

/** The largest size of any number. */
export const largestOf = values => values.reduce((most, it) => Math.max(most, Math.abs(it)), 0);

/** Sort [name, value] by size without the sign, largest first. */
export const bySize = (a, b) => Math.abs(b[1]) - Math.abs(a[1]);

const minus = text => text.replace("-", "−");

/** A probability as per cent: three significant digits, and never a rounded 100%. */
export function percent(p) {
  if (!(p > 0)) return "0%";
  if (p > 0.9999) return ">99.99%";
  if (p >= 0.9995) return `${(100 * p).toFixed(2)}%`;
  if (p < 1e-5) return minus(p.toExponential(0));
  const text = (100 * p).toPrecision(3);
  return `${Number(text) >= 0.01 ? text : Number(text)}%`;
}

/** A log-probability as a probability in per cent. */
export const chance = logp => percent(Math.exp(logp));

/** A log-probability or score: two decimals, four when it is small. */
export const logp = x => (Math.abs(x) < 5e-5 ? "0" : minus(x.toFixed(Math.abs(x) < 0.01 ? 4 : 2)));

/** A number with its sign, or 0 if it rounds to that. */
export const signed = (x, digits = 2) => (Math.abs(x) < 0.5 * 10 ** -digits ? "0" : x > 0 ? `+${x.toFixed(digits)}` : minus(x.toFixed(digits)));

/** An attention weight inside a cell. */
export const weight = w => (w < 0.005 ? "0" : w > 0.995 ? "1" : w.toFixed(2).slice(1));

/** A value of a vector; null is what JSON can't store. */
export const short = x => (x === null ? "−∞" : minus((Math.abs(x) < 0.005 ? 0 : x).toFixed(2)));

export const count = n => n.toLocaleString("en");

/** A rank from 1, as a word. */
export function ordinal(n) {
  const ending = n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th";
  return `${count(n)}${ending}`;
}
