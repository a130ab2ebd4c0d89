// Another token in the answer's place: ask for the rest, or say which command does.

import {bold, h} from "./dom.js";
import {pieceName} from "./names.js";

/** A text as an argument of a command. */
export const quoted = text => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The answer's tokens before a place, then another one. Of a search node, its whole path. */
export const prefixAt = (page, t, id) => [...page.tokens.outputs.slice(page.begins, page.begins + t).map(it => it.id), id];

/** Continue from a prefix. A page that can't ask says in `note` how to. */
export function force(page, asker, ids, texts, note) {
  if (asker.live) return asker.ask({prefix: ids});
  const begun = texts.join("").replace(/▁|\\[nt]/g, it => ({"▁": " ", "\\n": "\n", "\\t": "\t"})[it]), last = pieceName(texts.at(-1));
  const command = page.crosses ? `clearhead explain ${quoted(page.model.name)} ${quoted(page.asked)} --prefix ${quoted(begun.trim())} --html page.html`
    : `clearhead explain ${quoted(page.model.name)} ${quoted(page.asked + begun)} --html page.html`;
  return note.replaceChildren("A file can't continue from ", bold({name: last}, "own"), ". This command does: ", h("code", command));
}

/** The texts of a prefix, for `force`. */
export const textsAt = (page, t, text) => [...page.tokens.outputs.slice(page.begins, page.begins + t).map(it => it.text), text];
