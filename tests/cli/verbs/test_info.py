import json
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.cli.folder_summary import render_folder, summarize_folder
from clearhead.folder.manifest import mark_finished
from clearhead.folder.model_folder import model_files, read_config, save_files, weights_to_bytes
from clearhead.training.report.metrics import MetricsLog

from ..conftest import Run


def test_the_base_model_with_two_vocabularies_has_the_parameters_of_the_plan(run: Run) -> None:
    done = run("info", "--preset", "base", "--src-vocab", "10000", "--tgt-vocab", "10000")
    assert (done.code, done.err) == (0, "")
    rows = dict(line.rsplit(None, 1) for line in done.out.splitlines() if line.startswith("t"))
    assert rows["total"] == rows["trainable"] == "59,508,496"


@pytest.mark.parametrize(("preset", "total"), [("base", 63_082_496), ("big", 214_245_376)])
def test_one_vocabulary_is_shared_and_by_default_it_is_that_of_the_paper(run: Run, preset: str, total: int) -> None:
    named = run("info", "--preset", preset, "--vocab", "37000", "--json")
    default = run("info", "--preset", preset, "--json")
    assert json.loads(named.out)["parameters"]["total"] == total
    assert (default.out, named.err) == (named.out, "")
    assert "37,000" in default.err and "--vocab" in default.err


def test_a_part_of_one_s_own_is_shown_and_one_that_there_is_not_is_a_wrong_use(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3] / "clearhead" / "examples")
    done = run("info", "--preset", "nano", "--model.attention=own_attention:LinearAttention", "--vocab", "50")
    assert done.code == 0 and "own_attention:LinearAttention attention, sinusoidal positions" in done.out
    assert done.out.count("weights of LinearAttention ") == 3
    done = run("info", "--preset", "nano", "--model.positions=rotray", "--vocab", "50")
    assert (done.code, done.out) == (2, "") and "did you mean 'rotary'?" in done.err


def test_a_published_model_is_shown_with_its_own_vocabulary_and_what_makes_it_differ(run: Run) -> None:
    done = run("info", "--preset", "gpt2")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "GPT-2 124M (Radford et al. 2019)" and "vocabulary 50,257" in lines[1]
    assert "model.positions           learned                   sinusoidal" in lines
    assert "model.embedding_scale     1                         sqrt(model.d_model), section 3.4" in lines
    assert not any("vocab_size" in line or "model.n_encoder_layers" in line for line in lines)
    assert "total                                124,439,808" in lines
    assert "weights in float32                        498 MB" in lines
    assert lines[-1].endswith("(2, 12, 50257)")
    values = json.loads(run("info", "--preset", "gpt2", "--json").out)
    assert values["memory"]["float32"] == 4 * 124_439_808 and values["sources"]["model.max_len"] == "family"


def test_what_the_user_sets_replaces_what_was_published(run: Run) -> None:
    small = json.loads(run("info", "--preset", "gpt2", "--vocab", "1000", "--model.max_len=10", "--json").out)
    assert small["parameters"]["total"] == 124_439_808 - 768 * (50_257 - 1000 + 1024 - 10)
    label = ("info", "--preset", "bert-base", "--model.head=class", "--model.n_classes=2", "--json")
    assert json.loads(run(*label).out)["settings"]["model"]["head_layer"] == "tanh"


def test_images_are_shown_in_patches_and_without_a_vocabulary(run: Run) -> None:
    done = run("info", "--preset", "vit-tiny")
    assert (done.code, done.err) == (0, "")
    assert "images of 224 pixels a side in patches of 16\n" in done.out and "vocabulary" not in done.out
    assert [line.split("(")[1] for line in done.out.splitlines() if "inputs" in line] == ["2, 3, 224, 224)"]
    assert done.out.splitlines()[-1].endswith("(2, 1000)")


def test_the_papers_own_base_model_differs_in_nothing(run: Run) -> None:
    assert "the paper's base model" not in run("info", "--preset", "base").out
    assert "model.d_ff                256                       2,048\n" in run("info", "--preset", "nano").out


def test_the_flow_goes_from_source_and_target_to_logits(run: Run) -> None:
    arguments = ("info", "--preset", "base", "--src-vocab", "10000", "--tgt-vocab", "10000")
    lines = run(*arguments).out.split("\ndimensions\n")[1].splitlines()
    assert (lines[0], lines[1].split(maxsplit=1)) == ("encoder", ["tokens", "(2, 10)"])
    decoder = lines.index("decoder")
    assert lines[decoder - 1].split(maxsplit=1) == ["memory", "(2, 10, 512)"]
    assert lines[decoder + 1].split(maxsplit=1) == ["tokens", "(2, 12)"]
    assert lines[-1].endswith("(2, 12, 10000)")
    flow = json.loads(run(*arguments, "--json").out)["flow"]
    assert [tuple(step["shape"]) for step in flow] == [
        tuple(map(int, line.split("(")[-1].strip(")").split(","))) for line in lines if line.endswith(")")
    ]


def test_settings_may_come_from_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[train]\npreset = "nano"\n[model]\nn_heads = 8\n')
    values = json.loads(run("info", "--config", tmp_path / "run.toml", "--vocab", "100", "--json").out)
    assert (values["settings"]["model"]["n_heads"], values["settings"]["model"]["d_model"]) == (8, 128)


def test_sizes_of_vocabularies_may_come_from_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[model]\nsrc_vocab_size = 50\ntgt_vocab_size = 50\nd_model = 64\n")
    done = run("info", "--config", tmp_path / "run.toml", "--json")
    assert (done.err, json.loads(done.out)["flow"][-1]["shape"]) == ("", [2, 12, 50])


def test_a_choice_of_ties_holds(run: Run) -> None:
    arguments = ("info", "--preset", "nano", "--src-vocab", "90", "--tgt-vocab", "70", "--json")
    untied, tied = (json.loads(run(*arguments, *more).out) for more in ((), ("--model.tie=target",)))
    assert untied["parameters"]["total"] - tied["parameters"]["total"] == 70 * 128 + 70


def test_a_choice_of_ties_in_a_file_holds_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tied.toml").write_text('[model]\ntie = "target"\n')
    arguments = ("info", "--preset", "nano", "--src-vocab", "90", "--tgt-vocab", "70", "--json")
    by_file = run(*arguments, "--config", tmp_path / "tied.toml")
    assert json.loads(by_file.out)["parameters"] == json.loads(run(*arguments, "--model.tie=target").out)["parameters"]


def test_a_file_whose_section_is_none_is_refused_beside_two_sizes_as_elsewhere(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("model = 3\n")
    done = run("info", "--src-vocab", "90", "--tgt-vocab", "70", "--config", tmp_path / "run.toml")
    assert done.code == 2 and "model" in done.err


def test_of_equal_scores_at_one_step_those_of_the_mean_of_checkpoints_are_shown(run: Run, folder: Path) -> None:
    with MetricsLog(folder / "metrics.jsonl", after=0) as log:
        for more in ({"valid_chrf": 1.0}, {"valid_chrf": 2.0, "averaged": 2}):
            log.write({"step": 10, "valid_bleu": 3.5, "valid_loss": 5.5, **more})
    assert json.loads(run("info", folder, "--json").out)["validation"]["chrf"] == 2.0
    assert "(greedy, mean of 2 checkpoints, step 10)\n" in run("info", folder).out


def test_a_model_folder_shows_its_model_data_and_scores(run: Run, folder: Path, tmp_path: Path) -> None:
    with MetricsLog(folder / "metrics.jsonl", after=0) as log:
        for step, bleu in ((2, 3.5), (5, 1.0), (10, 3.5), (12, float("nan")), (15, 2.0)):
            scores = {"bleu": bleu, "chrf": 2 * bleu, "exact_match": 0.25, "loss": 9 - bleu}
            log.write({"step": step} | {f"valid_{name}": value for name, value in scores.items()})
    app = clearhead.load(folder)
    (tmp_path / "pairs.tsv").write_text("I am hungry.\tJ'ai faim.\n", encoding="utf-8")
    evaluation = app.evaluate(clearhead.read_pairs([tmp_path / "pairs.tsv"]))
    app.save_evaluation(evaluation)
    mark_finished(folder, 15)
    values = json.loads(run("info", folder, "--json").out)
    assert values["settings"] == json.loads(json.dumps(app.config.override({"train.device": "auto"}).to_dict()))
    assert values["parameters"]["total"] == sum(p.numel() for p in app.model.parameters())
    assert values["validation"] == {"step": 10, "bleu": 3.5, "chrf": 7.0, "exact_match": 0.25, "loss": 5.5}
    assert (values["finished"], values["evaluation"]) == (15, evaluation.to_dict() | {"outdated": False})
    text = run("info", folder).out
    assert (
        f"task        translate\nfolder      {folder}\ntrained     finished at step 15\ndata        pairs.tsv\n" in text
    )
    assert "tokenizer   bpe, one vocabulary\ntraining    batches of 1,024 tokens, auto, seed 0\n" in text
    assert values["engine"] == "torch" and "\nengine      torch, fp32 (chosen automatically)\n" in text
    for name, why in values["faster_engines"].items():
        assert f"\n            {name} is faster, but {why}\n" in text
    assert "validation  BLEU 3.50  chrF 7.00  exact match 0.2500 (greedy, step 10)\n" in text
    assert f"(1 sentence of {tmp_path / 'pairs.tsv'}; beam 4, alpha 0.6)\n" in text
    others = {name: torch.zeros_like(it) for name, it in app.model.state_dict().items()}
    save_files(folder, {"model.safetensors": weights_to_bytes(others)})
    assert "beam 4, alpha 0.6; these scores are of earlier weights, so evaluate again)\n" in run("info", folder).out


def test_steps_that_were_planned_are_called_so_where_others_were_taken(folder: Path) -> None:
    config, about = summarize_folder(folder)
    planned = config.override({"train.steps": 20})
    for finished, said in ((20, "20 steps"), (25, "20 steps planned"), (None, "20 steps planned")):
        assert f"\ntraining    {said}, batches" in render_folder(planned, {**about, "finished": finished})


def test_a_folder_of_a_run_that_has_no_weights_yet_shows_its_model(run: Run, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    done = run("info", folder)
    assert (done.code, done.err) == (0, "")
    assert "trained     not finished\n" in done.out


def test_what_is_no_model_folder_is_a_failure(run: Run, tmp_path: Path) -> None:
    assert run("info", tmp_path).code == 1 and str(tmp_path) in run("info", tmp_path).err
    done = run("info", tmp_path / "none")
    assert (done.code, done.out) == (1, "")


def test_a_damaged_configuration_is_a_failure(run: Run, folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    done = run("info", folder)
    assert done.code == 1 and "config.json" in done.err


def test_a_folder_and_settings_together_are_a_wrong_use(run: Run, folder: Path) -> None:
    for more in (["--preset", "nano"], ["--vocab", "9"], ["--config", "x.toml"], ["--model.d_ff=3"]):
        done = run("info", folder, *more)
        assert done.code == 2 and str(folder) in done.err


def test_neither_folder_nor_settings_is_a_wrong_use(run: Run) -> None:
    for more in ([], ["--vocab", "100"]):
        done = run("info", *more)
        assert done.code == 2 and "--preset base" in done.err


@pytest.mark.parametrize(
    "sizes",
    [["--src-vocab", "9"], ["--tgt-vocab", "9"], ["--vocab", "9", "--src-vocab", "9", "--tgt-vocab", "9"]],
    ids=["source", "target", "all"],
)
def test_one_size_or_both_are_expected(run: Run, sizes: list[str]) -> None:
    done = run("info", "--preset", "nano", *sizes)
    assert done.code == 2 and all(it in done.err for it in ("--vocab", "--src-vocab", "--tgt-vocab"))


def test_a_size_that_is_no_number_is_a_wrong_use(run: Run) -> None:
    done = run("info", "--preset", "nano", "--vocab", "many")
    assert done.code == 2 and "model.src_vocab_size" in done.err and "'many'" in done.err


def test_an_unknown_engine_in_a_folder_is_a_fault_of_the_folder(run: Run, folder: Path) -> None:
    config = read_config(folder).override({"decode.engine": "xyz"})
    save_files(folder, model_files(config=config.to_record()))
    for command in (["info", folder], ["translate", folder, "I am hungry."]):
        done = run(*command)
        assert done.code == 1 and "decode.engine" in done.err and str(folder) in done.err
    assert run("translate", folder, "I am hungry.", "--engine", "torch").code == 0
    assert run("translate", folder, "I am hungry.", "--engine", "xyy").code == 2
