"""Diagnose a run: call all probes, and collect what they found."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...config.values import counted
from .causes import Diagnosis, Finding
from .data_probes import data_probes
from .diagnosed_run import Subject, opened
from .log_probes import log_probes
from .model_probes import model_probes
from .trials import trial_probes

Probe = Callable[[Subject], Iterator[Finding]]
_NEEDS_DATA = "the training data can't be read: {}"
_NEEDS_WEIGHTS = "the run has saved no weights yet"


def diagnose(path: Path, files: Sequence[str] = (), *, allow_custom_code: bool = False) -> Diagnosis:
    """Return why a finished or an unfinished run learned less than it could have. The folder isn't changed.

    Args:
        path: the folder of the run.
        files: the training data (default: the files that the run recorded).
        allow_custom_code: import custom classes that the folder names.

    Raises:
        ModelError: this isn't the folder of a run, or it's damaged.
        DataError: `files` can't be read.
    """
    findings, unmeasured = list[Finding](), dict[str, str]()
    with opened(path, files, allow_custom_code) as subject:
        for name, probe, needs_data, needs_weights in PROBES:
            if needs_data and subject.data is None:
                unmeasured[name] = _NEEDS_DATA.format(subject.why)
            elif needs_weights and subject.weights is None:
                unmeasured[name] = _NEEDS_WEIGHTS
            else:
                found = list(probe(subject))
                findings += found
                if not found:
                    unmeasured[name] = f"not for {subject.task.verb} with these settings" if name != "log" else "no log"
        return Diagnosis(str(path), _about(subject), findings, unmeasured)


PROBES: Sequence[tuple[str, Probe, bool, bool]] = (
    ("log", log_probes, False, False),
    ("data", data_probes, True, False),
    ("model", model_probes, False, True),
    ("short trainings", trial_probes, True, False),
)


def _about(subject: Subject) -> str:
    steps = subject.losses[-1][0] if subject.losses else 0
    state = "" if subject.finished else ", not finished"
    loss = f", validation loss {subject.reached:.3f}" if subject.reached is not None else ""
    return f"{subject.task.verb}, {counted(steps, 'steps')}{state}{loss}"
