// Text to token ids and back:
//
//   text -> Unicode form, case, whitespace -> prepend a space -> split into pieces -> vocabulary
//
// Pieces are strings of bytes, one character (U+0000 to U+00FF) for each byte of UTF-8.

const SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"], UNKNOWN = 3;

const NORMALIZERS = {
  NFC: text => text.normalize("NFC"),
  NFKC: text => text.normalize("NFKC"),
  lowercase: text => [...text].map(it => it.toLowerCase()).join(""), // each character alone, whatever is around it
  fold: text => text.replace(/\p{White_Space}+/gu, " "),
  strip: text => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, ""),
  prepend: text => (text ? ` ${text}` : ""),
};

/** A pattern for letters in any case. Not the flag i, which also folds the classes of characters around them. */
const anyCase = text => text.replace(/[a-z]/g, it => `[${it}${it.toUpperCase()}${it === "s" ? "ſ" : ""}]`);

const ELISION = ` ?(?:${["c", "d", "j", "l", "m", "n", "s", "t", "jusqu", "lorsqu", "puisqu", "quoiqu", "qu"].map(anyCase).join("|")})['’](?=\\p{L})`;
const SPACE = "\\p{White_Space}", LETTERS = "\\p{L}\\p{M}", OTHERS = `${SPACE}\\p{L}\\p{M}\\p{N}`;
const SPLITS = {
  subwords: `${ELISION}| ?[${LETTERS}]+(?:['’][${LETTERS}]+)*| ?\\p{N}| ?[^${OTHERS}]+|${SPACE}+(?!\\P{White_Space})|${SPACE}+`,
  words: `${ELISION}| ?[${LETTERS}\\p{N}]+(?:['’][${LETTERS}\\p{N}]+)*| ?[^${OTHERS}]\\p{M}*|${SPACE}`,
  characters: "[^]",
};

/** Each byte as one printable character, as in GPT-2: how the vocabulary is written. */
const BYTES = new Map();
for (let byte = 0, next = 0x100; byte < 256; byte++) {
  const printable = (byte >= 0x21 && byte < 0x7f) || (byte >= 0xa1 && byte < 0xad) || byte >= 0xae;
  BYTES.set(String.fromCharCode(printable ? byte : next++), String.fromCharCode(byte));
}

const utf8 = text => Array.from(new TextEncoder().encode(text), it => String.fromCharCode(it)).join("");

/** The text of bytes. Incomplete characters become U+FFFD; one at the end is left out if more may follow. */
function decoded(bytes, more = false) {
  return new TextDecoder("utf-8", {ignoreBOM: true}).decode(Uint8Array.from(bytes, it => it.charCodeAt(0)), {stream: more});
}

/** A vocabulary with its normalisation. `table` is what `embedded_tokenizer` in Python returns. */
export class Tokenizer {
  constructor({normalizers, split, kind, pieces, scores, merges}) {
    this.normalizers = normalizers.map(it => NORMALIZERS[it]);
    this.split = new RegExp(SPLITS[split], "gu");
    this.addsSpace = normalizers.includes("prepend");
    this.pieces = pieces.map((name, id) => (id < SPECIALS.length ? "" : [...name].map(it => BYTES.get(it)).join("")));
    const ids = new Map(this.pieces.map((piece, id) => [piece, id]));
    ids.delete("");
    this.model = {bpe: () => new Bpe(ids, merges), unigram: () => new Unigram(ids, scores), whole: () => ({encode: piece => [ids.get(piece) ?? UNKNOWN]})}[kind]();
    [this.known, this.spelled] = [new Map(), new Map()];
  }

  /** The ids of a text, without special tokens. */
  encode(text) {
    return [...this.normalized(text).matchAll(this.split)].flatMap(([piece]) => this.encodePiece(piece));
  }

  /** The words or characters of a text that aren't in the vocabulary, as they were written. */
  unknown(text) {
    const letters = [...text].reverse(), size = some => some.replace(/\p{White_Space}/gu, "").length, found = [];
    let room = 0; // letters of pieces so far, less those of the text so far, which normalising may have joined or split
    for (const [piece] of this.normalized(text).matchAll(this.split)) {
      let written = "";
      room += size(piece);
      while (letters.length && size(this.normalized(written + letters.at(-1))) <= room) written += letters.pop();
      room -= size(this.normalized(written));
      if (this.encodePiece(piece).includes(UNKNOWN)) found.push((written + (room > 0 ? letters.at(-1) : "")).trim() || piece);
    }
    return found;
  }

  normalized(text) { return this.normalizers.reduce((it, step) => step(it), text); }

  encodePiece(piece) {
    if (!this.known.has(piece)) this.known.set(piece, this.model.encode(utf8(piece)));
    return this.known.get(piece);
  }

  bytes(ids) { return ids.map(it => this.pieces[it]).join(""); }

  /** The text of ids, without special tokens. Incomplete characters become U+FFFD. */
  decode(ids) { return this.spaceless(decoded(this.bytes(ids))); }

  /** The text that ids add after a prompt. An incomplete last character is left out. */
  continuation(prompt, ids) {
    const before = decoded(this.bytes(prompt), true), all = decoded(this.bytes([...prompt, ...ids]), true);
    return before ? all.slice(before.length) : this.spaceless(all);
  }

  spaceless(text) { return this.addsSpace && text.startsWith(" ") ? text.slice(1) : text; }

  /** A token in printable form: "▁" for a space, escapes for unprintable and incomplete characters. */
  spell(id) {
    if (!this.spelled.has(id)) this.spelled.set(id, SPECIALS[id] ?? printable(this.pieces[id]));
    return this.spelled.get(id);
  }
}

/** Bytes in printable form. */
function printable(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const whole = n => { const some = bytes.slice(at, at + n); return some.length === n && (!decoded(some).includes("\ufffd") || some === "\xef\xbf\xbd"); };
    const n = [1, 2, 3, 4].find(whole);
    text += n ? decoded(bytes.slice(at, at + n)) : `\\x${bytes.charCodeAt(at).toString(16).padStart(2, "0")}`;
    at += n ?? 1;
  }
  return text.replaceAll(" ", "▁").replace(/[\p{C}\p{Z}]/gu, escaped);
}

const escaped = it => {
  const code = it.codePointAt(0), hex = code.toString(16);
  return {9: "\\t", 10: "\\n", 13: "\\r"}[code] ?? (code < 0x100 ? `\\x${hex.padStart(2, "0")}` : code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`);
};

/** Join pairs of neighbours, in the order in which training learned them (Sennrich et al. 2016). */
class Bpe {
  constructor(ids, merges) {
    this.ids = ids;
    this.ranks = new Map(merges.map(([left, right], rank) => [`${left} ${right}`, rank]));
    this.wholes = merges;
  }

  encode(piece) {
    const parts = [...piece].map(it => this.ids.get(it)), ranks = parts.map((_, i) => this.rank(parts, i));
    for (;;) {
      let best = -1;
      for (let i = 0; i < ranks.length; i++) if (ranks[i] < (best < 0 ? Infinity : ranks[best])) best = i;
      if (best < 0) return parts;
      parts.splice(best, 2, this.wholes[ranks[best]][2]);
      ranks.splice(best, 1);
      for (const i of [best - 1, best]) if (i >= 0) ranks[i] = this.rank(parts, i);
    }
  }

  /** When training learned to join a part and the next one; Infinity if it didn't. */
  rank(parts, i) { return this.ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity; }
}

/** Choose the most likely segmentation (Kudo 2018). A byte that no piece starts with counts as unknown. */
class Unigram {
  constructor(ids, scores) {
    const lengths = [...ids.keys()].map(it => it.length);
    Object.assign(this, {ids, scores, longest: Math.max(...lengths), unknown: Math.min(0, ...scores) - 10});
  }

  encode(piece) {
    const best = [{score: 0}], found = []; // best[end] covers piece.slice(0, end)
    const offer = (end, score, start, id) => { if (!(best[end]?.score >= score)) best[end] = {score, start, id}; };
    for (let start = 0; start < piece.length; start++) {
      let single = false;
      for (let end = start + 1; end <= Math.min(piece.length, start + this.longest); end++) {
        const id = this.ids.get(piece.slice(start, end));
        if (id === undefined) continue;
        single ||= end === start + 1;
        offer(end, best[start].score + this.scores[id], start, id);
      }
      if (!single) offer(start + 1, best[start].score + this.unknown, start, UNKNOWN);
    }
    for (let end = piece.length; end > 0; end = best[end].start) found.push(best[end].id);
    return found.reverse();
  }
}
