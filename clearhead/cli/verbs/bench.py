"""`clearhead bench`: measure how fast a model decodes on this machine, by engine, precision, beam and batch."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...config.messages import say
from ..models import add_model_options, open_model
from ..output import to_json
from ..parser import Options, Parser, Verb

if TYPE_CHECKING:
    from ...apps.bench.decoding import Rate
    from ...apps.bench.machine import Machine


def _add_options(parser: Parser) -> None:
    add_model_options(parser, search=())
    parser.add_argument("--json", action="store_true", help="print the rates as JSON")


def _run(options: Options) -> None:
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
    print(_table(CELLS, rows))
    print(_advice(options.folder, app.task.verb, auto, fastest))


def _about(machine: "Machine") -> str:
    threads = f"{machine.threads} thread{'s' * (machine.threads > 1)}"
    products = ", ".join(f"{speed / 1e9:,.0f} in {name}" for name, speed in machine.products.items())
    return (
        f"a step reads {machine.n_weights:,} weights: {machine.read['fp32'] / 1e9:,.0f} GB/s with {threads}\n"
        f"and multiplies them: {products} (billions of operations per second)\n"
    )


def _table(cells: Sequence[tuple[int, int]], rows: Sequence[Sequence["Rate"]]) -> str:
    """Return tokens per second, and shares of the machine's limit."""
    names = [f"beam {beam}, batch {batch}" for beam, batch in cells]
    lines = [f"{'tokens per second':<18}" + "".join(f"{name:>18}" for name in names)]
    for row in rows:
        found = "".join(f"{it.tokens:>12,.0f} {min(it.share, 1):>5.0%}" for it in row)
        lines.append(f"{f'{row[0].engine} {row[0].precision}':<18}{found}")
    return "\n".join([*lines, "", "Percentages are shares of what the machine could do."])


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
    summary="measure how fast a model decodes on this machine",
    usage="DIR [options]",
    examples=("clearhead bench models/en-fr", "clearhead bench models/en-fr --json"),
    add_options=_add_options,
    run=_run,
)
