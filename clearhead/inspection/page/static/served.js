// The page of a server, which answers any question.

import {asking} from "./asking.js";
import {open} from "./main.js";

const {models} = JSON.parse(document.getElementById("data").textContent);

const WRITING = ["translate", "summarize", "generate"]; // tasks whose answers come token by token

/** What to throw when a connection failed. */
const lost = error => (error.name === "AbortError" ? error : new Error("The server doesn't answer. Check that it's running, then try again."));

async function post(path, body, signal) {
  try {
    return await fetch(`api/${path}`, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), signal});
  } catch (error) {
    throw lost(error);
  }
}

/** Pass on an answer while it's being written. It's a draft, since a search with beams knows its answer only at the end. */
async function draft({model, text, prefix, off}, signal, write) {
  const {task, reads} = models.find(it => it.name === model);
  if (!WRITING.includes(task) || reads !== "text" || prefix.length || off.length) return;
  const reply = await post(task, {model, text, stream: true}, signal);
  if (!reply.ok) return; // the question itself will fail for the same reason, and say so
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "", written = "";
  const next = () => reader.read().catch(error => { throw lost(error); });
  for (let it = await next(); !it.done; it = await next()) {
    const events = (left + it.value).split("\n\n");
    left = events.pop();
    for (const event of events) write(written += JSON.parse(event.slice("data: ".length)).piece ?? "");
  }
}

/** Ask the server. What it says about an error is for the reader. */
async function ask(question, signal, show, write) {
  await draft(question, signal, write);
  const reply = await post("page", question, signal);
  const found = await reply.json().catch(error => {
    if (!(error instanceof SyntaxError)) throw lost(error); // the connection ended within the answer
    return {error: {message: `The server answered with status ${reply.status}.`}};
  });
  if (!reply.ok || found.error) throw new Error(found.error?.message ?? `The server answered with status ${reply.status}.`);
  return found;
}

open({models, note: "Ask the model something to see every step of its answer.", first: async () => null, ask, asking});
