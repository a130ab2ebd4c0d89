// The page of a server, which answers any question.

import {open} from "./main.js";

const {models} = JSON.parse(document.getElementById("data").textContent);

/** Ask the server. What it says about an error is for the reader. */
async function ask(question, signal) {
  let reply;
  try {
    reply = await fetch("api/page", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(question), signal});
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("The server doesn't answer. Check that it's running, then try again.");
  }
  const found = await reply.json().catch(() => ({error: {message: `The server answered with status ${reply.status}.`}}));
  if (!reply.ok || found.error) throw new Error(found.error?.message ?? `The server answered with status ${reply.status}.`);
  return found;
}

open({models, first: async () => null, ask});
