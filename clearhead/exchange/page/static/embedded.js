// The page of a model that needs no server: weights, tokenizers and settings are in the document, and it answers by itself.

import {asking} from "./asking.js";
import {open} from "./main.js";
import {answerer} from "./embedded/answer.js";
import {Session} from "./embedded/session.js";

const content = name => document.getElementById(name).textContent;

const about = JSON.parse(content("data")), session = new Session(about, content("weights"));

open({
  models: about.models, about: about.page.model, note: "The model is in this file. It answers on your machine, without a network.",
  first: async () => null, ask: answerer(session), asking,
});
