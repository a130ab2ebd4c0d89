"""Tables as people have them: each is read right, or the columns are listed and a person has to choose."""

import csv
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.tasks.detect import find_task

DOUBT = "doubt"
WORDS = [
    "the",
    "order",
    "arrived",
    "late",
    "and",
    "support",
    "never",
    "answered",
    "my",
    "mail",
    "so",
    "I",
    "want",
    "it",
]
NAMES = ["Ann Lee", "Bob Ray", "Cid Fox", "Dan May", "Eva Roe", "Fay Kim", "Gus Orr", "Hal Poe"]
dice = random.Random(1)


def text(least: int = 6, most: int = 14) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(least, most))).capitalize() + dice.choice(".!? ")


def one_of(*values: str) -> str:
    return dice.choice(values)


def date(n: int) -> str:
    return f"{n % 28 + 1:02}/{n % 12 + 1:02}/2024"


Row = Callable[[int], list[str]]
TABLES: dict[str, tuple[str, Row, str, str]] = {  # header, row, task, and what is printed of the columns
    "tickets": (
        "ticket_id,created_at,subject,body,status,priority,queue",
        lambda n: [f"T-{n}", f"2024-01-{n % 28 + 1:02} 10:{n % 60:02}", text(3, 5), f"{text()}\n{text()}",
                   one_of("open", "closed"), one_of("low", "high"), one_of("billing", "sales", "tech")],
        DOUBT, "label",
    ),
    "messages": (
        "date,customer,message,priority",
        lambda n: [date(n), f"{NAMES[n % 8]}{n}", text(), one_of("low", "high")],
        "classify", "text: message (column 3); label: priority (column 4)",
    ),
    "messages of a few customers": (
        "date,customer,message,priority",
        lambda n: [date(n), one_of(*NAMES[:4]), text(), one_of("low", "high")],
        DOUBT, "label",
    ),
    "reviews with ratings": (
        "review_id,product,review,rating",
        lambda n: [f"R{n}", one_of("Mug", "Lamp", "Chair"), text(), one_of(*"12345")],
        "classify", "text: review (column 3); label: rating (column 4)",
    ),
    "reviews in another language": (
        "nr;kommentar;sterne",
        lambda n: [str(n), text(), one_of(*"12345")],
        "classify", "text: kommentar (column 2); label: sterne (column 3)",
    ),
    "two labels": (
        "text,sentiment,stars", lambda n: [text(), one_of("pos", "neg"), one_of(*"12345")], DOUBT, "label"
    ),
    "e-mails": (
        "from,to,subject,body",
        lambda n: [f"a{n}@x.org", "help@y.com", text(3, 5), f"{text()}\n\n{text()}"],
        DOUBT, "much longer",
    ),
    "e-mails with a label": (
        "sender,received,text,spam",
        lambda n: [f"a{n}@x.org", date(n), text(), one_of("yes", "no")],
        "classify", "text: text (column 3); label: spam (column 4)",
    ),
    "quoted line breaks and semicolons": (
        "Datum;Nachricht;Abteilung",
        lambda n: [date(n), f'Sie sagte "{text()}"; dann\nnichts.', one_of("Einkauf", "Vertrieb")],
        "classify", "text: Nachricht (column 2); label: Abteilung (column 3)",
    ),
    "numeric labels": ("comment,toxic", lambda n: [text(), one_of(*"01")], "classify",
                       "text: comment (column 1); label: toxic (column 2)"),
    "numeric labels without a header": ("", lambda n: [text(), one_of(*"01")], "classify",
                                        "text: column 1; label: column 2"),
    "an id before pairs": ("", lambda n: [str(n), text(), f"Le {text()}"], "translate",
                           "source: column 2; target: column 3; not used: column 1"),
    "ids and dates before pairs": (
        "uid,when,english,french",
        lambda n: [f"{n:08x}", f"2023-05-{n % 28 + 1:02}T10:{n % 60:02}:00Z", text(), f"Le {text()}"],
        "translate", "source: english (column 3); target: french (column 4)",
    ),
    "names of columns that aren't known": ("frage,antwort", lambda n: [text(), text()], "translate",
                                           "source: frage (column 1); target: antwort (column 2)"),
    "three languages": ("alpha,beta,gamma", lambda n: [text(), text(), text()], DOUBT, "more than two"),
    "questions with answers and topics": (
        "id,question,answer,topic", lambda n: [str(n), text(), text(), one_of("a", "b")], DOUBT, "text"
    ),
    "products": (
        "sku,name,description,price,category",
        lambda n: [f"SKU-{n}", one_of(*WORDS).title(), text(), f"${n}.99", one_of("home", "garden", "toys")],
        "classify", "text: description (column 3); label: category (column 5)",
    ),
    "an index without a name": (",text,intent", lambda n: [str(n), text(), one_of("refund", "cancel")], "classify",
                                "text: text (column 2); label: intent (column 3)"),
    "blank columns": ("v1,v2,,,", lambda n: [one_of("ham", "spam"), text(), "", "", ""], "classify",
                      "text: v2 (column 2); label: v1 (column 1)"),
}  # fmt: skip


def written(folder: Path, name: str, n_rows: int) -> Path:
    header, row, _, _ = TABLES[name]
    separator = ";" if ";" in header else ","
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerows([header.split(separator)] if header else [])
        writer.writerows(row(n) for n in range(n_rows))
    return folder / "table.csv"


@pytest.mark.parametrize("n_rows", [24, 90])
@pytest.mark.parametrize("name", TABLES)
def test_a_messy_table_is_read_right_or_the_columns_are_listed(name: str, n_rows: int, tmp_path: Path) -> None:
    header, _, task, said = TABLES[name]
    path = written(tmp_path, name, n_rows)
    if task != DOUBT:
        found = find_task(path, DataConfig())
        assert (found.verb, found.columns[: len(said)]) == (task, said)
        return
    with pytest.raises(DataError) as caught:
        find_task(path, DataConfig())
    error = caught.value
    assert (
        error.value == tuple(header.split(","))
        and said in error.what.splitlines()[0]
        and "data.target_column" in error.fix
    )
    assert all(column in error.what for column in header.split(","))


def test_six_tickets_stop_too_and_the_options_decide(tmp_path: Path) -> None:
    path = written(tmp_path, "tickets", 6)
    with pytest.raises(DataError) as caught:
        find_task(path, DataConfig())
    assert str(caught.value).endswith(
        "\n  expected: unambiguous columns"
        "\n  choose them, for example: `train.task=classify` "
        "`data.source_column=subject,body` `data.target_column=queue`"
        "\n  or, for pairs of texts: `train.task=translate` `data.source_column=subject` `data.target_column=body`"
    )
    chosen = DataConfig(source_column="subject,body", target_column="queue")
    found = find_task(path, chosen, task="classify")
    assert found.columns.startswith("text: subject (column 3) + body (column 4); label: queue (column 7)")
