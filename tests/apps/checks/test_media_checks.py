"""`verify` and `ablate` work for models that read images and audio."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.api import load
from clearhead.apps.app import App
from clearhead.apps.checks.promise_subjects import subject_of
from clearhead.config import Config
from clearhead.config.front_geometry import PAD_SAMPLE
from clearhead.errors import ConfigError
from clearhead.folder.model_folder import model_files, save_files
from clearhead.inspection.promises.verification import verify
from clearhead.model.fronts.frames import Frames
from clearhead.model.fronts.patches import Patches
from clearhead.model.transformer import build
from clearhead.tokenization.source_and_target import Tokenizers, train_tokenizers
from clearhead.tokenization.tokenizer import Tokenizer
from tests.builders import write_wave

SIZE = {
    "model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "model.n_encoder_layers": 1, "model.dropout": 0.1,
    "model.pre_norm": True, "data.batch_tokens": 512, "train.precision": "fp32",
}  # fmt: skip
LABELLED = SIZE | {
    "train.task": "classify", "model.topology": "encoder-only", "model.head": "class", "model.n_classes": 2,
    "model.n_decoder_layers": 0, "data.labels": ("high", "low"),
}  # fmt: skip
HEARD = {"data.modality": "audio", "model.front": "frames", "model.sample_rate": 1000, "data.max_len": 40}
SETTINGS: dict[str, dict[str, Any]] = {
    "see": LABELLED | {
        "data.modality": "image", "model.front": "patches", "model.positions": "sinusoidal_2d", "model.image_size": 6,
        "model.image_channels": 3, "model.patch_size": 2, "model.max_len": 10, "data.max_len": 10,
        "model.pooling": "first", "model.augment": ("shift=1", "flip", "crop=0.5"),
    },
    "hear": LABELLED | HEARD | {
        "model.n_mels": 4, "model.max_len": 42, "model.augment": ("spec_augment=0.5", "speed=0.1"),
    },
    "write": SIZE | HEARD | {
        "train.task": "transcribe", "model.n_mels": 4, "model.max_len": 42, "model.n_decoder_layers": 1,
        "data.tokenizer": "character", "data.joint": True, "decode.max_extra": 2,
        "model.augment": ("spec_augment=0.5",),
    },
}  # fmt: skip
EVERYWHERE = {
    "open = fused attention", "weights' rows sum to 1", "reported weights = used", "keys in any order",
    "batched = single", "again = before", "front end = formula", "gradients = finite differences",
    "recorded = unrecorded", "saved = loaded",
}  # fmt: skip
WRITTEN = {"cached = full", "no leak from the future", "engine = full", "engine = engine", "beam's scores = rescoring"}
CHECKS = {
    "see": EVERYWHERE,
    "hear": EVERYWHERE | {"padded = unpadded"},
    "write": EVERYWHERE | {"padded = unpadded"} | WRITTEN,
}


@pytest.fixture(params=SETTINGS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def app(kind: str, tmp_path: Path) -> App:
    """A model of random weights."""
    config = Config().override(SETTINGS[kind])
    none = Tokenizer.without_text()
    tokenizers = train_tokenizers(["ab"] * 9, ["ab"] * 9, config.data) if kind == "write" else Tokenizers(none, none)
    sizes = {"model.src_vocab_size": tokenizers.source.vocab_size, "model.tgt_vocab_size": tokenizers.target.vocab_size}
    config = config.override(sizes)
    generator = torch.random.get_rng_state()
    torch.manual_seed(0)
    weights = build(config.model).state_dict()
    torch.random.set_rng_state(generator)
    files = model_files(config=config.to_record(), tokenizer=tokenizers.to_json(), weights=weights, card="# A")
    save_files(tmp_path / "model", files)
    return load(tmp_path / "model", device="cpu")


@pytest.fixture
def data(kind: str, tmp_path: Path) -> tuple[Path, ...]:
    """Four images or recordings, with labels or transcripts."""
    dice = np.random.default_rng(0)
    if kind == "see":
        np.save(tmp_path / "images.npy", dice.integers(0, 256, (4, 6, 6, 3), dtype=np.uint8))
        np.save(tmp_path / "labels.npy", np.array(["high", "low", "low", "high"]))
        return tmp_path / "images.npy", tmp_path / "labels.npy"
    rows = [("path", "label" if kind == "hear" else "text")]
    for i, target in enumerate(["high", "low", "low", "high"] if kind == "hear" else ["a", "ba", "b", "ab a"]):
        write_wave(tmp_path / f"{i}.wav", dice.uniform(-0.3, 0.3, 200 + 90 * i), 1000)
        rows.append((f"{i}.wav", target))
    (tmp_path / "recordings.csv").write_text("".join(f"{name},{target}\n" for name, target in rows), encoding="utf-8")
    return (tmp_path / "recordings.csv",)


def test_a_healthy_model_keeps_the_promises_of_its_front_end(kind: str, app: App, data: tuple[Path, ...]) -> None:
    for given in (None, [*map(str, data)]):
        found = app.verify(given)
        assert found.passed, found.render()
        assert {check.name for check in found.checks} == CHECKS[kind] and not found.counts["skipped"]
        assert app.task.units.sources in found.texts and ("random" in found.texts) == (given is None)


def test_the_inputs_have_the_shape_and_the_padding_of_the_front_end(kind: str, app: App) -> None:
    inputs = subject_of(app.loaded, app.decode_config()).inputs
    assert inputs.source is not None
    if kind == "see":
        assert inputs.source.shape == (6, 3, 6, 6) and inputs.row(2).source.shape == (1, 3, 6, 6)
        return
    lengths = (inputs.source != PAD_SAMPLE).sum(1)
    assert len(set(lengths.tolist())) > 2 and inputs.pad == PAD_SAMPLE == app.model.encoder.embedding.pad
    assert inputs.row(1).source.shape == (1, lengths[1])
    assert (inputs.padded(2, 40).source[:, -80:] == PAD_SAMPLE).all()
    assert (inputs.target is not None) == (kind == "write")


def test_a_broken_front_end_is_found(kind: str, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "see":
        forward = Patches.forward

        def transposed(self: Patches, inputs: Tensor) -> Tensor:
            return forward(self, inputs.transpose(2, 3))

        monkeypatch.setattr(Patches, "forward", transposed)
        broken = {"front end = formula"}
    else:
        normalised = Frames.normalised

        def over_padding(self: Frames, spectrogram: Tensor, real: Tensor) -> Tensor:
            return normalised(self, spectrogram, torch.ones_like(real))

        monkeypatch.setattr(Frames, "normalised", over_padding)
        broken = {"front end = formula", "batched = single", "padded = unpadded"}
    found = verify(replace(subject_of(app.loaded, app.decode_config()), loss=None, engines={}, search=None))
    assert broken <= {check.name for check in found.checks if check.status == "failed"}


def test_a_random_front_end_is_found(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = type(app.model.encoder.embedding).forward
    monkeypatch.setattr(
        type(app.model.encoder.embedding), "forward", lambda self, inputs: nn.functional.dropout(forward(self, inputs))
    )
    found = verify(replace(subject_of(app.loaded, app.decode_config()), loss=None, engines={}, search=None))
    assert "again = before" in {check.name for check in found.checks if check.status == "failed"}


def test_heads_are_ablated(kind: str, app: App, data: tuple[Path, ...]) -> None:
    found = app.ablate([*map(str, data)], parts="heads", limit=3)
    assert found.study.texts == 3 and len(found.rows) == (6 if kind == "write" else 2)
    assert {row.layer for row in found.rows} == {0}


def test_a_custom_task_with_another_front_end_needs_a_built_in_base(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MediaClassification", "Transcription"):
        monkeypatch.setattr(f"clearhead.apps.checks.promise_subjects.{name}", Config)
    with pytest.raises(ConfigError) as caught:
        subject_of(app.loaded, app.decode_config())
    assert (caught.value.name, caught.value.value) == ("model.front", app.config.model.front)


def test_outcomes_are_kept_for_the_content_of_files_whatever_their_names(app: App, data: tuple[Path, ...]) -> None:
    def kept() -> int:
        return app.ablate([*map(str, data)], parts="feed-forwards", keep=True).study.kept

    assert kept() == 0 and kept() > 0
    media = data[0] if data[0].suffix == ".npy" else data[0].with_name("2.wav")
    content = bytearray(media.read_bytes())
    content[-2] ^= 1
    media.write_bytes(content)
    assert kept() == 0
