"""The estimator is one of scikit-learn's: cloned, pickled, in a Pipeline, in cross-validation."""

import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

import clearhead
from clearhead.errors import ConfigError, DataError
from clearhead.estimator import TextClassifier
from tests.builders import make_encoder_folder

TINY = {"model.d_model": 32, "model.n_heads": 2, "model.d_ff": 64, "model.n_encoder_layers": 1, "train.threads": 1}
TINY |= {"data.tokenizer": "word", "train.precision": "fp32", "train.lr": 0.01, "model.dropout": 0.0}
TEXTS = [f"{a} {b} {c}" for a in ("the", "a", "one") for b in ("good", "bad", "warm", "sad") for c in ("film", "story")]
LABELS = np.array([b in ("good", "warm") for _ in range(3) for b in ("good", "bad", "warm", "sad") for _ in range(2)])


@pytest.fixture(autouse=True, scope="module")
def _as_it_was() -> Iterator[None]:
    """Runs that leave the process as they found it, and draw no picture."""
    threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
        patch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
        patch.setattr("clearhead.scoring.class_scores.confusion_matrix", lambda *_: None)
        yield
    torch.set_num_threads(threads)
    torch.random.set_rng_state(generator)


def estimator(**changes: Any) -> TextClassifier:
    return TextClassifier(**{"steps": 30, "settings": TINY} | changes)


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return estimator(steps=40).fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_valid_tag_types,
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    ],
    ids=lambda check: check.__name__,
)
def test_it_is_what_scikit_learn_expects(check: Any) -> None:
    check("TextClassifier", TextClassifier())


def test_it_learns_and_answers_in_the_classes_that_it_was_given(fitted: TextClassifier) -> None:
    assert fitted.score(TEXTS, LABELS) == 1.0
    assert fitted.classes_.tolist() == [False, True] and fitted.predict(["a warm story"]).tolist() == [True]
    probabilities = fitted.predict_proba([*TEXTS, ""])
    assert probabilities.shape == (25, 2) and probabilities.sum(1) == pytest.approx(1)
    assert (fitted.classes_[probabilities.argmax(1)] == fitted.predict([*TEXTS, ""])).all()
    assert fitted.predict_proba([]).shape == (0, 2) and fitted.predict(np.array(TEXTS[:2])).shape == (2,)


def test_numbers_as_classes_keep_their_order_and_their_kind() -> None:
    labels = [10, 9, 10, 2] * 6
    model = estimator(steps=2).fit(TEXTS, labels)
    assert model.classes_.tolist() == [2, 9, 10] and model.predict(TEXTS).dtype == model.classes_.dtype
    app = model._model()
    assert app.labels == ("10", "2", "9")  # as texts are sorted
    expected = [app.results(TEXTS[:1])[0].probabilities[name] for name in ("2", "9", "10")]
    assert model.predict_proba(TEXTS[:1])[0] == pytest.approx(expected)


def test_the_same_seed_gives_the_same_model_and_a_pickle_answers_alike(fitted: TextClassifier) -> None:
    again = clone(fitted).fit(TEXTS, LABELS)
    assert not hasattr(clone(fitted), "classes_")
    fitted.predict(TEXTS)  # makes the model, which is no part of a pickle
    copy = pickle.loads(pickle.dumps(fitted))
    assert "_app" not in vars(copy) and "_app" in vars(fitted)
    for other in (again, copy):
        np.testing.assert_array_equal(other.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_fitted_anew_it_forgets_what_it_learnt(fitted: TextClassifier) -> None:
    model = pickle.loads(pickle.dumps(fitted))
    model.predict(TEXTS)
    model.fit(TEXTS, ~LABELS)
    assert (model.predict(TEXTS) == ~LABELS).all()


def test_it_goes_into_a_pipeline_and_through_cross_validation() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    model = make_pipeline(lower, estimator(steps=40))
    scores = cross_val_score(model, [text.upper() for text in TEXTS], LABELS, cv=2)
    assert scores.shape == (2,) and scores.mean() > 0.8


def test_the_folder_that_is_named_is_a_model_for_all_other_uses(tmp_path: Path) -> None:
    names = np.where(LABELS, "fine", "dull")
    for _ in range(2):  # the second replaces the first
        model = estimator(steps=2, out=tmp_path / "model").fit(TEXTS, names)
    app = clearhead.load(tmp_path / "model")
    assert app(TEXTS) == model.predict(TEXTS).tolist()


def test_an_adapter_answers_without_the_folder_of_its_base(tmp_path: Path) -> None:
    base = make_encoder_folder(tmp_path / "base", task="fill")
    settings = {"train.init_from": str(base), "train.adapter": ("lora", "rank=2"), "train.threads": 1}
    made = TextClassifier(steps=2, settings=settings, out=tmp_path / "adapter").fit(
        TEXTS, np.where(LABELS, "fine", "dull")
    )
    assert (tmp_path / "adapter" / "adapter.safetensors").exists()
    expected = [it.label for it in clearhead.load(tmp_path / "adapter").results(TEXTS)]
    shutil.rmtree(base)
    assert list(pickle.loads(pickle.dumps(made)).predict(TEXTS)) == expected


def test_a_part_that_the_settings_name_needs_no_other_consent() -> None:
    settings = TINY | {"model.norm": "torch.nn:RMSNorm"}
    assert len(estimator(steps=1, settings=settings).fit(TEXTS, LABELS).predict(TEXTS[:2])) == 2


def test_it_is_quiet_unless_it_is_asked_to_speak(capfd: pytest.CaptureFixture[str]) -> None:
    estimator(steps=1).fit(TEXTS, LABELS)
    assert capfd.readouterr() == ("", "")
    estimator(steps=1, verbose=True).fit(TEXTS, LABELS)
    assert "step 1" in capfd.readouterr().err


def test_before_it_is_fitted_there_is_nothing_to_predict_with() -> None:
    with pytest.raises(NotFittedError):
        TextClassifier().predict(TEXTS)


@pytest.mark.parametrize(
    ("texts", "labels", "name"),
    [
        ("one text", ["a"], "text"),
        (["a", 7], ["a", "b"], "text 1"),
        (["a", "b"], ["x"], "y"),
        (["a", "b"], ["x", " "], "y"),
        (["a", "b"], ["x", "y\0z"], "y"),
        (["a", "b"], ["x", "\ud800"], "y"),
        (["\ud800", "b"], ["x", "y"], "y"),
        ([], [], "y"),
        (["a", "b"], ["x", "x"], "y"),
        (["a", "b", " "], ["x", "x", "y"], "y"),
        (["", "\0"], ["x", "y"], "y"),
        (["a", "b"], ["x", "y\nz"], "y"),
    ],
)
def test_what_cannot_be_learnt_from_is_rejected(texts: Any, labels: list[str], name: str) -> None:
    with pytest.raises(DataError) as caught:
        estimator().fit(texts, labels)
    assert caught.value.name == name


def test_all_texts_are_learnt_from_unless_scores_are_asked_for(tmp_path: Path) -> None:
    classes = [*LABELS.astype(str), "rare"]
    for seed in range(3):
        found = estimator(seed=seed, steps=2).fit([*TEXTS, "a rare text"], classes)
        assert found.predict_proba(["rare"]).min() > 0
    scored = estimator(steps=2, out=tmp_path / "model", settings=TINY | {"train.best": "accuracy"}).fit(TEXTS, LABELS)
    assert scored.predict(TEXTS[:1]).shape == (1,)
    assert "accuracy" in (tmp_path / "model" / "README.md").read_text("utf-8")


def test_a_setting_that_there_is_not_is_told() -> None:
    with pytest.raises(ConfigError, match="TextClassifier") as caught:
        estimator(settings={"model.dropot": 0.1}).fit(TEXTS, LABELS)
    assert caught.value.name == "model.dropot"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"settings": {"train.seed": 1}}, "train.seed"),
        ({"settings": {"train.task": "generate"}}, "train.task"),
        ({"settings": {"data.label_kind": "number"}}, "data.label_kind"),
        ({"steps": 2, "settings": {"train.steps": 3}}, "train.steps"),
    ],
)
def test_a_setting_that_the_estimator_has_by_itself_is_not_passed_over(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TextClassifier(**changes).fit(TEXTS, LABELS)
    assert caught.value.name == name


def test_without_scikit_learn_the_package_is_whole_and_this_file_says_what_it_needs() -> None:
    script = (
        "import sys; sys.modules['sklearn'] = None; sys.modules['sklearn.base'] = None\n"
        "import clearhead.api\n"
        "try: import clearhead.estimator\n"
        "except clearhead.ConfigError as error: print(error.name, error.fix)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "scikit-learn install it: pip install scikit-learn\n"


def test_settings_that_have_no_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="settings"):
        TextClassifier(settings=["model.dropout"]).fit(TEXTS, LABELS)  # type: ignore[arg-type]
