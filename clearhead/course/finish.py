"""A finished course: a translator built from a student's functions, on one page with everything to check it again."""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from ..api import Translator, load, train
from ..apps.pages import page_values
from ..config import Config
from ..demo.phrasebook import split
from ..demo.phrasebook_demo import SETTINGS as DEMO
from ..demo.phrasebook_demo import WATCHED
from ..errors import DataError
from ..inspection.page.document import page_document
from ..readers.lines import read_whole, undecodable
from ..version import __version__
from .grade import EXERCISES, Grade, grade_all
from .own_parts import SETTINGS as PARTS

T = TypeVar("T")

MODEL = "model"  # subfolder for the translator
_SCORED = 200  # held-out sentences
_LONGEST = 30  # tokens of an answer by the student's own search
TRAINING = {name: value for name, value in DEMO.items() if name != "train.watch"} | {
    "model.dropout": 0.0,
    "train.precision": "fp32",
    "train.steps": 600,
    "train.warmup": 75,
    "train.eval_every": 200,
    "train.eval_sentences": 100,
    "train.save_every": 600,
}
"""The settings of a translator that's trained more briefly than that of the demo."""
_CARD = re.compile(r'<script type="application/json" id="course">(.*?)</script>', re.DOTALL)


def finish(folder: Path, grades: Sequence[Grade]) -> str:
    """Train a translator with the functions in a folder, and return a page with the model's steps and the card.

    Raises:
        DataError: some exercises aren't done.
    """
    done = sum(it.status == "passed" for it in grades)
    if done < len(EXERCISES):
        found, fix = f"{done} of {len(EXERCISES)} exercises are done", "complete the others first"
        raise DataError(found, expected="all of them", fix=fix, name=str(folder))
    with _importable(folder):
        app, scored = small_translator(folder / MODEL, TRAINING | PARTS, _SCORED)
        exact = app.evaluate(scored).scores.exact_match
        sources = [source for source, _ in scored[:3]]
        own = [_by_own_search(app, source) for source in sources]
        page = page_document(page_values(app.loaded, app.explain(WATCHED), name="your translator"))
    card = {
        "format_version": 1,
        "clearhead": __version__,
        "exercises": {it.name: (folder / f"{it.name}.py").read_text(encoding="utf-8") for it in EXERCISES},
        "grades": {it.name: it.status for it in grades},
        "exact_match": exact,
        "held_out": len(scored),
        "answers": dict(zip(sources, own)),
    }
    stored = json.dumps(card, ensure_ascii=False).replace("<", "\\u003c")  # no text of the student ends the script
    begin, _, end = page.rpartition("</body>")
    return f'{begin}{_shown(card)}<script type="application/json" id="course">{stored}</script></body>{end}'


def check_again(page: Path) -> list[Grade]:
    """Grade the functions that a page of `finish` contains. They run with the rights of the caller.

    The translator and its score aren't checked. Raise DataError if the page can't be read or has no card.
    """
    found = _CARD.search(undecodable(read_whole(page)))
    try:
        card: dict[str, Any] = json.loads(found[1]) if found else {}
        files: Mapping[str, str] = {it.name: str(card["exercises"][it.name]) for it in EXERCISES}
    except (ValueError, KeyError, TypeError):
        what, expected = f"{page} has no card of a course", "a page that `clearhead course --finish` wrote"
        raise DataError(what, expected=expected, name=str(page)) from None
    with tempfile.TemporaryDirectory() as place:
        for name, text in files.items():
            (Path(place) / f"{name}.py").write_text(text, encoding="utf-8")
        return grade_all(Path(place))


def small_translator(
    out: Path, settings: Mapping[str, Any], count: int, on_step: Callable[[dict[str, Any]], object] | None = None
) -> tuple[Translator, Sequence[tuple[str, str]]]:
    """Train a translator on the phrasebook, and return it with pairs to score it on, spread over the held-out ones.

    Args:
        out: the model folder to write.
        settings: the settings.
        count: how many pairs to score it on, at most.
        on_step: called after each update, as by `train`.
    """
    training, held_out = ([(it.english, it.french) for it in part] for part in split())
    train(Config().override(settings), out, data=training, replace=True, on_step=on_step)
    return cast(Translator, load(out, allow_custom_code=True)), spread(held_out, count)


def spread(items: Sequence[T], count: int) -> Sequence[T]:
    """Return `count` evenly spread items, or all if there are fewer."""
    return items[:: max(1, len(items) // count)][:count]


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let the exercises of a folder be imported, and forget them afterwards."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))
        for exercise in EXERCISES:
            sys.modules.pop(exercise.name, None)


def _by_own_search(app: Translator, source: str) -> str:
    """Translate a sentence by the student's beam search."""
    task, model = app.task, app.model
    search = import_module(EXERCISES[-1].name).beam_search
    encoded, _ = task.reader.encode([source])
    inputs = torch.tensor([encoded[0]])
    first, *_, end = task.special.target([0])

    def log_probs(prefix: tuple[int, ...]) -> torch.Tensor:
        with torch.no_grad():
            logits = model(inputs, torch.tensor([[first, *prefix]]))[0, -1]
        return cast(torch.Tensor, logits.log_softmax(-1))

    tokens, _ = search(log_probs, 4, _LONGEST, end)[0]
    return task.tokenizers.target.decode(tokens)


def _shown(card: Mapping[str, Any]) -> str:
    """Return the readable part of the card, below the page."""
    answers = "".join(f"<li>{escape(source)}: {escape(answer)}</li>" for source, answer in card["answers"].items())
    share = f"{card['exact_match']:.0%} of {card['held_out']} unseen sentences are translated exactly right"
    return f"""<section class="course" style="max-width: 46rem; margin: 2rem auto; padding: 0 1rem">
<h2>A finished course</h2>
<p>The attention, positions, norms and feed-forward networks of this translator are the student's own. {share}.
To check the functions again: <code>clearhead course verify FILE</code>. The student's own beam search translates:</p>
<ul>{answers}</ul></section>
"""
