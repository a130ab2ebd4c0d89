"""Shared drawing code: off-screen figures, colours, fonts, and tokens as axis labels."""

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..config.messages import say
from ..errors import ClearheadError, ConfigError
from ..folder.atomic import save_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, PALE, STRONG, WARM = "#22272e", "#8b949e", "#b9cbe4", "#1f4e8c", "#c2571a"
_STYLE: dict[str, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e9edf2",
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.dpi": 150,
    "svg.hashsalt": "clearhead",  # makes SVG files reproducible
}
# Fallback fonts for scripts that the default font lacks: Chinese, Japanese, Korean, Arabic, Hindi, emoji.
_WIDE_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "WenQuanYi Zen Hei",
    "Noto Sans Arabic", "Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Telugu",
    "Noto Sans Thai", "Noto Sans Ethiopic", "Noto Emoji", "Segoe UI Emoji",
)  # fmt: skip
_LONGEST = 16_000  # pixels per side; the renderer rejects more than 65,536
_MISSING = re.compile(r"Glyph (\d+) .*missing from")


@contextmanager
def drawing(
    path: Path | None,
    *,
    again: str = "run the command again",
    layout: Literal["constrained", "compressed"] = "constrained",
    tight: bool = True,
) -> Iterator["Figure"]:
    """Yield an empty figure and write it to `path` at the end of the `with` block.

    Args:
        path: ".svg" writes an SVG file, any other ending a PNG file. None writes nothing.
        again: what the user should do if the disk was full.
        layout: matplotlib's layout engine.
        tight: crop the picture to its content.

    Raises:
        ConfigError: matplotlib isn't installed.
        TrainingError: the file can't be written.
    """
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
        from matplotlib.font_manager import fontManager
    except ClearheadError:  # a signal, whose handler raises it wherever the program is
        raise
    except Exception as error:  # a broken installation, or a wrong MPLBACKEND
        missing = isinstance(error, ModuleNotFoundError) and error.name == "matplotlib"
        what, again = ("isn't installed", "") if missing else (f"can't be loaded: {error}", ", or correct MPLBACKEND")
        what = f"can't draw {path or 'a figure'}: matplotlib {what}"
        raise ConfigError(what, fix=f"install it with: pip install matplotlib{again}", name="matplotlib") from error
    installed = set(fontManager.get_font_names())
    fonts = ["DejaVu Sans", *(name for name in _WIDE_FONTS if name in installed)]
    with matplotlib.style.context(["default", _STYLE | {"font.family": fonts}]):
        figure = Figure(layout=layout)
        yield figure
        if path is None:
            return
        with _missing_glyphs_reported(), io.BytesIO() as drawn:
            kind = "svg" if path.suffix.lower() == ".svg" else "png"
            dpi = min(figure.dpi, _LONGEST / max(figure.get_size_inches()))
            box, about = "tight" if tight else None, {"Date": None} if kind == "svg" else None
            figure.savefig(drawn, format=kind, dpi=dpi, bbox_inches=box, pad_inches=0.15, metadata=about)
            data = drawn.getvalue()
    save_file(path, data, again)


@contextmanager
def _missing_glyphs_reported() -> Iterator[None]:
    """Report all characters that no font has in one message, instead of a matplotlib warning for each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    missing = {chr(int(found[1])) for it in caught if (found := _MISSING.match(str(it.message)))}
    for it in caught:
        if not _MISSING.match(str(it.message)):
            warnings.warn_explicit(it.message, it.category, it.filename, it.lineno)
    if seen := "".join(sorted(it for it in missing if it.isprintable() and not it.isspace())):
        import matplotlib

        some = seen if len(seen) <= 20 else f"{seen[:20]}…"
        say(
            f"no installed font has {some}, so the picture shows empty boxes; install one, such as Noto Sans CJK, Noto "
            f"Sans Arabic or Noto Emoji, and delete matplotlib's font cache in {matplotlib.get_cachedir()}"
        )


def separate_cells(panel: "Axes", shape: tuple[int, ...], *, lines: bool) -> None:
    """Remove the frame and the grid of a picture of cells.

    Args:
        panel: the picture.
        shape: the numbers of rows and columns.
        lines: draw thin white lines between the cells.
    """
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)
    panel.tick_params(which="both", length=0)
    if lines:
        panel.set_xticks(np.arange(shape[1] + 1) - 0.5, minor=True)
        panel.set_yticks(np.arange(shape[0] + 1) - 0.5, minor=True)
        panel.grid(which="minor", color="white", linewidth=0.6)


def tick_pieces(
    panel: "Axes", cell: float, source: Sequence[str], target: Sequence[str], *, right: bool = False
) -> None:
    """Label the columns with source pieces and the rows with target pieces.

    If the cells are too small for text, only every n-th one is labelled.

    Args:
        panel: the picture of cells.
        cell: the width of a cell in inches.
        source: a label for each column, or none.
        target: a label for each row, or none.
        right: label the rows on the right instead of the left.
    """
    size = min(10.0, max(5.0, 0.62 * 72 * cell))  # points
    every = math.ceil(1.15 * size / (72 * cell))
    panel.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    if right:
        panel.tick_params(right=True, labelright=True, left=False, labelleft=False)
    panel.tick_params(which="both", length=0)
    above: dict[str, Any] = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
    for pieces, axis, style in ((source, panel.xaxis, above), (target, panel.yaxis, {})):
        shown = range(0, len(pieces), every)
        axis.set_ticks(shown, [readable(pieces[n]) for n in shown], fontsize=size, parse_math=False, **style)


def readable(text: str, longest: int = 16) -> str:
    """Return a text on one line, with unprintable characters escaped, cut to `longest` characters."""
    seen = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"
