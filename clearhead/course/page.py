"""A page with all lessons, the student's grades, and the numbers that the student's own functions compute."""

import re
from collections.abc import Sequence
from html import escape

from ..pictures.plain_page import document
from .grade import EXERCISES, Grade, Matrix, lesson


def course_page(grades: Sequence[Grade]) -> str:
    """Return the page of a course as HTML."""
    done = sum(it.status == "passed" for it in grades)
    entries = "".join(
        f'<li><a href="#{it.name}">{_title(it.name)}</a> <span class="{it.status}">{it.status}</span></li>'
        for it in grades
    )
    sections = "".join(_section(it) for it in grades)
    done_of = f"<p>{done} of {len(grades)} exercises are done.</p>"
    return document("Attention, step by step", f"{done_of}<nav><ol>{entries}</ol></nav>{sections}")


def _title(name: str) -> str:
    return escape(name.split("_", 2)[2].replace("_", " ").capitalize())


def _section(grade: Grade) -> str:
    exercise = next(it for it in EXERCISES if it.name == grade.name)
    text = re.sub(r"^```.*?^```$", "", lesson(exercise), flags=re.DOTALL | re.MULTILINE)
    result = f'<p class="{grade.status}">{escape(_sentence(grade))}</p>'
    pictures = "".join(number_table(title, matrix) for title, matrix in grade.pictures.items())
    return f'<section id="{grade.name}">{_to_html(text)}{result}{pictures}</section>'


def _sentence(grade: Grade) -> str:
    if grade.status == "passed":
        return f"Your functions obey all {grade.laws} laws. These are their numbers:"
    if grade.status == "to write":
        return f"To write: {grade.what or grade.name}"
    inputs = "; ".join(f"{name} = {value}" for name, value in grade.inputs.items())
    law = f"Law: {grade.law}. " if grade.law else ""
    return f"{law}Your functions: {grade.what}{f' ({inputs})' if inputs else ''}."


def _to_html(text: str) -> str:
    """Turn the small part of Markdown that lessons use into HTML."""
    found = []
    for block in filter(None, (it.strip("\n") for it in text.split("\n\n"))):
        if block.startswith("# "):
            found.append(f"<h2>{escape(block[2:])}</h2>")
        elif block.startswith("    "):
            found.append(f"<pre>{escape(re.sub(r'^    ', '', block, flags=re.MULTILINE))}</pre>")
        else:
            words = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(block))
            words = re.sub(r"`(.+?)`", r"<code>\1</code>", words)
            found.append(f"<p>{words}</p>")
    return "".join(found)


def number_table(title: str, matrix: Matrix) -> str:
    """Return a matrix as a table, whose cells are blue for positive and red for negative numbers."""
    largest = max((abs(it) for row in matrix for it in row if it == it), default=0.0) or 1.0
    rows = "".join(f"<tr>{''.join(_cell(it, largest) for it in row)}</tr>" for row in matrix)
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _cell(number: float, largest: float) -> str:
    if number != number:  # NaN: nothing is there
        return "<td></td>"
    colour = "64,128,255" if number >= 0 else "255,96,80"
    return f'<td style="background:rgba({colour},{abs(number) / largest * 0.6:.2f})">{number:.2f}</td>'
