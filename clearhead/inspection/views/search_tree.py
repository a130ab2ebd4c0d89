"""How a search came to its answer: every candidate of every step, what it was worth, and what became of it."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.cells import cell_len
from torch import nn

from ...decode.beams import Hypothesis, Step
from ..record.parts import stacks
from ..record.uncompiled import uncompiled
from .text_columns import cut, folded, left, noted, preformatted

_TEXT = 24  # columns of a beginning that are shown: its last ones


@dataclass(frozen=True)
class Node:
    """A candidate: a token behind the beginning of its parent, -1 being the start of all.

    `total` is what the whole hypothesis is ranked by, and `score` that over the length penalty, which ranks answers.
    """

    number: int
    parent: int
    step: int  # from 1
    token: str
    log_probability: float
    total: float
    score: float
    fate: str  # "kept" as a beam, "ended" as an answer, "dropped"
    beam: int | None  # which beam it lives on as


@dataclass(frozen=True)
class Found:
    """An answer of the search, best first; `node` is its last token. The `total` is its log-probability, less what
    repetitions cost."""

    node: int | None
    text: str
    log_probability: float
    total: float
    length: int  # tokens, the end included
    penalty: float  # ((5 + length) / 6)^alpha
    score: float
    finished: bool


@dataclass
class SearchTree:
    """All of a search for one source: to be given as `observe`, and finished with the answers.

    `cache_lengths` are the tokens that each beam's cache held before a step; the `note` is of compiled parts.
    """

    spell: Callable[[int], str]
    penalty: Callable[[int], float]
    nodes: list[Node] = field(default_factory=list)
    answers: list[Found] = field(default_factory=list)
    cache_lengths: list[int] = field(default_factory=list)
    note: str = ""
    _beams: list[int] = field(default_factory=lambda: [-1])  # the node of each live beam

    def observe(self, step: Step) -> None:
        """Take a step of a search for one sentence."""
        kept = {int(column): beam for beam, column in enumerate(step.kept[0])}
        nodes: list[Node] = []
        for column, total in enumerate(step.totals[0].tolist()):
            if total == -math.inf:
                continue
            ended, beam = bool(step.ended[0, column]), kept.get(column)
            node = Node(
                number=len(self.nodes) + len(nodes),
                parent=self._beams[int(step.parents[0, column])],
                step=step.number,
                token=self.spell(int(step.tokens[0, column])),
                log_probability=float(step.log_probabilities[0, column]),
                total=total,
                score=total / self.penalty(step.number),
                fate="ended" if ended else "kept" if beam is not None else "dropped",
                beam=None if ended else beam,
            )
            nodes.append(node)
        self.nodes += nodes
        living = {node.beam: node.number for node in nodes if node.beam is not None}
        self._beams = [living.get(beam, -1) for beam in range(step.kept.shape[1])]

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Write down how long the decoder's cache is before each step, inside the `with` block.

        All of the model runs as it is written, compiled or not: so does the record that is shown beside the search.
        """

        def hook(_decoder: nn.Module, _inputs: Any, options: dict[str, Any]) -> None:
            if options.get("cache") is not None:
                self.cache_lengths.append(options["cache"].length)

        handle = stacks(model)["decoder"].register_forward_pre_hook(hook, with_kwargs=True)
        try:
            with uncompiled(model):
                yield
        finally:
            handle.remove()
            self.cache_lengths = self.cache_lengths[len(self.cache_lengths) - len(self.steps) :]  # not of the prompt

    def finish(
        self, hypotheses: Sequence[Hypothesis], text: Callable[[Sequence[int]], str], note: str = ""
    ) -> "SearchTree":
        """The same with the answers, best first, and a note."""
        self.note = note
        ends = {(node.fate, *self.path(node.number)): node.number for node in self.nodes}
        for it in hypotheses:
            length = len(it.token_log_probabilities)
            spelt = tuple(self.spell(i) for i in it.ids)
            ended = (number for path, number in ends.items() if path[0] == "ended" and spelt in (path[1:-1], path[1:]))
            node = next(ended, None) if it.finished else ends.get(("kept", *spelt))
            penalty = self.penalty(length)
            total = it.score * penalty
            found = Found(node, text(it.ids), it.log_probability, total, length, penalty, it.score, it.finished)
            self.answers.append(found)
        return self

    def path(self, number: int) -> list[str]:
        """The tokens from the start to a node."""
        tokens: list[str] = []
        while number >= 0:
            node = self.nodes[number]
            tokens.append(node.token)
            number = node.parent
        return tokens[::-1]

    @property
    def steps(self) -> list[list[Node]]:
        """The candidates of each step, best first."""
        found: list[list[Node]] = []
        for node in self.nodes:
            if node.step > len(found):
                found.append([])
            found[-1].append(node)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        nodes, answers = [asdict(it) for it in self.nodes], [asdict(it) for it in self.answers]
        return {"nodes": nodes, "answers": answers, "cache_lengths": self.cache_lengths}

    def _repr_html_(self) -> str:
        """For notebooks, what `render` gives."""
        return preformatted(self.render())

    def render(self) -> str:
        """Step by step for people, in 80 columns, and why the winner won."""
        blocks = [self._step(number, nodes) for number, nodes in enumerate(self.steps)]
        return noted("\n\n".join([*blocks, self._why()]), self.note)

    def _step(self, number: int, nodes: Sequence[Node]) -> str:
        held = f": each beam's cache grows from {self.cache_lengths[number]} to {self.cache_lengths[number] + 1} tokens"
        lines = [f"step {number + 1}{held if number < len(self.cache_lengths) else ''}"]
        lines.append(f"  {'beginning':<{_TEXT}} {'token':<12}{'log p':>8}{'total':>9}  fate")
        for node in nodes:
            fate = f"kept as beam {node.beam}" if node.beam is not None else node.fate
            if node.fate == "ended":
                fate = f"ended, score {node.score:.4f}"
            numbers = f"{_number(node.log_probability):>8}{_number(node.total):>9}"
            lines.append(f"  {left(self._begun(node), _TEXT)} {left(cut(node.token, 11), 12)}{numbers}  {fate}")
        return "\n".join(lines)

    def _begun(self, node: Node) -> str:
        """The last tokens before a candidate, as many as there is room for."""
        path = self.path(node.parent) if node.parent >= 0 else ["(start)"]
        if cell_len(" ".join(path)) <= _TEXT:
            return " ".join(path)
        while len(path) > 1 and cell_len(" ".join(["…", *path])) > _TEXT:
            path = path[1:]
        return " ".join(["…", *path])

    def _why(self) -> str:
        lines = ["answers, by their score = total / penalty, penalty = ((5 + length) / 6)^alpha"]
        lines.append(f"  {'score':>8}{'total':>9}{'length':>8}{'penalty':>9}  text")
        for it in self.answers:
            mark = "" if it.finished else "  (cut off)"
            numbers = f"{it.score:>8.4f}{it.total:>9.4f}{it.length:>8}{it.penalty:>9.4f}"
            lines += folded(f"  {numbers}  ", it.text.replace("\n", "\\n") + mark)
        return "\n".join([*lines, *self.verdict()])

    def verdict(self) -> list[str]:
        """Why the first answer is the first, in a sentence."""
        if len(self.answers) < 2:
            return ["It is the only one." if self.answers else "There is none."]
        first, second = self.answers[:2]
        if first.finished != second.finished:
            return ["The first came to its end; what was cut off only fills up."]
        likelier = [(place, it) for place, it in enumerate(self.answers, start=1) if it.total > first.total]
        rivals = [(place, it) for place, it in likelier if it.finished == first.finished]
        if not rivals:
            ahead = first.total - second.total
            if likelier:
                return [f"Of those that came to their end the first is the likeliest, by {ahead:.4f}."]
            return [f"The first is the likeliest of them: its total leads the second's by {ahead:.4f}."]
        place, rival = rivals[0]
        name = "The second" if place == 2 else f"Number {place}"
        behind = rival.total - first.total
        return [f"{name} is likelier by {behind:.4f}, but shorter: the penalty for length puts the first in front."]


def _number(value: float) -> str:
    """With three digits, and without the sign of what is rounded to 0."""
    return f"{round(value, 3) + 0.0:.3f}"
