"""The scripts that answer docs/questions.md: what they measure is what the equations say."""

import importlib.util
import math
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest
import torch

from clearhead.model.positions import POSITIONS

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_norm_of_the_softmaxs_jacobian_is_that_of_autograd() -> None:
    scores = torch.randn(3, 5, dtype=torch.float64)
    found = script("why_scale").jacobian_norm(scores.softmax(-1))
    for row, norm in zip(scores, found):
        jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), row)
        torch.testing.assert_close(norm, torch.linalg.matrix_norm(jacobian))


@pytest.mark.parametrize("d_k", [8, 64])
def test_scores_have_variance_d_k_and_divided_by_its_root_variance_1(d_k: int) -> None:
    measure = script("why_scale").measure
    scaled, plain = measure(d_k, scaled=True), measure(d_k, scaled=False)
    assert scaled["variance"] == pytest.approx(1, rel=0.1)
    assert plain["variance"] == pytest.approx(scaled["variance"] * d_k)  # of the same numbers
    assert scaled["largest weight"] < plain["largest weight"]
    assert scaled["nearly none"] <= plain["nearly none"]


def test_the_tasks_answer_with_what_they_say() -> None:
    tasks, tokens = script("small_tasks"), torch.tensor([[1, 2, 3, 4, 5]])
    answers, asked = tasks.neighbours(tokens)
    assert answers[asked].tolist() == [8 * 1 + 3, 8 * 2 + 4, 8 * 3 + 5]
    answers, asked = tasks.back(tokens)
    assert answers[asked].tolist() == [1, 2]
    answers, asked = tasks.reverse(tokens)
    assert answers[asked].tolist() == [5, 4, 3, 2, 1]


def test_every_pair_of_neighbours_is_a_token_of_its_own_and_none_is_a_letter() -> None:
    tasks = script("small_tasks")
    letters = range(1, tasks.LETTERS + 1)
    pairs = {8 * left + right for left in letters for right in letters}
    assert len(pairs) == 64 and min(pairs) > tasks.LETTERS and max(pairs) < tasks.LETTERS**2 + tasks.LETTERS + 1


def test_models_of_more_heads_have_as_many_parameters() -> None:
    model = script("small_tasks").model
    sizes = {sum(w.numel() for w in model(73, 1, 32, heads, "sinusoidal", 0).parameters()) for heads in (1, 2, 4, 8)}
    assert len(sizes) == 1


def test_batches_have_letters_alone_and_the_lengths_that_were_asked_for() -> None:
    draw = script("small_tasks").draw
    batches = list(islice(draw(range(4, 7), 8, torch.Generator().manual_seed(0)), 50))
    assert {batch.size(1) for batch in batches} == {4, 5, 6}
    assert {int(letter) for batch in batches for letter in batch.unique()} == set(range(1, 9))


def test_a_model_without_positions_answers_alike_wherever_a_token_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = script("small_tasks")
    monkeypatch.setitem(POSITIONS, "none", tasks.Positions)
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    learner = tasks.model(9, 2, 16, 2, "none", 0).eval()
    asked = torch.ones_like(tokens, dtype=torch.bool)
    torch.testing.assert_close(learner(tokens, at=asked).flip(0), learner(tokens.flip(1), at=asked))


def test_a_little_learning_is_better_than_chance() -> None:
    tasks = script("small_tasks")
    torch.set_num_threads(1)
    learner = tasks.model(9, 1, 32, 2, "relative", 0)
    before = tasks.accuracy(learner, tasks.back, 8)
    tasks.learn(learner, tasks.back, 150, range(8, 9), 0)
    assert before < 0.3 < tasks.accuracy(learner, tasks.back, 8)


def test_attention_open_and_fused_is_one_function_and_its_weights_are_n_squared_numbers_a_head() -> None:
    cost, x = script("attention_cost"), torch.randn(1, 6, 16)
    layers = cost.contenders(16, 4)
    layers["fused"].load_state_dict(layers["open"].state_dict())
    torch.testing.assert_close(layers["open"](x), layers["fused"](x))
    assert cost.weights_bytes(6, 4) == 4 * 6 * 6 * 4  # heads, rows, columns, bytes of a float32
    times = cost.seconds(layers, 4, 16, repeats=2)
    assert list(times) == ["open", "fused", "LSTM", "GRU"] and all(0 < time < math.inf for time in times.values())


def test_planted_faults_are_where_they_are_said_to_be() -> None:
    planted = script("planted_faults")
    pairs = [(f"The house of number {n} is big.", f"La maison numéro {n} est grande.") for n in range(1000)]
    faulty, kinds = planted.plant(pairs, [f"Das Haus {n} ist groß." for n in range(50)], 3)
    assert (faulty, kinds) == planted.plant(pairs, [f"Das Haus {n} ist groß." for n in range(50)], 3)
    counts = {kind: [*kinds.values()].count(kind) for kind in dict.fromkeys(kinds.values())}
    assert 16 <= counts.pop("shifted") <= 20
    assert counts == {"swapped": 10, "copied": 10, "language": 10, "encoding": 5, "duplicate": 10}
    assert {place + 1 for place, pair in enumerate(faulty) if pair != pairs[place]} == kinds.keys()
    texts = [("Some text.", label) for label in "abc" * 100]
    flips, kinds = planted.flipped(texts, 3)
    assert {place + 1 for place, pair in enumerate(flips) if pair != texts[place]} == kinds.keys() and len(kinds) == 15


def test_the_faults_of_broken_runs_are_causes_that_a_diagnosis_can_name() -> None:
    from clearhead.apps.diagnosis.causes import CAUSES
    from clearhead.config import settings

    runs = script("broken_runs")
    assert {name for case in runs.BROKEN.values() for name in case.causes} <= {*CAUSES, *settings()}
    assert len(runs.BROKEN) >= 12 and len(runs.HEALTHY) >= 20
    assert not any(case.causes for case in runs.HEALTHY.values())
