"""Translate with ONNX Runtime only: greedy search, one sentence per line.

python translate_onnx.py DIR < in > out

DIR is from `clearhead export MODEL --to onnx --out DIR`. Needs onnxruntime, tokenizers and numpy.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers

folder = Path(sys.argv[1])
about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
source, target = (tokenizers.Tokenizer.from_file(str(folder / it)) for it in about["tokenizers"].values())
source.encode_special_tokens = True  # "</s>" in a text is text
special, rules, inputs = about["special_ids"], about["decode"], about["graphs"]["decoder"]["inputs"]
empty = {
    it["name"]: np.zeros([1, it["shape"][1], 0, it["shape"][3]], np.float32) for it in inputs if "past" in it["name"]
}
first = [special["bos"]] * about["begins_with_bos"]

for line in (raw.decode().rstrip("\r\n") for raw in sys.stdin.buffer):
    ids = source.encode(line, add_special_tokens=False).ids[: about["max_len"] - 1 - len(first)]
    read = {"source": np.array([[*first, *ids, *[special["eos"]] * special["ends"]]])}
    memory = dict(zip((it.name for it in encoder.get_outputs()), encoder.run(None, read)))
    answer, token, cache = [], special["start"], empty
    for _ in range(min(len(first) + len(ids) + rules["max_extra"], about["max_len"]) * bool(line.strip())):
        feed = {"tokens": np.array([[token]]), **read, **memory, **cache}
        logits, *grown = decoder.run(None, {it["name"]: feed[it["name"]] for it in inputs})
        cache = dict(zip(empty, grown))
        logits[..., rules["suppress"]] = -np.inf
        token = int(logits[0, -1].argmax())
        if token == special["eos"]:
            break
        answer.append(token)
    print(" ".join(target.decode(answer).splitlines()))
