// What is chosen. The hash of the address holds it, so a page can be reloaded, linked to, and gone back in.

const NUMBERS = ["t", "s", "l", "h", "step", "frame", "from", "to"];
const TEXTS = ["k", "v", "off", "method", "theme"];
const ASKED = ["model", "q", "context", "beam"]; // kept for asking.js

/** What the address holds. */
export const inAddress = () => new URLSearchParams(location.hash.slice(1));

/** Read the parts of a hash that `valid` accepts; the others are ignored one by one. */
function fromHash(valid) {
  const found = {}, given = inAddress();
  for (const name of [...NUMBERS, ...TEXTS]) {
    if (!given.has(name)) continue;
    const text = given.get(name), value = NUMBERS.includes(name) ? (/^\d{1,6}$/.test(text) ? Number(text) : null) : text;
    if (value !== null && valid(name, value)) found[name] = value;
  }
  return found;
}

/** Write a hash into the address, unless the page is inside another one and has no address. */
export function remember(hash, push = false) {
  try {
    history[push ? "pushState" : "replaceState"](null, "", hash);
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
  }
}

export function makeState(initial, valid, signal) {
  let state = {...initial, ...fromHash(valid)};
  const listeners = [];
  const write = push => {
    const given = inAddress(), shown = new URLSearchParams(ASKED.filter(it => given.has(it)).map(it => [it, given.get(it)]));
    for (const [name, value] of Object.entries(state)) if (value !== null && value !== "") shown.set(name, value);
    const hash = `#${shown}`;
    if (hash !== location.hash) remember(hash, push);
  };
  const tell = before => listeners.forEach(it => it(state, before));
  addEventListener("popstate", () => {
    const before = state;
    state = {...initial, ...fromHash(valid)};
    tell(before);
  }, {signal});
  return {
    get now() { return state; },
    on: listener => listeners.push(listener),
    set(change, {push = false} = {}) {
      const before = state;
      state = {...state, ...change};
      write(push);
      tell(before);
    },
  };
}
