"""`clearhead bench`: measure how fast models train on this machine, or how fast one decodes."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...config.messages import say
from ..models import add_search_options, open_model
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb
from ..setting_options import given_settings
from .env import processor

if TYPE_CHECKING:
    from ...apps.bench.decoding import Rate
    from ...apps.bench.machine import Machine
    from ...apps.bench.training import TrainingRate, TrainingSpeed


def _add_options(parser: Parser) -> None:
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help="model folder (default: measure how fast models train instead)"
    )
    parser.add_value("--preset", "NAME", "sizes of the models to train (default: nano small base)", nargs="+")
    add_search_options(parser, search=())
    parser.add_flag("--json", "print the rates as JSON")


def _run(options: Options) -> None:
    if options.folder is None:
        _run_training(options)
        return
    if options.preset is not None:
        what = "--preset is for training, but DIR is a trained model"
        raise UsageError(what, fix="leave out one of them", name="--preset", value=options.preset)
    _run_decoding(options)


# --- training -----------------------------------------------------------------------------------------------------


def _run_training(options: Options) -> None:
    from ...apps.bench.training import PRESETS, measure
    from ...config import Config
    from ...training.choices.hyperparameters import choose_machine

    machine, _ = choose_machine(Config().override(given_settings(options)))
    report = measure(options.preset or PRESETS, machine.train)
    commands = {it.preset: _command(it) for it in report.fastest}
    if options.json:
        print(to_json({"format_version": 1, "processor": processor(), **asdict(report), "recommended": commands}))
        return
    print(_limits(report))
    print(_training_table(report))
    print("\n".join(["", "The fastest way to train each preset:", *commands.values()]))


def _command(rate: "TrainingRate") -> str:
    """Return a command that trains with the same threads, processes and precision."""
    way = rate.arrangement
    count = f"--processes {way.processes}" if way.processes > 1 else f"--threads {way.threads}"
    return f"clearhead train FILE --out DIR --preset {rate.preset} {count} --train.precision={rate.precision}"


def _limits(report: "TrainingSpeed") -> str:
    """Return a table of the machine's limits."""
    machines = report.machines
    rows = [(f"multiply in {it}, GFLOP/s", [each.products[it] for each in machines]) for it in ("fp32", "bf16")]
    rows.append(("read memory, GB/s", [it.read["fp32"] for it in machines]))
    rows.append(("copy memory, GB/s", [it.copy for it in machines]))
    lines = [f"{processor()}, {report.device}"]
    if report.others >= 0.1:
        lines[0] += f"; other programs use {report.others:.1f} cores, so measure again when they have ended"
    lines += ["", f"{'':<24}" + "".join(f"{_threads(it.threads):>18}" for it in machines)]
    lines += [f"{name:<24}" + "".join(f"{it / 1e9:>18,.0f}" for it in row) for name, row in rows]
    return "\n".join([*lines, ""])


def _training_table(report: "TrainingSpeed") -> str:
    """Return target tokens per second, and shares of the limits."""
    ways = [it.arrangement for it in report.rates[0]]
    names = [f"{it.processes} processes" if it.processes > 1 else _threads(it.threads) for it in ways]
    rows = [(f"{row[0].preset} {row[0].precision}", [(it.tokens, it.share) for it in row]) for row in report.rates]
    shares = "Percentages are shares of the limit of multiplying, for 6 operations per weight and token."
    return "\n".join([*_table(f"{'target tokens per second':<24}", names, rows), "", shares])


def _table(title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> list[str]:
    """Return a row of names, and rows of rates and shares."""
    lines = [title + "".join(f"{name:>18}" for name in names)]
    for name, row in rows:
        lines.append(f"{name:<{len(title)}}" + "".join(f"{rate:>12,.0f} {share:>5.0%}" for rate, share in row))
    return lines


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


# --- decoding -----------------------------------------------------------------------------------------------------


def _run_decoding(options: Options) -> None:
    app, _ = open_model(options, one_answer=True)
    from ...apps.bench.decoding import CELLS, best, chosen, measure, step_weights
    from ...apps.bench.machine import Machine

    machine = Machine.measure(step_weights(app.loaded))
    rows = list(measure(app.loaded, machine, say))
    rates = [rate for row in rows for rate in row]
    auto, fastest = chosen(app.loaded), best(rates)
    if options.json:
        limits = asdict(machine)
        values = {"format_version": 1, "weights_per_step": limits.pop("n_weights"), "machine": limits}
        values |= {"rates": [asdict(rate) for rate in rates], "auto": auto}
        print(to_json(values | {"fastest": {"engine": fastest.engine, "precision": fastest.precision}}))
        return
    print(_about(machine))
    names = [f"beam {beam}, batch {batch}" for beam, batch in CELLS]
    shares = [(f"{row[0].engine} {row[0].precision}", [(it.tokens, min(it.share, 1)) for it in row]) for row in rows]
    print("\n".join(_table(f"{'tokens per second':<18}", names, shares)))
    print("\nPercentages are shares of what the machine could do.")
    print(_advice(options.folder, app.task.verb, auto, fastest))


def _about(machine: "Machine") -> str:
    products = ", ".join(f"{speed / 1e9:,.0f} in {name}" for name, speed in machine.products.items())
    read = f"{machine.read['fp32'] / 1e9:,.0f} GB/s with {_threads(machine.threads)}"
    return (
        f"a step reads {machine.n_weights:,} weights: {read}\n"
        f"and multiplies them: {products} (billions of operations per second)\n"
    )


def _advice(folder: str, verb: str, auto: str, fastest: "Rate") -> str:
    use = f"clearhead {verb} {folder}"
    lines = [f"{use} --engine {auto}   (chosen by default)"]
    if (fastest.engine, fastest.precision) != (auto, "fp32"):
        precision = f" --precision {fastest.precision}" * (fastest.precision != "fp32")
        changes = ", some answers differ" * (fastest.precision != "fp32" or fastest.engine == "ct2")
        lines.append(f"{use} --engine {fastest.engine}{precision}   (the fastest for files{changes})")
    return "\n".join(lines)


VERB = Verb(
    name="bench",
    summary="measure how fast models train and decode on this machine",
    usage="[DIR] [options]",
    examples=("clearhead bench", "clearhead bench --preset nano mini --json", "clearhead bench models/en-fr"),
    add_options=_add_options,
    run=_run,
)
