"""Plain HTML pages: without scripts or anything to load, in light and dark."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
body { color: #1d2430; background: #fff }
h2 { margin-top: 3rem } pre { background: #f3f5f8; padding: .6rem .8rem; overflow-x: auto }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
td, th { padding: .1rem .4rem; text-align: right; font: 13px monospace }
.scroll { overflow-x: auto }
.texts :is(td, th) { text-align: left; vertical-align: top; padding-right: 1rem }
.texts td:last-child { overflow-wrap: anywhere; min-width: 6rem }
caption { text-align: left; color: #556 } .passed { color: #17702f } .failed { color: #b3261e } .to { color: #667 }
nav li { font-variant-numeric: tabular-nums }
@media (prefers-color-scheme: dark) {
  body { color: #e4e8ee; background: #14181f } pre { background: #1f2530 } caption { color: #aab }
  .passed { color: #7bd88f } .failed { color: #ff8a80 } .to { color: #99a }
}
"""
_COLOURS = ("#1f6feb", "#c2410c")
_WIDTH, _HEIGHT = 640, 240


def document(heading: str, body: str) -> str:
    """Return a page as HTML."""
    title = escape(heading)
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>
<meta name="viewport" content="width=device-width, initial-scale=1"><body><main>
<h1>{title}</h1>{body}</main></body></html>
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    every = [*([("th", heads)] if heads else []), *(("td", row) for row in rows)]
    cells = ("".join(f"<{kind}>{escape(it)}</{kind}>" for it in row) for kind, row in every)
    rows_of_cells = "".join(f"<tr>{it}</tr>" for it in cells)
    return f'<div class="scroll"><table class="texts">{rows_of_cells}</table></div>'


def line_chart(lines: Mapping[str, Sequence[tuple[float, float]]], label: str) -> str:
    """Return lines as a picture, from 0 to the highest x and y, with their names and a label below.

    Args:
        lines: the points of each line, (x, y) >= 0, by name. There are at most two lines.
    """
    right, top = (max(point[axis] for line in lines.values() for point in line) or 1 for axis in (0, 1))
    found, names = list[str](), list[str]()
    for (name, line), colour in zip(lines.items(), _COLOURS):
        points = " ".join(f"{x / right * _WIDTH:.1f},{_HEIGHT - y / top * _HEIGHT:.1f}" for x, y in line)
        found.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
        names.append(f'<span style="color: {colour}">■</span> {escape(name)}')
    label = escape(label)
    drawn = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(found)}</svg>'
    return f"{drawn}<p>{' '.join(names)}<br>{label}</p>"
