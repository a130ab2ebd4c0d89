"""Search tree of a decoding run: every candidate at every step, with its score and fate."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from rich.cells import cell_len
from torch import nn

from ...decode.beams import Hypothesis, SearchStep
from ...decode.session import Session
from ..record.parts import stacks
from ..record.uncompiled import uncompiled
from .text_columns import cut, folded, left, preformatted, with_note

_TEXT = 24  # columns for a hypothesis; longer ones are cut at the start


@dataclass(frozen=True)
class Node:
    """A candidate: a token that extends its parent's hypothesis. The parent of the first tokens is -1.

    Hypotheses are ranked by `total`, answers by `score`, the total divided by the length penalty.
    """

    number: int
    parent: int
    step: int  # from 1
    id: int
    token: str
    log_probability: float
    total: float
    score: float
    fate: str  # "kept" as a beam, "ended" as an answer, "dropped"
    beam: int | None  # the beam that it becomes


@dataclass(frozen=True)
class SearchAnswer:
    """An answer. `node` is the node of its last token, `total` its log-probability minus repetition penalties."""

    node: int | None
    text: str
    log_probability: float
    total: float
    length: int  # in tokens, including the end token
    penalty: float  # ((5 + length) / 6)^alpha
    score: float
    finished: bool


@dataclass
class SearchTree:
    """The search for one source. Pass `observe` to the search, then call `finish` with its answers.

    Attributes:
        spell: converts a token id to text.
        penalty: returns the length penalty for a number of tokens.
        answers: the answers, best first.
        cache_lengths: number of tokens in each beam's cache before a step.
        note: remarks about the run.
    """

    spell: Callable[[int], str]
    penalty: Callable[[int], float]
    nodes: list[Node] = field(default_factory=list)
    answers: list[SearchAnswer] = field(default_factory=list)
    cache_lengths: list[int] = field(default_factory=list)
    note: str = ""
    _beams: list[int] = field(default_factory=lambda: [-1])  # the node of each live beam

    @classmethod
    def of(cls, session: Session, pieces: Callable[[Iterable[int]], list[str]]) -> Self:
        """Return the tree of a search that a session is about to run."""
        return cls(lambda i: pieces([i])[0], lambda n: float(session.rules.penalty(n)))

    def observe(self, step: SearchStep) -> None:
        """Record a step of a search for one source."""
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
                id=int(step.tokens[0, column]),
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
        """Record the length of the decoder's cache before each step inside the `with` block.

        The model runs uncompiled, like the pass in the trace shown with the search.
        """

        def hook(_decoder: nn.Module, _inputs: Any, options: dict[str, Any]) -> None:
            if options.get("cache") is not None:
                self.cache_lengths.append(options["cache"].length)

        decoder = stacks(model)["decoder"]
        try:
            with decoder.register_forward_pre_hook(hook, with_kwargs=True), uncompiled(model):
                yield
        finally:
            self.cache_lengths = self.cache_lengths[len(self.cache_lengths) - len(self.steps) :]  # without the prompt's

    def finish(self, hypotheses: Sequence[Hypothesis], text: Callable[[Sequence[int]], str]) -> Self:
        """Add the answers, best first. Return the tree."""
        ends = {(node.fate, *_tokens(self.path(node.number))): node.number for node in self.nodes}
        for it in hypotheses:
            length = len(it.token_log_probabilities)
            spelt = tuple(self.spell(i) for i in it.ids)
            ended = (number for path, number in ends.items() if path[0] == "ended" and spelt in (path[1:-1], path[1:]))
            node = next(ended, None) if it.finished else ends.get(("kept", *spelt))
            penalty = self.penalty(length)
            total = it.score * penalty
            found = SearchAnswer(node, text(it.ids), it.log_probability, total, length, penalty, it.score, it.finished)
            self.answers.append(found)
        return self

    def path(self, number: int) -> list[Node]:
        """Return the nodes from the start to a node."""
        found: list[Node] = []
        while number >= 0:
            found.append(self.nodes[number])
            number = found[-1].parent
        return found[::-1]

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
        nodes, answers = [asdict(it) for it in self.nodes], [asdict(it) for it in self.answers]
        return {"nodes": nodes, "answers": answers, "cache_lengths": self.cache_lengths}

    def _repr_html_(self) -> str:
        return preformatted(self.render())

    def render(self) -> str:
        """Render the search step by step in 80 columns, then its answers and why the first one won."""
        blocks = [self._step(number, nodes) for number, nodes in enumerate(self.steps)]
        return with_note("\n\n".join([*blocks, self._why()]), self.note)

    def _step(self, number: int, nodes: Sequence[Node]) -> str:
        held = f": each beam's cache grows from {self.cache_lengths[number]} to {self.cache_lengths[number] + 1} tokens"
        lines = [f"step {number + 1}{held if number < len(self.cache_lengths) else ''}"]
        lines.append(f"  {'hypothesis':<{_TEXT}} {'token':<12}{'log p':>8}{'total':>9}  fate")
        for node in nodes:
            fate = f"kept as beam {node.beam}" if node.beam is not None else node.fate
            if node.fate == "ended":
                fate = f"finished, score {node.score:.4f}"
            numbers = f"{_number(node.log_probability):>8}{_number(node.total):>9}"
            lines.append(f"  {left(self._hypothesis(node), _TEXT)} {left(cut(node.token, 11), 12)}{numbers}  {fate}")
        return "\n".join(lines)

    def _hypothesis(self, node: Node) -> str:
        """Return the tokens before a candidate, cut at the start to fit the column."""
        path = _tokens(self.path(node.parent)) or ["(start)"]
        if cell_len(" ".join(path)) <= _TEXT:
            return " ".join(path)
        while len(path) > 1 and cell_len(" ".join(["…", *path])) > _TEXT:
            path = path[1:]
        return " ".join(["…", *path])

    def _why(self) -> str:
        lines = ["answers by score = total / penalty, where penalty = ((5 + length) / 6)^alpha"]
        lines.append(f"  {'score':>8}{'total':>9}{'length':>8}{'penalty':>9}  text")
        for it in self.answers:
            mark = "" if it.finished else "  (cut off)"
            numbers = f"{it.score:>8.4f}{it.total:>9.4f}{it.length:>8}{it.penalty:>9.4f}"
            lines += folded(f"  {numbers}  ", it.text.replace("\n", "\\n") + mark)
        return "\n".join([*lines, *self.verdict()])

    def verdict(self) -> list[str]:
        """Explain in one sentence why the first answer won."""
        if len(self.answers) < 2:
            return ["It's the only answer." if self.answers else "There are no answers."]
        first, second = self.answers[:2]
        if first.finished != second.finished:
            return ["The first answer is finished. Answers that were cut off come last."]
        better = [(rank, it) for rank, it in enumerate(self.answers, start=1) if it.total > first.total]
        rivals = [(rank, it) for rank, it in better if it.finished == first.finished]
        if not rivals:
            lead = first.total - second.total
            if better:
                return [f"Among finished answers, the first has the highest total, by {lead:.4f}."]
            return [f"The first answer has the highest total, {lead:.4f} above the second's."]
        rank, rival = rivals[0]
        lead = rival.total - first.total
        return [f"Answer {rank}'s total is higher by {lead:.4f}, but it's shorter: the length penalty decides."]


def _tokens(path: Sequence[Node]) -> list[str]:
    return [it.token for it in path]


def _number(value: float) -> str:
    """Format a number with three decimals. Zero has no minus sign."""
    return f"{round(value, 3) + 0.0:.3f}"
