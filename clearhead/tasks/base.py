"""What the trainer, the command line and a notebook may ask of a task, whatever it learns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from ..config import Config, DecodeConfig
from ..data.batches import Plan
from ..data.encoding import Encoded
from ..readers.skipped import Skipped
from ..scoring.resampling import FloatArray
from ..scoring.significance import Comparison
from ..tokenization.ragged import IntArray, Ragged
from ..tokenization.tokenizer import Tokenizers
from .examples import Examples


@dataclass(frozen=True)
class Units:
    """What a task's examples are called, what an epoch is measured in, and what an answer is called, and what is
    answered."""

    examples: str
    tokens: str
    answer: str
    sources: str = "sources"


class Learnable(Protocol):
    """Examples as tokens, on two sides; what these mean is the task's affair."""

    def __len__(self) -> int: ...

    @property
    def tokens(self) -> int:
        """The size of an epoch."""

    @property
    def sides(self) -> tuple[Ragged, Ragged]:
        """Both, as a store keeps them."""

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Plan:
        """Their batches, of any epoch."""


class Scorable(Protocol):
    """What is held out."""

    @property
    def examples(self) -> Learnable:
        """As tokens, for the loss."""

    @property
    def too_long(self) -> list[Skipped]:
        """What the loss leaves out."""

    @property
    def cut(self) -> int:
        """How many texts the model can read only the beginning of."""

    @property
    def sources(self) -> Sequence[str]:
        """What is answered, each once."""

    @property
    def references(self) -> Sequence[Sequence[str]]:
        """What would be right, of each source; none where texts are scored and not answered."""


class Scores(Protocol):
    """All scores of some answers."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, by the names that `shown.LABELS` has words for."""


@dataclass(frozen=True)
class Judged:
    """Answers and their scores. `singly` scores each answer by itself: by the first of those scores the best and the
    worst are told apart. Where a text is scored and not answered, there are neither answers nor references. `details`
    are further lines for people."""

    scores: Scores
    sources: Sequence[str]
    answers: Sequence[str]
    references: Sequence[Sequence[str]]
    singly: Callable[[], Mapping[str, FloatArray]]
    details: str = ""


class Cutter(Protocol):
    """What makes tokens of data."""

    def each(self, chunks: Iterable[Any], count: int, processes: int) -> Iterator[Encoded]:
        """Of each chunk of data that are `count` examples in all, in so many processes where it pays."""


class Task(Protocol):
    """What is learnt: examples, loss, answers and their scores."""

    tokenizers: Tokenizers
    config: Config

    @property
    def units(self) -> Units:
        """The words for its examples."""

    @property
    def longest(self) -> tuple[int, str]:
        """The most tokens a side of what is trained on, and the setting that says so."""

    @property
    def encoder(self) -> Cutter:
        """What makes tokens of its data."""

    def examples(self, sides: tuple[Ragged, Ragged]) -> Learnable:
        """What a store holds, as examples."""

    def hold_out(self, data: Any) -> Scorable:
        """Prepare data for scoring; its examples are those of `units`, as its reader gives them."""

    def loss(self, model: nn.Module, examples: Any, rows: IntArray, *, smoothing: float) -> Tensor:
        """The loss of some examples, summed over what is predicted."""

    def evaluate(self, model: Any, held_out: Any, decode: DecodeConfig) -> Judged:
        """Answer what was held out, and score it."""

    def numbers(self, scores: Any) -> dict[str, float]:
        """What the log keeps and the best weights may be chosen by, `loss` among it where there is one."""

    def compare(self, systems: Sequence[tuple[str, Judged]]) -> Comparison:
        """Several models on the same data, with what chance may do."""

    def expect_search(self, model: Any) -> None:
        """Raise an error where the settings of the search are none for this model and vocabulary."""


class CutsAnew(Protocol):
    """A task whose texts may be cut into other subwords each epoch (`data.subword_dropout`)."""

    def fresh(self, examples: Examples) -> Callable[[int], Examples]:
        """What cuts these examples anew for an epoch."""
