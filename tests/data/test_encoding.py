"""Pairs to tokens, here and in other processes."""

import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator

import numpy as np
import pytest

from clearhead.config import DataConfig
from clearhead.data import encoding
from clearhead.data.encoding import PairEncoder
from clearhead.errors import DataError, TrainingError
from clearhead.readers.pairs import Pairs
from clearhead.readers.skipped import Report
from clearhead.tokenization.source_and_target import train_tokenizers

SOURCES = [f"number {n} of the many" + " more" * (n % 9) for n in range(70)]
TARGETS = [text.upper() for text in SOURCES]


def chunks(size: int = 9) -> Iterator[Pairs]:
    for start in range(0, len(SOURCES), size):
        part = slice(start, start + size)
        lines = array("q", range(start + 1, start + 1 + len(SOURCES[part])))
        yield Pairs(SOURCES[part], TARGETS[part], lines, Report(()))


@pytest.fixture(scope="module")
def encoder() -> PairEncoder:
    tokenizers = train_tokenizers(SOURCES, TARGETS, DataConfig(tokenizer="word", joint=False))
    return PairEncoder(tokenizers, 11, "data.max_len")


def test_several_processes_give_what_one_gives_in_the_same_order(encoder: PairEncoder, monkeypatch) -> None:
    cutting = PairEncoder(encoder.tokenizers, 11, "data.max_len", cuts="summaries")
    here = list(cutting.each(chunks(), len(SOURCES), 3))
    monkeypatch.setattr(encoding, "_MANY", 0)
    there = list(cutting.each(chunks(), len(SOURCES), 2))
    assert len(here) == len(there) == 8 and any(it.skipped for it in here)
    for one, other in zip(here, there):
        assert (one.skipped, one.cut, one.kept) == (other.skipped, other.cut, other.kept)
        for side in ("sources", "targets"):
            assert np.array_equal(getattr(one, side).tokens, getattr(other, side).tokens)
            assert np.array_equal(getattr(one, side).lengths, getattr(other, side).lengths)


def test_long_sources_may_be_truncated_and_long_targets_may_not(encoder: PairEncoder) -> None:
    cutting = PairEncoder(encoder.tokenizers, 8, "data.max_len", cuts="summaries")
    pairs = Pairs(SOURCES[:9], ["short"] * 8 + [TARGETS[8]], array("q", range(1, 10)), Report(()))
    [here] = cutting.each(iter([pairs]), 9, 2)
    assert [it.line for it in here.skipped] == [9] and [it.line for it in here.cut] == [5, 6, 7, 8]
    assert here.skipped[0].reason == "with summaries longer than 8 tokens (data.max_len)"
    assert here.cut[0].reason == "longer than 8 tokens (data.max_len)"
    assert int(here.sources.lengths.max()) == 9  # with the end


def test_an_error_there_is_one_here(encoder: PairEncoder, monkeypatch) -> None:
    monkeypatch.setattr(encoding, "_MANY", 0)
    bad = Pairs(["half \ud800"], ["b"], array("q", [1]), Report(()))
    with pytest.raises(DataError, match="lone surrogate"):
        list(encoder.each(iter([bad]), 1, 2))


def test_where_there_are_no_processes_it_is_done_here(encoder: PairEncoder, monkeypatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(encoding, "_MANY", 0)
    monkeypatch.setattr("loky.ProcessPoolExecutor", none)
    assert sum(len(it.sources) + len(it.skipped) for it in encoder.each(chunks(), len(SOURCES), 2)) == len(SOURCES)


def test_a_process_that_is_killed_is_said(encoder: PairEncoder, monkeypatch) -> None:
    monkeypatch.setattr(encoding, "_MANY", 0)
    monkeypatch.setattr(encoding, "_encode", lambda pairs: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(TrainingError) as caught:
        list(encoder.each(chunks(), len(SOURCES), 2))
    assert (caught.value.name, caught.value.value) == ("train.threads", 2)


def test_pairs_with_unknown_words_are_told_and_the_first_ones_name_them(encoder: PairEncoder) -> None:
    sources = ["number 1 of the zebras", "number 2", *["no zebra"] * 5]
    pairs = Pairs(sources, ["NUMBER yak", *["NUMBER"] * 6], array("q", range(1, 8)), Report(()))
    found = encoder(pairs)
    assert len(found.sources) == 7 and not found.skipped
    assert [it.line for it in found.unknown] == [1, 3, 4, 5, 6, 7]
    assert [it.text for it in found.unknown[:2]] == ["zebras, yak", "no, zebra"]
    subwords = PairEncoder(train_tokenizers(SOURCES, TARGETS, DataConfig(vocab_size=300)), 99, "data.max_len")
    assert not subwords(pairs).unknown


PARENT = """
import os, time
from clearhead.data.encoding import end_with_parent
parent = os.getpid()
if os.fork():
    time.sleep(60)
end_with_parent(parent)
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(child, 0)  # it exists
        parent.kill()
        assert parent.stdout.read() == ""  # the pipe ends with the last process that has it
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # until whoever adopted it has noticed
            os.kill(child, 0)
            time.sleep(0.1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_whose_parent_has_ended_before_ends_at_once() -> None:
    late = PARENT.replace("time.sleep(60)\nend", "os._exit(0)\ntime.sleep(1)\nend", 1)
    assert late != PARENT
    with subprocess.Popen([sys.executable, "-c", late], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        begun = time.monotonic()
        parent.stdout.read()
    assert time.monotonic() - begun < 30  # the child sleeps for 60 seconds
