"""Plot validation BLEU against training minutes for one or more runs, and print it as a table.

    python benchmarks/bleu_against_minutes.py runs/tatoeba-15m runs/tatoeba-60m --out docs/images/bleu.png

The scores come from the evaluations during training, which decode greedily on the held-out part of the training file.
"""

import argparse
from pathlib import Path

from matplotlib.figure import Figure

from clearhead.folder.checkpoint import METRICS
from clearhead.training.report.metrics import read_metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.subplots()
    for run in options.runs:
        records = [it for it in read_metrics(run / METRICS) if "valid_bleu" in it and "averaged" not in it]
        minutes, bleu = [r["seconds"] / 60 for r in records], [r["valid_bleu"] for r in records]
        axes.plot(minutes, bleu, marker="o", markersize=4, label=run.name)
        print(f"\n| {run.name}: minutes | step | BLEU | loss |\n|---|---|---|---|")
        for record, at in zip(records, minutes):
            print(f"| {at:.1f} | {record['step']:,} | {record['valid_bleu']:.2f} | {record['valid_loss']:.3f} |")
    axes.set(
        xlabel="minutes of training",
        ylabel="BLEU on the held-out part (greedy)",
        xlim=0,
        ylim=0,
        title="English-French on two cores",
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, dpi=150)


if __name__ == "__main__":
    main()
