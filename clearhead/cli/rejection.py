"""Mark answers that a model isn't confident of, with `--reject-below` or `--error-rate`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..config.messages import say
from .parser import Options, Parser, UsageError

if TYPE_CHECKING:
    from ..api import App

MARK = "?"
_NAMES = ("--reject-below", "--error-rate")


def add_rejection_options(parser: Parser) -> None:
    """Add the options for marking answers."""
    text = f'print "{MARK}" in place of answers with a lower confidence: a share such as 0.9 or 90%%'
    parser.add_value(_NAMES[0], "P", text, type=_share(_NAMES[0]))
    text = "like --reject-below, with the lowest confidence that keeps validation errors at this rate, such as 2%%"
    parser.add_value(_NAMES[1], "P", text, type=_share(_NAMES[1]))


@dataclass(frozen=True)
class Rejection:
    """Rejects answers below a confidence."""

    least: float

    @classmethod
    def of(cls, options: Options, app: "App") -> "Rejection | None":
        """Return the rejection that the options ask for, if any, and print what it means.

        Raises:
            UsageError: both options are given, or the model's confidence is unknown.
            DataError: no confidence has this error rate.
        """
        below: float | None = vars(options).get("reject_below")
        rate: float | None = vars(options).get("error_rate")
        name = _NAMES[below is None]
        if below is not None and rate is not None:
            raise UsageError(f"{_NAMES[0]} can't be combined with {_NAMES[1]}", fix="use one of them", name=name)
        if below is None and rate is None:
            return None
        if app.confidence is None:
            what = f"{name} needs calibrated confidence, which {app.path} doesn't have"
            fix = f"calibrate it on data with right answers: clearhead evaluate {app.path} --data FILE --calibrate"
            if app.config.data.label_kind == "number":
                what, fix = f"{name} needs confidence, and a number has none", "leave it out"
            raise UsageError(what, fix=fix, name=name)
        if rate is None:
            return cls(below or 0.0)
        found = app.confidence.threshold(rate)
        interval = f"95% interval {found.low:.2%} to {found.high:.2%}"
        say(
            f"answers with a confidence below {found.confidence:.4f} are replaced by {MARK}; {found.accepted:.1%} of "
            f"{found.total:,} validation answers reach it, with an error rate of {found.error:.2%} ({interval})"
        )
        return cls(found.confidence)

    def __call__(self, record: Any) -> bool:
        """Return whether the answer is rejected. Answers to blank texts have no confidence, and are kept."""
        return record.confidence is not None and record.confidence < self.least

    def marked(self, record: Any) -> dict[str, Any]:
        """Return a record for JSON, which says whether the answer is rejected."""
        return {**record.to_dict(), "rejected": self(record)}

    def said(self, count: int) -> str:
        """Return a sentence on the number of rejected answers."""
        return f"{count:,} answer{'s' * (count != 1)} rejected, with a confidence below {self.least:.4g}"


def rejects(options: Options) -> bool:
    """Return whether uncertain answers are to be rejected."""
    return options.reject_below is not None or options.error_rate is not None


def _share(option: str) -> Any:
    def share(text: str) -> float:
        digits, percent = text.removesuffix("%"), text.endswith("%")
        try:
            found = float(digits) / (100 if percent else 1)
        except ValueError:
            found = -1.0
        if not 0 < found < 1:
            raise UsageError(
                f"{option} {text} isn't valid",
                expected="a share above 0 and below 1, or above 0% and below 100%",
                name=option,
                value=text,
            )
        return found

    return share
