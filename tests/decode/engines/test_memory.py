"""Memory doesn't grow with the number of texts."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
import clearhead

def resident():  # MB, without files, whose pages the system drops and reads again as it likes
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024

app, words = clearhead.load(sys.argv[1], device="cpu", threads=1), ["I", "am", "hungry", "She", "sings", "We", "are"]
for n in range(0, 90_000, 500):  # distinct sentences of few words: the tokenizer keeps up to 200,000 words
    texts = [" ".join(words[i // 7**place % 7] for place in range(6)) + " late" * (i % 4) for i in range(n, n + 500)]
    (app.results if n % 1000 else app.brief_results)(texts, engine=sys.argv[2], beam=int(sys.argv[3]))
    if n == 40_000:  # until then, the allocators of several threads grow
        begun = resident()
print(resident() - begun)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(("engine", "package"), [("torch", "torch"), ("loops", "numba"), ("ct2", "ctranslate2")])
def test_memory_does_not_grow_over_50_000_sentences(model_folder: Path, engine: str, package: str, beam: int) -> None:
    pytest.importorskip(package, reason="needs an extra")
    command = [sys.executable, "-c", SCRIPT, str(model_folder), engine, str(beam)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 4  # MB; the answers alone would take more than 20
