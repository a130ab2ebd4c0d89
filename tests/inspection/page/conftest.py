"""Pages of tiny models of each kind, and a browser to open them in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.config import Config
from clearhead.inspection.page.document import page_document
from clearhead.inspection.page.page_data import page_data
from clearhead.inspection.record.switches import without
from clearhead.inspection.views.explanation import Explanation
from clearhead.model.transformer import build
from clearhead.tasks.registry import task_named, task_of
from clearhead.tokenization.codebook import Codebook
from clearhead.tokenization.source_and_target import train_tokenizers

ENGLISH = ["I am hungry.", "You are late.", "She sings.", "We are here.", "They sleep well."]
FRENCH = ["J'ai faim.", "Tu es en retard.", "Elle chante.", "Nous sommes ici.", "Ils dorment bien."]
SMALL = {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "model.n_encoder_layers": 2}
SMALL |= {"data.tokenizer": "word", "model.max_len": 40, "decode.max_extra": 4, "train.device": "cpu"}
LABELS = {"data.labels": ("cold", "so so", "warm"), "model.n_classes": 3}
TARGETS = {"data.labels": ("mood=so so", "mood=warm", "size=big", "size=small", "size=so so"), "model.n_classes": 5}
NUMBER = {
    "data.labels": ("stars",),
    "data.label_kind": "number",
    "data.number_scale": (250.0, 40.0),
    "model.n_classes": 1,
}
IMAGE = {
    "data.modality": "image",
    "model.front": "patches",
    "model.image_size": 16,
    "model.image_channels": 1,
    "model.patch_size": 4,
    **LABELS,
}
AUDIO = {"data.modality": "audio", "model.front": "frames", "model.sample_rate": 8000, "model.max_len": 60, **LABELS}
KINDS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "translate": ("translate", {"model.n_decoder_layers": 2}, "She sings."),
    "generate": ("generate", {"model.n_decoder_layers": 2, "data.max_len": 20}, "She sings. We are"),
    "sample": ("generate", {"model.n_decoder_layers": 1, "decode.sample": True, "decode.top_k": 4}, "She sings."),
    "classify": ("classify", LABELS, "She sings well."),
    "fill": ("fill", {}, "She [MASK] well."),
    "embed": ("embed", {}, "She sings."),
    "image": ("classify", IMAGE, np.arange(256, dtype=np.uint8).reshape(16, 16)),
    "audio": ("classify", AUDIO, (np.sin(np.arange(8000) / 9).astype(np.float32), 8000)),
    "answer": ("answer", {"data.max_len": 30}, ("She sings?", "We are here. She sings well.")),
}
LABEL_KINDS = {
    "several": ("classify", {**LABELS, "data.label_kind": "several"}, "She sings well."),
    "targets": ("classify", {**TARGETS, "data.label_kind": "targets"}, "She sings well."),
    "number": ("classify", NUMBER, "She sings well."),
}
MORE = {
    "summarize": ("summarize", {"model.n_decoder_layers": 3, "model.copy": False}, "She sings. We are here."),
    "transcribe": (
        "transcribe",
        {**AUDIO, "data.labels": (), "model.n_classes": 0, "model.n_decoder_layers": 1},
        KINDS["audio"][2],
    ),
    "speak": (
        "speak",
        {"model.n_decoder_layers": 2, "model.sample_rate": 8000, "model.n_mels": 12, "model.tie": "none"},
        "She sings.",
    ),
}

PROBES = (Path(__file__).parent / "probes.js").read_text(encoding="utf-8").split("\n", 1)[1].strip()


def ask(tab: Any, probe: str) -> Any:
    """Return what one of the probes finds in a tab."""
    return tab.evaluate(f"{PROBES}.{probe}()")


def opened(tab: Any, path: Path, state: str = "") -> None:
    """Open a page with a state, and let every view be drawn."""
    tab.goto(f"file://{path}#{state}")
    ask(tab, "show")


def explained(
    kind: str, read: Any = None, *, off: Sequence[str] = (), prefix: Sequence[int] = (), **changed: Any
) -> tuple[Explanation, Config]:
    """What a model of random weights made of an input, with parts off, a forced beginning, or some settings changed."""
    verb, values, source = (KINDS | LABEL_KINDS | MORE)[kind]
    source = source if read is None else read
    required = task_named(verb).required
    config = Config().assign({**required, **SMALL, "train.task": verb, **values, **changed}, "model")
    tokenizers = train_tokenizers(ENGLISH, FRENCH if verb == "translate" else ENGLISH, config.data)
    if verb == "speak":
        patches = np.random.default_rng(0).normal(size=(20, 4, 12)).astype(np.float32)
        tokenizers = replace(tokenizers, target=Codebook(patches, 8000))
    sizes = {"model.src_vocab_size": tokenizers.source.vocab_size, "model.tgt_vocab_size": tokenizers.target.vocab_size}
    config = config.assign(sizes, "model")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build(config.model).eval()
    found = task_of(config)(tokenizers, config)
    with without(model, *off):
        if verb == "answer":
            return found.explain(model, source[0], config.decode, source[1]), config
        return found.explain(model, source, config.decode, *([prefix] if prefix else [])), config


def page_of(explanation: Explanation, config: Config, **given: Any) -> tuple[Explanation, dict[str, Any]]:
    command = "clearhead explain models/a … --html a.html"
    return explanation, page_data(explanation, config, name="models/a", command=command, **given)


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Explanation, dict[str, Any]]]:
    """Return the page of a kind of model: its file, what it explains, and its data."""
    folder, made = tmp_path_factory.mktemp("pages"), dict[str, Any]()

    def page(kind: str) -> tuple[Path, Explanation, dict[str, Any]]:
        if kind not in made:
            explanation, data = page_of(*explained(kind))
            path = folder / f"{kind}.html"
            path.write_text(page_document(data), encoding="utf-8")
            made[kind] = path, explanation, data
        return made[kind]

    return page


@dataclass
class Window:
    """A page of the browser, with all that it reported and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def expect_quiet(self) -> None:
        """Fail if the page reported anything, or asked for anything but itself."""
        said, asked = list(self.said), list(self.asked)
        self.said.clear()
        self.asked.clear()
        assert said == []
        assert [url for url in asked if not url.startswith(("file:", "data:", "about:", "http://page.test/"))] == []


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Window]:
    """One page for all tests of a module, since a new one takes longer than most tests."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    found = Window(context.new_page())
    found.page.on("console", lambda it: found.said.append(it.text))
    found.page.on("pageerror", lambda it: found.said.append(str(it)))
    found.page.on("request", lambda it: found.asked.append(it.url))
    yield found
    context.close()


@pytest.fixture
def tab(window: Window) -> Iterator[Any]:
    """An empty page. The test fails if the page isn't quiet."""
    window.page.set_viewport_size({"width": 1280, "height": 900})
    window.page.goto("about:blank")
    yield window.page
    window.page.unroute_all()
    window.expect_quiet()


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of model. pytest runs all tests of one kind before those of the next."""
    return str(request.param)


@pytest.fixture
def shown(kind: str, window: Window, pages: Any) -> Iterator[tuple[Any, Explanation, dict[str, Any]]]:
    """The page of a kind of model, opened once for all tests of it, with its explanation and its data."""
    path, explanation, data = pages(kind)
    if not window.page.url.startswith(f"file://{path}#"):
        opened(window.page, path)
    yield window.page, explanation, data
    window.expect_quiet()
