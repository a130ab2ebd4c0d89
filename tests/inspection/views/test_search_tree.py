import math

import pytest
import torch

from clearhead.config import DecodeConfig, ModelConfig, SpecialTokens
from clearhead.decode.engines.torch_engine import TorchEngine
from clearhead.decode.session import Session
from clearhead.inspection.views.search_tree import SearchAnswer, SearchTree
from clearhead.model.transformer import build


def searched(**how: object) -> tuple[SearchTree, list, Session]:
    torch.manual_seed(3)
    sizes = {"src_vocab_size": 12, "tgt_vocab_size": 12, "d_model": 16, "n_heads": 4, "d_ff": 32, "max_len": 20}
    net = build(ModelConfig(**sizes, n_encoder_layers=1, n_decoder_layers=2)).eval()
    session = Session(TorchEngine(net, pad=0), DecodeConfig(max_extra=4, **how), SpecialTokens(), max_len=20)
    tree = SearchTree(str, lambda n: float(session.rules.penalty(n)))
    before = session.answers([[4, 5, 6]])[0]
    with tree.watching(net):
        [answers] = session.answers([[4, 5, 6]], tree.observe)
    assert answers == before and not net.decoder._forward_pre_hooks
    return tree.finish(answers, lambda ids: " ".join(map(str, ids))), answers, session


@pytest.mark.parametrize(
    "how", [{"beam": 1}, {"beam": 3, "n_best": 3}, {"beam": 4, "alpha": 1.5}, {"sample": True, "n_best": 2}], ids=str
)
def test_the_scores_of_the_tree_are_those_of_the_search(how: dict[str, object]) -> None:
    tree, answers, session = searched(**how)
    assert len(tree.answers) == len(answers) > 0
    for found, answer in zip(tree.answers, answers):
        assert (found.score, found.log_probability) == (answer.score, answer.log_probability)
        assert found.total == pytest.approx(found.log_probability)  # nothing was taken for repetitions
        assert found.score == pytest.approx(found.total / found.penalty)
        assert found.penalty == pytest.approx(((5 + found.length) / 6) ** session.rules.alpha)
        if found.node is not None:
            node = tree.nodes[found.node]
            assert node.fate == ("ended" if found.finished else "kept") and node.score == pytest.approx(found.score)
            assert [it.token for it in tree.path(found.node) if it.token != "2"] == found.text.split()


def test_each_candidate_continues_a_beam_that_was_kept() -> None:
    tree, _, _ = searched(beam=3)
    for number, step in enumerate(tree.steps):
        kept = [node.beam for node in step if node.fate == "kept"]
        assert len(kept) <= 3 and len(set(kept)) == len(kept)
        for node in step:
            assert node.step == number + 1 and (node.beam is not None) == (node.fate == "kept")
            if node.parent >= 0:
                parent = tree.nodes[node.parent]
                assert (parent.fate, parent.step) == ("kept", number)
                assert node.total == pytest.approx(parent.total + node.log_probability)
            else:
                assert number == 0 and node.total == pytest.approx(node.log_probability)
            assert math.isfinite(node.total)
    assert tree.cache_lengths == [*range(len(tree.steps))]


def test_why_the_winner_won_is_said() -> None:
    tree, answers, _ = searched(beam=4, n_best=4)
    text = tree.render()
    assert text.count("\nstep ") == len(tree.steps) - 1 and text.startswith("step 1: each beam's cache grows from 0")
    ahead = answers[0].log_probability - answers[1].log_probability
    assert f"{abs(ahead):.4f}" in tree.verdict()[0] or "cut off" in tree.verdict()[0]
    assert text.endswith(tree.verdict()[0]) and "only answer" in searched(beam=1)[0].render()


def test_the_first_is_called_the_likeliest_only_where_no_other_is_likelier() -> None:
    def said(*totals: float, finished: bool = True) -> str:
        tree = SearchTree(str, lambda _length: 1.0)
        ends = [True, True, finished]
        tree.answers = [SearchAnswer(None, "a", it, it, 3, 1.0, it, end) for it, end in zip(totals, ends)]
        return " ".join(tree.verdict())

    highest = "The first answer has the highest total, 0.1000 above the second's."
    assert said(-1.6, -1.7, -1.8) == said(-1.6, -1.7, -1.8, finished=False) == highest
    assert said(-1.6, -1.5, -1.0).startswith("Answer 2's total is higher by 0.1000, but it's shorter")
    assert said(-1.6, -1.7, -1.0).startswith("Answer 3's total is higher by 0.6000, but it's shorter")
    assert said(-1.6, -1.7, -1.0, finished=False).startswith("Among finished answers, the first has the highest total")
