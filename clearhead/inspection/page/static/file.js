// The page of a file: its answers are in the document, and it can't ask for others.

import {open} from "./main.js";

open({first: async () => JSON.parse(document.getElementById("data").textContent)});
