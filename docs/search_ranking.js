// How search ranks what it finds. Sphinx knows which pages have all words of a query, and not how often, so the heading that
// has most of them decides, and is where the result leads. Records of what was measured or changed come last.
const RECORDS = ["results", "changelog", "contributing", "command-line"];

let headings; // of each page: the stems of its words, its place, and its text

const stems = (text) => {
  const stemmer = new Stemmer();
  const words = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
  return [...new Set(words.map((word) => stemmer.stemWord(word)))];
};

const readHeadings = () => {
  headings = new Map(Search._index.docnames.map((name) => [name, []]));
  for (const [title, places] of Object.entries(Search._index.alltitles))
    for (const [file, id] of places)
      headings.get(Search._index.docnames[file]).push({ words: stems(title), id, title });
};

var Scorer = {
  score: (result) => {
    const [docname, title, , , score, , kind] = result;
    if (kind === "object") return score;
    if (kind === "index") return score === 100 ? 60 : score > 90 ? 40 : score / 4; // the term, its plural, or a part of it
    if (!headings) readHeadings();
    const asked = stems(new URLSearchParams(window.location.search).get("q") || "");
    let best = 0;
    for (const it of headings.get(docname)) {
      const shared = it.words.filter((word) => asked.includes(word)).length;
      const value = 30 * (shared / asked.length) ** 2 * (0.5 + (0.5 * shared) / it.words.length) + (it.id === null ? 1 : 0);
      if (shared > 0 && value > best) {
        best = value;
        if (it.id !== null) [result[1], result[2]] = [`${title.split(" > ")[0]} > ${it.title}`, "#" + it.id];
        else [result[1], result[2]] = [it.title, ""];
      }
    }
    return 5 + best - (RECORDS.includes(docname) ? 10 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
