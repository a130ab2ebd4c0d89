"""Every sentence of a page, and every name and number of its card, is that of the trace."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.inspection.page.document import page_document

from .conftest import KINDS, LABEL_KINDS, MORE, ask, explained, opened, page_of
from .expected_sentences import TRUTHS, Found, Walk, Written, same

SAMPLED = (("decode.sample", True),)
LAST = {
    "translate": "decoder.1.cross",
    "generate": "decoder.1.self",
    "image": "encoder.1.self",
    "audio": "encoder.1.self",
}
NO_ANSWER = (("data.unanswerable", True), ("model.n_encoder_layers", 1))
FAST = [
    *(Walk(kind, unknown=("?",) if kind == "answer" else ()) for kind in (*KINDS, *LABEL_KINDS)),
    Walk("translate", "She zzz QQQ.", (5,), unknown=("zzz", "QQQ")),
    Walk("translate", off=("decoder.1.cross.head.0", "encoder.0.feed_forward"), changed=SAMPLED),
    Walk("translate", changed=(("decode.max_ratio", 0.6),)),
    Walk("generate", "We zzz", (5, 6), ("decoder.1.self.head.1",), (("decode.unknown", "unk"),), ("zzz",)),
    Walk("sample", prefix=(7,)),
    Walk("classify", "She xxx.", off=("encoder.1.self",), unknown=("xxx",)),
    Walk("answer", ("Who zzz?", "We yyy here."), unknown=("Who", "zzz", "?", "yyy")),
    Walk("answer", ("They sleep well.", "hungry"), changed=NO_ANSWER),
    Walk("image", off=("encoder.1.self",)),
]
SLOW = [
    *(Walk(kind, changed=it) for kind in MORE for it in ((), SAMPLED)),
    Walk("transcribe", prefix=(6,), off=("decoder.0.cross.head.1",)),
    *(Walk(kind, off=(LAST[kind],)) for kind in ("translate", "generate", "audio")),
    *(Walk(kind, off=("encoder.0.self.head.1",)) for kind in ("fill", "embed", "image", "audio")),
    Walk("answer", off=("encoder.0.self",), unknown=("?",)),
    *(Walk(kind, prefix=(5, 6)) for kind in ("translate", "generate", "summarize")),
    *(Walk(kind, prefix=(6,), changed=SAMPLED) for kind in ("translate", "summarize", "generate")),
    Walk("fill", "zzz [MASK] [MASK]", unknown=("zzz",)),
    Walk("embed", "She zzz", unknown=("zzz",)),
]
CASES = [*FAST, *(pytest.param(it, marks=pytest.mark.slow) for it in SLOW)]


@pytest.mark.parametrize("walk", CASES, ids=str)
def test_every_sentence_is_that_of_the_trace(walk: Walk, pages: Any, tab: Any, tmp_path: Path) -> None:
    if walk == Walk(walk.kind, unknown=walk.unknown):
        path, explanation, data = pages(walk.kind)
    else:
        changed = dict(walk.changed)
        found = explained(walk.kind, walk.read, off=walk.off, prefix=walk.prefix, **changed)
        explanation, data = page_of(*found)
        path = tmp_path / "page.html"
        path.write_text(page_document(data), encoding="utf-8")
    opened(tab, path)
    truth, shown = TRUTHS.get(walk.kind, Written)(walk, explanation), ask(tab, "walk")
    assert len(shown) == max(truth.count, 1)
    for t, it in enumerate(shown):
        same(it["say"], truth.sentence(t))
        if truth.count:
            expected = truth.blocks(t)
            same(it["name"], truth.names[t])
            same(it["sub"], truth.sub(t))
            assert {*it["blocks"]} - {
                "Rank by layer",
                "Top contributions (logits)",
                "Top contributions",
            } == expected.keys()
            for title, rows in expected.items():
                same("|".join(it["blocks"][title]), "|".join(rows))
            assert it["rank"] == truth.rank(t)


@pytest.mark.parametrize("read", [None, ("Who zzz?", "We yyy here.")], ids=["known", "unknown"])
def test_what_another_answer_scores_is_that_of_the_trace(read: Any, tab: Any, tmp_path: Path) -> None:
    explanation, data = page_of(*explained("answer", read))
    path = tmp_path / "page.html"
    path.write_text(page_document(data), encoding="utf-8")
    opened(tab, path)
    truth, said = Found(Walk("answer", read), explanation), tab.locator("#answers .told")
    same(said.inner_text(), truth.answer(*explanation.span))
    words = [s for s, it in enumerate(explanation.in_context) if it]
    first, last = words[0], words[-1]
    for s, expected in ((last, (last, last)), (first, (first, last)), (first + 1, (first + 1,) * 2), (0, (0, 0))):
        tab.locator(f".source .token[data-i='{s}']").click()
        if s == last:  # a press beyond one end moves that end alone
            tab.locator(f".source .token[data-i='{s}']").click()
        same(said.inner_text(), truth.answer(*expected))
        marked = tab.locator(".token.found").evaluate_all("all => all.map(it => Number(it.dataset.i))")
        assert marked == list(range(expected[0], expected[1] + 1))
    tab.locator("#answers .choice").first.click()
    same(said.inner_text(), truth.answer(*explanation.span))
    assert tab.locator("#answers .choice[aria-pressed=true]").count() == 1
