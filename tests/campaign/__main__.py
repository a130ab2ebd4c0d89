"""Run trials for some minutes, and print one table: `python -m tests.campaign --minutes 30`.

The record of all trials is a file, to which the next run adds. A failure is printed with the command that repeats it.
"""

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .disks import FullDisks
from .inputs import Calls, Checkpoints, Files, Flips, Folders, Lines, Options, Toml
from .kills import kills
from .server import Requests
from .trials import Kind, Outcome

_TURN = 20.0  # seconds after which another kind has its turn
_VERDICTS = ("right", "wrong", "traceback", "crash", "hang")


def kinds() -> list[Kind]:
    """Return all kinds of trials."""
    return [
        *kills(), Files(), Lines(), Options(), Toml(), Calls(), Folders(), Checkpoints(), Requests(), FullDisks(),
        Flips(),
    ]  # fmt: skip


def main() -> int:
    options = _options()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ.setdefault("MPLBACKEND", "Agg")
    import torch  # noqa: F401 - before the first child is forked, so that none imports it again

    import clearhead.training.run  # noqa: F401

    chosen = [kind for kind in kinds() if not options.only or kind.name in options.only]
    if not chosen:
        print(f"no such kind; there are {', '.join(kind.name for kind in kinds())}", file=sys.stderr)
        return 2
    if options.trial is not None:
        return _repeat(chosen[0], options.trial, options.seed, folder)
    record = folder / f"trials-{options.seed}.jsonl"
    outcomes = [Outcome(**json.loads(line)) for line in record.read_text().splitlines()] if record.exists() else []
    _run(chosen, outcomes, record, folder, options)
    print(table(outcomes))
    return int(any(it.verdict != "right" for it in outcomes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="KIND", help="run these kinds of trials only")
    parser.add_argument("--trial", type=int, help="repeat one trial of the kind that --only names")
    parser.add_argument("--folder", type=Path, default=Path("runs/campaign"))
    return parser.parse_args()


def _repeat(kind: Kind, number: int, seed: int, folder: Path) -> int:
    if reason := kind.prepare(folder / kind.name):
        print(f"{kind.name}: {reason}", file=sys.stderr)
        return 2
    [outcome] = kind.trials([number], seed)
    print(f"{kind.name} {number}: {outcome.verdict}\n{outcome.detail}")
    return int(outcome.verdict != "right")


def _run(
    chosen: Sequence[Kind], outcomes: list[Outcome], record: Path, folder: Path, options: argparse.Namespace
) -> None:
    """Give each kind its share of the time."""
    end = time.monotonic() + 60 * options.minutes
    ready, spent = dict[str, bool](), {kind.name: 0.0 for kind in chosen}
    with record.open("a") as file:
        while time.monotonic() < end and (left := [kind for kind in chosen if ready.get(kind.name, True)]):
            kind = min(left, key=lambda it: spent[it.name] / it.weight)
            begun = time.monotonic()
            if kind.name not in ready:
                reason = kind.prepare(folder / kind.name)
                ready[kind.name] = not reason
                if reason:
                    print(f"{kind.name}: skipped, {reason}", flush=True)
                    continue
            first = max((it.number for it in outcomes if it.kind == kind.name), default=-1) + 1
            turn = min(end, time.monotonic() + _TURN)
            for outcome in kind.trials(_until(turn, first), options.seed):
                outcomes.append(outcome)
                file.write(f"{outcome.line()}\n")
                file.flush()
                if outcome.verdict != "right":
                    command = (
                        f"python -m tests.campaign --seed {options.seed} --only {kind.name} --trial {outcome.number}"
                    )
                    print(f"{outcome.verdict}: {command}\n  {outcome.detail}", flush=True)
            spent[kind.name] += time.monotonic() - begun


def _until(end: float, first: int) -> Iterator[int]:
    """Yield numbers until a time is over, and at least one."""
    yield first
    for number in itertools.count(first + 1):
        if time.monotonic() >= end:
            return
        yield number


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a row for each kind, and sums of the kinds that count the same: kills, hostile inputs, flipped bits."""
    counted = {kind.name: kind.counts for kind in kinds()}
    groups = {name: [it for it in outcomes if it.kind == name] for name in counted}
    for what in dict.fromkeys(counted.values()):
        groups[f"all {what}"] = [it for it in outcomes if counted.get(it.kind) == what]
    rows = [("", "trials", "count", *_VERDICTS[1:])]
    for name, some in groups.items():
        if some:
            verdicts = (sum(it.verdict == verdict for it in some) for verdict in _VERDICTS[1:])
            rows.append((name, f"{len(some):,}", f"{sum(it.count for it in some):,}", *map(str, verdicts)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
