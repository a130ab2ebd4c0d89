// The box for a text, and everything else that asks the source of answers for a new answer.

import {button, h} from "./dom.js";
import {inAddress, remember as writeHash} from "./state.js";

const VERBS = {translate: "Translate", summarize: "Summarise", generate: "Continue", classify: "Classify", answer: "Answer", transcribe: "Transcribe", fill: "Fill", speak: "Speak", embed: "Embed"};
const MEDIA = {image: "image/*", audio: "audio/*,.wav,.flac"};
const LONGEST = 1000; // characters of a text that the address holds

/** What was asked last, and a way to ask something else. */
function makeAsker(source, show) {
  const listeners = new Set();
  let question = questionOf(source), wanted = question, running = null, whole = null, failed = null;
  const tell = (state, message = "") => [...listeners].forEach(it => it(state, message));

  /** Ask the last question with some changes. An answer to an older question is dropped; one that failed changes nothing. */
  async function ask(change = {}) {
    const asked = {...wanted, ...change}, own = new AbortController();
    running?.abort();
    running = own;
    wanted = asked;
    tell("busy");
    const take = data => {
      if (own.signal.aborted) return;
      const forced = question.text === asked.text && String(question.prefix) !== String(asked.prefix);
      [question, failed] = [asked, null];
      if (!asked.off.length && !asked.prefix.length) whole = data;
      else if (whole && (whole.source !== data.source || whole.model.name !== data.model.name)) whole = null;
      remember(asked, forced);
      show(data);
    };
    try {
      take(await source.ask(asked, own.signal, take, text => own.signal.aborted || tell("busy", text)));
      if (!own.signal.aborted) tell("done");
    } catch (error) {
      if (own.signal.aborted) return;
      failed = asked;
      wanted = question;
      remember(question);
      tell("failed", error.message);
    }
  }

  // Back undoes a forced token.
  addEventListener("popstate", () => {
    const past = questionOf(source);
    if (past.text && past.text === wanted.text && String(past.prefix) !== String(wanted.prefix)) ask({prefix: past.prefix});
  });

  return {
    live: true, models: source.models, ask, retry: () => ask(failed ?? {}),
    on(listener, signal) {
      listeners.add(listener);
      signal?.addEventListener("abort", () => listeners.delete(listener));
    },
    /** Ask again without the parts that are switched off. If that fails, they're on again. */
    follow(state, signal) {
      const spelled = asked => asked.off.join(",");
      state.on(({off}, before) => { if (off !== before.off && off !== spelled(wanted)) ask({off: off ? off.split(",") : []}); });
      this.on(it => { if (it === "failed") state.set({off: spelled(question)}); }, signal);
    },
    get question() { return question; },
    get wanted() { return wanted; }, // the question being asked, else the one that was answered
    get whole() { return whole; }, // the answer of the same model with nothing switched off or forced
  };
}

/** The question that the address holds, or an empty one. */
function questionOf(source) {
  const given = inAddress(), named = given.get("model");
  const model = source.models.find(it => it.name === named) ?? source.models[0];
  const prefix = (given.get("beam") ?? "").split(".").filter(it => /^\d{1,7}$/.test(it)).map(Number);
  return {model: model?.name ?? null, text: given.get("q") ?? model?.examples?.[0] ?? "", context: given.get("context") ?? "", prefix, off: (given.get("off") ?? "").split(",").filter(it => it)};
}

function remember({model, text, context, prefix, off}, push = false) {
  const given = inAddress(), set = (name, value) => (value && value.length <= LONGEST ? given.set(name, value) : given.delete(name));
  set("model", model);
  set("q", text);
  set("context", context);
  set("beam", prefix.join("."));
  set("off", off.join(","));
  writeHash(`#${given}`, push);
}

const base64 = file => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
  reader.onerror = () => reject(new Error(`${file.name} can't be read.`));
  reader.readAsDataURL(file);
});

/** The form at the top of a page that can answer again, and the line that says how that goes. */
function askingForm(asker) {
  const of = () => asker.models.find(it => it.name === model.value) ?? asker.models[0];
  const model = h("select", {"aria-label": "Model"}, asker.models.map(it => h("option", {value: it.name, selected: it.name === asker.question.model}, it.name)));
  const text = h("textarea", {rows: 2, "aria-label": "Text", placeholder: "Write a text here"}, asker.question.text);
  const context = h("textarea", {rows: 4, "aria-label": "Text to find the answer in", placeholder: "The text to find the answer in"}, asker.question.context);
  const file = h("input", {type: "file", "aria-label": "File"}), submit = button("", null, {class: "button main", type: "submit"}), status = h("p.status", {role: "status"}), tries = h("p.tries");
  const node = h("form.asking", asker.models.length > 1 ? model : null, text, context, file, submit, tries);

  function fits() {
    const {task, reads, examples = []} = of() ?? {}, media = MEDIA[reads];
    text.hidden = Boolean(media);
    context.hidden = task !== "answer";
    file.hidden = !media;
    if (media) file.accept = media;
    submit.textContent = VERBS[task] ?? "Run";
    tries.replaceChildren(...examples.map(it => button(it, () => { text.value = it; }, {type: "submit"})));
  }

  async function send() {
    const chosen = MEDIA[of().reads] ? file.files[0] : null;
    if (MEDIA[of().reads] && !chosen) return say("failed", "Choose a file first.");
    const given = chosen ? {name: chosen.name, b64: await base64(chosen)} : undefined;
    return asker.ask({model: of().name, text: chosen ? "" : text.value, context: of().task === "answer" ? context.value : "", file: given, prefix: [], off: []});
  }

  function say(state, message) {
    node.ariaBusy = state === "busy";
    status.classList.toggle("wrong", state === "failed");
    status.replaceChildren(...(state === "busy" ? ["Thinking … ", h("span.draft", {"aria-hidden": "true"}, message)] : state === "failed" ? [message, " ", button("Retry", asker.retry, {type: "button"})] : []));
  }

  node.addEventListener("submit", event => { event.preventDefault(); send().catch(error => say("failed", error.message)); });
  text.addEventListener("keydown", event => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); node.requestSubmit(); } });
  model.addEventListener("change", fits);
  asker.on(say);
  fits();
  return [node, status];
}

/** What asks a source of answers, and its form. A page that can't ask goes without. */
export function asking(source, show) {
  const asker = makeAsker(source, show);
  return [asker, askingForm(asker)];
}
