"""Choose the engine that workers answer with, by measured speed, while they answer.

Engines that can be exchanged have equal answers, so which one answers a line changes nothing but the time.
"""

import time
from collections.abc import Callable, Sequence

from ..input_lines import Answer, Place, Printed

_WORTH_A_CORE = 30.0  # seconds that the rest of the input must take for a worker to wait for a preparation
_LOOK = 0.5  # seconds between looks at whether it has ended
_LONG = 60.0  # seconds that the rest of the input must take before a slow start of another engine may pay
_END = 5  # characters that take as long as the end of an answer; the time depends on answers more than on lines
_FASTER = 0.9  # the share of the time that an engine may take at most to replace another one


class Engines:
    """The engine in use, and others that might be faster.

    An engine that another process prepares is used as soon as it's ready. Next to workers on all cores, this can take
    three times as long as with a core for itself. So if the rest of the input needs much time, one worker waits.

    Args:
        use: opens an engine in this process, from which workers are forked, and answers with it from now on. Returns
            its name. If it gets "", it chooses the one that's expected to be the fastest.
        rival: the name of an engine to compare with the chosen one, or "".
        is_preparing: returns whether another process prepares an engine.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        use: Callable[[str], str] = lambda name: name,
        rival: str = "",
        is_preparing: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._use, self.rival, self._is_preparing, self.clock = use, rival, is_preparing, clock
        self.in_use = ""
        """The name of the engine that this process answers with, and workers that are started now."""
        self.unread: Callable[[], int] = lambda: 0
        """Returns the number of bytes of input that aren't answered, as far as it's known."""
        self._prepares, self._sample_pace, self._chosen = False, 0.0, ""
        self._spent: dict[str, tuple[float, int, int]] = {}  # seconds of a worker, bytes of lines, work, by engine

    @property
    def patience(self) -> float | None:
        """The number of seconds to wait for an answer before asking again, or None."""
        return _LOOK if self._prepares else None

    def sample(self, answer: Answer, places: Sequence[Place]) -> list[Printed]:
        """Answer the first lines in this process, and measure how long that takes once the model is loaded."""
        self._choose("")
        begun = self.clock()
        found = answer(places)
        self._sample_pace = (self.clock() - begun) / max(1, n_bytes(places))
        self._prepares = self._is_preparing()
        return found

    def note(self, engine: str, places: Sequence[Place], answers: Sequence[Printed], seconds: float) -> None:
        """Record how long a worker took.

        Args:
            engine: the name of the engine it answered with.
            places: the lines that it answered.
            answers: their output, whose length tells how much was generated.
            seconds: the time from sending the lines to receiving the answers.
        """
        now = seconds, n_bytes(places), sum(len(it.text) + _END for it in answers)
        before = self._spent.get(engine, (0.0, 0, 0))
        self._spent[engine] = before[0] + now[0], before[1] + now[1], before[2] + now[2]

    def leaves_core(self, waiting: int) -> bool:
        """Return whether a worker should wait for a preparation. At least this many bytes wait to be answered."""
        return self._prepares and max(waiting, self.unread()) * self._sample_pace > _WORTH_A_CORE

    def next(self, waiting: int, workers: int) -> str:
        """Open the engine for a worker that's free, and return its name."""
        if self._prepares and not self._is_preparing():
            self._prepares = False
            self._choose("")
        seconds, size, work = self._spent.get(self._chosen, (0.0, 0, 0))
        if self.rival and self.rival != self._chosen and work:
            spent, _, done = self._spent.get(self.rival, (0.0, 0, 0))
            if done and spent / done < _FASTER * seconds / work:
                self._choose(self.rival)
            elif self.rival not in self._spent and max(waiting, self.unread()) * seconds / size > _LONG * workers:
                self._spent[self.rival] = 0.0, 0, 0  # one worker tries it
                return self._open(self.rival)
        return self._open(self._chosen)

    def _choose(self, name: str) -> None:
        self._chosen = self.in_use = self._use(name)

    def _open(self, name: str) -> str:
        if name != self.in_use:
            self.in_use = self._use(name)
        return self.in_use


def n_bytes(places: Sequence[Place]) -> int:
    """Return the number of bytes of these lines in a file."""
    return sum(len(line.text.encode("utf-8", "surrogatepass")) + 1 for _, line in places)
