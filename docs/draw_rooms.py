"""Draw the rooms of the package and what each imports, from the code: `python docs/draw_rooms.py` writes rooms.svg.

A room is a folder or a file at the top of the package. An arrow is an import; one that follows from others (a -> b -> c
makes a -> c) is left out.
"""

import ast
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, PICTURE = ROOT / "clearhead", ROOT / "docs" / "images" / "rooms.svg"
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 178, 54, 16, 30, 16
LETTERS = 29  # of a line in a box
GROUND = ("config", "errors")  # everything imports these: their arrows would say nothing


def rooms() -> dict[str, Path]:
    """Return the file or folder of each room by its name."""
    found = [path for path in sorted(PACKAGE.iterdir()) if path.suffix == ".py" or (path / "__init__.py").exists()]
    return {path.stem: path for path in found if path.stem not in ("__init__", "__main__", "version")}


def purpose(path: Path) -> str:
    """Return the first line of a room's docstring."""
    file = path / "__init__.py" if path.is_dir() else path
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]


def imports(path: Path) -> set[str]:
    """Return the rooms that the files of a room import, wherever in the file."""
    found = set()
    for file in path.rglob("*.py") if path.is_dir() else [path]:
        here = ("clearhead", *file.relative_to(PACKAGE).parts[:-1])
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = (*here[: len(here) - node.level + 1], *(node.module or "").split("."))
                names = [base] if len(base) > 1 and base[1] else [("clearhead", it.name) for it in node.names]
                found |= {name[1] for name in names}
    return found & rooms().keys() - {path.stem}


def arrows(needs: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return what each room imports, without what follows from other arrows."""

    def reached(room: str) -> set[str]:
        return needs[room] | {far for near in needs[room] for far in reached(near)}

    return {room: near - {far for it in near for far in reached(it)} for room, near in needs.items()}


def layers(needs: dict[str, set[str]]) -> list[list[str]]:
    """Return the rooms from the top down: each stands above everything that it imports, near what imports it."""
    height: dict[str, int] = {}
    for room in TopologicalSorter(needs).static_order():
        height[room] = 1 + max((height[it] for it in needs[room]), default=-1)
    levels = [sorted(it for it in height if height[it] == level) for level in range(max(height.values()), -1, -1)]
    column: dict[str, float] = {}
    for names in levels:
        above = {room: [column[it] for it in column if room in needs[it]] or [0.0] for room in names}
        names.sort(key=lambda room: sum(above[room]) / len(above[room]))
        column |= {room: number - (len(names) - 1) / 2 for number, room in enumerate(names)}
    return levels


def folded(text: str, letters: float) -> list[str]:
    """Return a text in at most two lines of so many letters."""
    lines = [""]
    for word in text.rstrip(".").split():
        if len(lines[-1]) + len(word) >= letters and len(lines) < 2:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def box(room: str, path: Path, left: float, top: float, width: float = WIDTH) -> str:
    """Return a room as SVG: its name above its purpose."""
    middle, fill = left + width / 2, "#fff3d6" if room == "model" else "#eaf1fb"
    size = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{HEIGHT}"'
    rows = [f'<rect {size} rx="6" fill="{fill}" stroke="#3b5b8c"/>']
    rows.append(f'<text x="{middle:g}" y="{top + 18:g}" font-size="13" font-weight="bold">{room}</text>')
    for number, line in enumerate(folded(purpose(path), LETTERS * width / WIDTH)):
        rows.append(f'<text x="{middle:g}" y="{top + 33 + 13 * number:g}" font-size="10.5">{escape(line)}</text>')
    return "\n".join(rows)


def draw() -> str:
    """Return the picture as SVG: what the user calls at the top, what everything imports at the bottom."""
    found = rooms()
    needs = {room: imports(path) - {*GROUND} for room, path in found.items() if room not in GROUND}
    levels = layers(needs := arrows(needs))
    widest = max(map(len, levels)) * (WIDTH + GAP_X) - GAP_X
    width, height = widest + 2 * MARGIN, (len(levels) + 1) * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN
    place = {  # upper left corners
        room: (
            (width - len(names) * (WIDTH + GAP_X) + GAP_X) / 2 + column * (WIDTH + GAP_X),
            MARGIN + row * (HEIGHT + GAP_Y),
        )
        for row, names in enumerate(levels)
        for column, room in enumerate(names)
    }
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'text-anchor="middle">',
        "<title>The rooms of the package; an arrow is an import</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#7a8aa0"/></marker>',
    ]
    for room, it in sorted((room, it) for room, near in needs.items() for it in near):
        x1, y1 = place[room][0] + WIDTH / 2, place[room][1] + HEIGHT
        x2, y2 = place[it][0] + WIDTH / 2, place[it][1] - 2
        curve = f"M{x1:g},{y1:g} C{x1:g},{(y1 + y2) / 2:g} {x2:g},{(y1 + y2) / 2:g} {x2:g},{y2:g}"
        rows.append(f'<path d="{curve}" fill="none" stroke="#7a8aa0" stroke-width="1.2" marker-end="url(#tip)"/>')
    rows += [box(room, found[room], *corner) for room, corner in place.items()]
    ground = (widest - GAP_X) / 2
    rows += [
        box(room, found[room], MARGIN + n * (ground + GAP_X), height - MARGIN - HEIGHT, ground)
        for n, room in enumerate(GROUND)
    ]
    return "\n".join([*rows, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
