// The names of tokens: what a reader sees of the pieces that a vocabulary has.

const NAMES = {start: "start", end: "■ end", pad: "pad", unknown: "‹unk›"};
const SPECIAL = {"</s>": NAMES.end, "<s>": NAMES.start, "<pad>": NAMES.pad, "<unk>": NAMES.unknown};
const MARKS = {"▁": "␣", " ": "␣", "\\n": "↵", "\n": "↵", "<0x0A>": "↵", "\\t": "⇥", "\t": "⇥", "<0x09>": "⇥", "\\r": "␍", "\r": "␍"};
const UNIT = /\\x[89a-f][0-9a-f]|<0x[89A-F][0-9A-F]>|[^]/gu; // a byte of an incomplete character as vocabularies spell it, or a character

/** Text with marks for whitespace, except for a space before a word, and with lone surrogates made visible. */
function spelled(text) {
  const word = text.replace(/^▁(?!▁|$|\\[nrt])/, "");
  return word.replace(/▁|\\[nrt]|<0x0[9A]>/g, it => MARKS[it]).replace(/\p{Surrogate}/gu, it => `\ufffd${it.charCodeAt(0).toString(16)}`) || "␣";
}

/** A token's name where only its text is known, as in a search. */
export const pieceName = text => SPECIAL[text] ?? spelled(text);

/** The name of a token, and whether it's text of the user's. A word that the vocabulary lacks has the name that was written. */
function nameOf({text, kind, written}) {
  if (kind === "text") return {name: spelled(text), own: true};
  return {name: kind === "mask" ? text : written ? written.trim() || written.replace(/\s/g, it => MARKS[it] ?? "␣") : NAMES[kind], own: Boolean(written), kind};
}

const byteOf = unit => (unit?.length > 2 ? parseInt(unit.match(/x(..)/)[1], 16) : 0);

/** How many bytes a character has that begins with this one. */
const lengthOf = byte => (byte < 0xc2 || byte > 0xf4 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4);

/** Tokens with their names. A character that several tokens share is in the name of each: "€ (2 of 3)". */
export function named(tokens) {
  const found = tokens.map(nameOf), parts = tokens.map(() => "");
  const units = tokens.flatMap(({text, kind}, i) => (kind === "text" ? text.match(UNIT) ?? [] : [""]).map(unit => [i, unit]));
  for (let at = 0; at < units.length;) {
    const some = units.slice(at, at + lengthOf(byteOf(units[at][1]))), first = some[0][0], last = some.at(-1)[0];
    const whole = some.length === lengthOf(byteOf(some[0][1])) && some.slice(1).every(it => byteOf(it[1]) >> 6 === 2), shared = whole && last > first;
    const text = shared ? new TextDecoder().decode(Uint8Array.from(some, it => byteOf(it[1]))) : some[0][1];
    for (let i = first; i <= (shared ? last : first); i++) {
      parts[i] += text;
      if (shared) Object.assign(found[i], {kind: "shared", shared: text, place: ` (${i - first + 1} of ${last - first + 1})`});
    }
    at += shared ? some.length : 1;
  }
  return found.map((it, i) => (it.shared ? {...it, name: spelled(parts[i]) + it.place} : it));
}

/** The name of a token after others, which `before` returns, where only its text is known. */
export const nameAfter = (before, text) => (text.match(UNIT)?.some(byteOf) ? named([...before(), {text, kind: "text"}]).at(-1).name : pieceName(text));
