import html
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead import ConfigError, DataError, load
from clearhead.folder.model_folder import model_files, read_config, save_files
from clearhead.model.transformer import build

from ..conftest import Run

EOS = 2  # the special tokens of a new vocabulary

TEXT = "She sings."


def test_a_sentence_is_shown_on_its_way_part_by_part(run: Run, model_folder: Path) -> None:
    done = run("explain", model_folder, TEXT, "--device", "cpu")
    assert (done.code, done.err) == (0, "")
    app = load(model_folder, device="cpu")
    assert done.out.startswith(f"text    {TEXT}\nanswer  {app(TEXT)}\n        score -")
    assert "the encoder reads" in done.out and "the decoder reads" in done.out
    stop = re.search(r"^  projection +\(1, (\d+), (\d+)\) +([\d,]+) +[\d.]+$", done.out, flags=re.MULTILINE)
    projection = app.model.decoder.projection
    assert stop is not None and int(stop[2]) == projection.out_features
    assert int(stop[3].replace(",", "")) == sum(p.numel() for p in projection.parameters())
    names = re.findall(r"^  (0\.\S+)", done.out, flags=re.MULTILINE)
    encoder = ["0.self", "0.add-norm-1", "0.feed-forward", "0.add-norm-2"]
    decoder = ["0.self", "0.add-norm-1", "0.cross", "0.add-norm-2", "0.feed-forward", "0.add-norm-3"]
    assert names == encoder + decoder
    said = " ".join(done.out.split())
    assert re.search(
        r"from Equation 1 (differs from the model's own by at most|equals the model's own, bit for bit)", said
    )
    assert max(map(len, done.out.splitlines())) <= 80


def test_attention_is_shown_with_equation_and_weights(run: Run, model_folder: Path) -> None:
    done = run("explain", model_folder, TEXT, "--step", "attention")
    assert done.out.startswith("attention decoder.cross, layer 0, head 0:\neach output token")
    for name in ("queries", "keys", "values", "scores", "scaled", "masked", "weights", "output"):
        assert re.search(rf"^{name} +.*\(1, 2, \d+, \d+\)$", done.out, flags=re.MULTILINE), name
    assert "masked    nothing is masked here" in done.out  # one sentence has no padding
    assert max(map(len, done.out.splitlines())) <= 80


def test_another_attention_can_be_chosen(run: Run, model_folder: Path) -> None:
    out = run("explain", model_folder, TEXT, "--step", "attention", "--attention", "decoder.self", "--head", 1).out
    assert "attention decoder.self, layer 0, head 1:\neach output token attends to itself" in out
    assert "masked    -inf where masked" in out


@pytest.mark.parametrize(
    ("view", "seen"),
    [
        (["--heads"], "head 1: entropy"),
        (["--heads", "--attention", "encoder.self", "--layer", "0"], "encoder.0.self: 2 heads; "),
        (["--decode", "--beam", "2"], "step 1: each beam's cache grows from 0 to 1 tokens"),
        (["--decode"], "answers by score = total / penalty"),
        (["--lens"], "* agrees with the answer"),
        (["--words"], "hiding"),
    ],
)
def test_every_view_fits_a_terminal(run: Run, model_folder: Path, view: list[str], seen: str) -> None:
    done = run("explain", model_folder, TEXT, *view)
    assert (done.code, done.err) == (0, "") and seen in done.out
    assert max(map(len, done.out.splitlines())) <= 80 or "--decode" in view  # answers stand whole
    assert "\x1b" not in done.out  # no terminal, no colours


def test_a_word_is_traced_back_to_the_parts_that_spoke_for_it(run: Run, word_model_folder: Path) -> None:
    app = load(word_model_folder, device="cpu")
    word = app.explain("She sings.").answer.split()[0]
    spoken = (it.removeprefix("▁") for it in app.tokenizers.target.vocabulary() if it.startswith("▁"))
    other = next(it for it in spoken if it.isalpha() and it != word)
    out = run("explain", word_model_folder, "She sings.", "--why", word, "--not", other).out
    assert out.startswith(f'why "▁{word}", not "▁{other}": the logits differ by')
    values = json.loads(run("explain", word_model_folder, "She sings.", "--why", word, "--not", other, "--json").out)
    assert (values["format_version"], values["source"], values["text"].split()[0]) == (1, "She sings.", word)
    parts = sum(it["value"] for it in values["contributions"])
    assert parts == pytest.approx(values["difference"], abs=1e-4) and values["error"] < 1e-4
    done = run("explain", word_model_folder, "She sings.", "--why", "nobody")
    assert done.code == 2 and "'nobody'" in done.err
    assert run("explain", word_model_folder, "She sings.", "--why", word, "--not", "").code == 2
    done = run("explain", word_model_folder, "She sings.", "--why", word, "--not", "zzz")
    assert done.code == 2 and "'zzz'" in done.err
    done = run("explain", word_model_folder, "She sings.", "--why", word, "--not", word)
    assert done.code == 2


def test_words_that_mattered_add_up(run: Run, model_folder: Path) -> None:
    values = json.loads(run("explain", model_folder, TEXT, "--words", "--json").out)
    falls, gradients = np.array(values["falls"]), np.array(values["gradients"])
    assert falls.shape == gradients.shape == (len(values["tokens"]), len(values["said"]))
    difference = np.array(values["whole"]) - np.array(values["nothing"])
    assert np.abs(gradients.sum(0) - difference).max() == pytest.approx(values["error"], abs=1e-6)
    assert values["error"] <= 0.02 * np.abs(difference).max()


@pytest.mark.parametrize("view", [[], ["--lens"], ["--decode"], ["--heads"], ["--alignment"]])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_view_is_a_picture_too(
    run: Run, model_folder: Path, tmp_path: Path, view: list[str], ending: str
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"view.{ending}"
    done = run("explain", model_folder, TEXT, *view, f"--{ending}", path)
    assert (done.code, done.out, done.err) == (0, "", f"wrote {path}\n")
    assert path.read_bytes().startswith({"png": b"\x89PNG", "svg": b"<?xml"}[ending])


def test_a_reason_is_a_picture_too(run: Run, word_model_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    word = load(word_model_folder, device="cpu").explain("She sings.").answer.split()[0]
    run("explain", word_model_folder, "She sings.", "--why", word, "--png", tmp_path / "why.png")
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


def test_json_holds_all_of_it(run: Run, model_folder: Path) -> None:
    done = run("explain", model_folder, TEXT, "--json", "--attention", "encoder.self")
    assert len(done.out.splitlines()) == 1
    values = json.loads(done.out)
    keys = {"format_version", "source", "text", "score", "log_probability", "tokens", "alignment", "alignment_layer"}
    more = {"word_weights", "flow", "attention", "parts", "compiled", "without", "heads", "lens", "search"}
    assert values.keys() == keys | more and values["format_version"] == 2
    result = load(model_folder, device="cpu").results([TEXT])[0]
    assert (values["source"], values["text"], values["score"]) == (TEXT, result.text, pytest.approx(result.score))
    assert values["tokens"].keys() == {"encoder", "decoder", "outputs"}
    assert values["tokens"]["outputs"] == list(result.tokens)
    attention = values["attention"]
    shown = {"place", "layer", "head", "rows", "columns"}
    assert attention.keys() == shown | {"largest_difference", "steps"} and attention["largest_difference"] < 1e-5
    assert attention["rows"] == attention["columns"] == values["tokens"]["encoder"]
    assert all(step.keys() == {"name", "formula", "shape", "values"} for step in attention["steps"])
    weights = next(step for step in attention["steps"] if step["name"] == "weights")
    length = len(values["tokens"]["encoder"])
    assert weights["shape"] == [1, 2, length, length]
    assert all(sum(row) == pytest.approx(1) for row in weights["values"])
    assert all(step.keys() == {"where", "what", "shape"} for step in values["flow"])
    assert values["flow"][0]["where"] == ["encoder"]
    assert values["heads"].keys() == {"encoder.0.self", "decoder.0.self", "decoder.0.cross"}
    assert values["lens"]["outputs"] == values["tokens"]["outputs"]
    assert values["search"]["answers"][0]["score"] == values["score"]
    assert {"stack", "name", "shape", "parameters", "milliseconds"} == values["parts"][0].keys()


def test_what_is_barred_is_null_in_json(run: Run, model_folder: Path) -> None:
    values = json.loads(run("explain", model_folder, TEXT, "--json", "--attention", "decoder.self").out)
    masked = next(step for step in values["attention"]["steps"] if step["name"] == "masked")
    for place, row in enumerate(masked["values"]):
        assert [value is None for value in row] == [column > place for column in range(len(row))]


@pytest.mark.parametrize(("more_likely", "end"), [(1000.0, ["</s>"]), (-1000.0, [])])
def test_the_end_is_shown_only_of_an_answer_that_came_to_it(
    model_folder: Path, more_likely: float, end: list[str]
) -> None:
    app = load(model_folder, device="cpu")
    likelier = torch.zeros(app.config.model.tgt_vocab_size)
    likelier[EOS] = more_likely
    app.model.decoder.projection.register_forward_hook(lambda _part, _inputs, logits: logits + likelier)
    result, explanation = app.results([TEXT], min_len=2)[0], app.explain(TEXT, min_len=2)
    assert len(result.logprobs) == len(result.tokens) + len(end) > 1
    assert explanation.outputs == (*result.tokens, *end)
    assert explanation.tokens["decoder"] == ("<s>", *explanation.outputs[:-1])
    assert explanation.weights("decoder.cross", 0).shape[1:] == (
        len(explanation.outputs),
        len(explanation.tokens["encoder"]),
    )
    assert [target for _, target in explanation.alignment()] == list(range(len(explanation.translation.split())))


def test_the_longest_source_is_explained_as_it_is_translated(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    longest = "7" * 38  # with the space in front 39 tokens, and the end has the last position
    result = app.results([longest], max_extra=50)[0]
    assert len(result.tokens) == app.config.model.max_len, "it uses every position, and does not end"
    assert app.explain(longest, max_extra=50).outputs == result.tokens


@pytest.fixture
def deep_model_folder(word_model_folder: Path, tmp_path: Path) -> Path:
    """A model of words with three layers in the decoder, each of which looks elsewhere."""
    config = read_config(word_model_folder).override({"model.n_decoder_layers": 3})
    with torch.random.fork_rng():
        torch.manual_seed(1)
        weights = build(config.model).state_dict()
    shutil.copytree(word_model_folder, tmp_path / "deep")
    save_files(tmp_path / "deep", model_files(config=config.to_dict(), weights=weights))
    return tmp_path / "deep"


def test_the_alignment_can_be_that_of_a_layer(run: Run, deep_model_folder: Path) -> None:
    text = "I am here We sleep well They sing You are late"
    shown = [run("explain", deep_model_folder, text, "--alignment", "--layer", layer).out for layer in range(3)]
    assert len(set(shown)) == 3
    assert run("explain", deep_model_folder, text, "--alignment").out == shown[1]
    values = json.loads(run("explain", deep_model_folder, text, "--json", "--layer", "2").out)
    assert (values["attention"]["layer"], values["alignment_layer"]) == (2, 1)
    assert shown[1].splitlines()[0] == " ".join(f"{i}-{j}" for i, j in values["alignment"])
    assert [max(range(len(row)), key=row.__getitem__) for row in values["word_weights"]] == [
        i for i, _ in values["alignment"]
    ]


@pytest.mark.parametrize(
    ("text", "words", "unknown"),
    [
        ("Zorro sings.", (0, 1, 1), '"Zorro"'),
        ("She Zorro sings.", (0, 1, 2, 2), '"Zorro"'),
        ("She Zorro Bernardo sings.", (0, 1, 2, 3, 3), '"Zorro", "Bernardo"'),
    ],
)
def test_a_word_that_the_model_does_not_know_is_one_of_the_words_and_is_named(
    run: Run, word_model_folder: Path, text: str, words: tuple[int, ...], unknown: str
) -> None:
    explanation = load(word_model_folder, device="cpu").explain(text)
    assert "<unk>" in explanation.tokens["encoder"] and explanation.source_words == words
    done = run("explain", word_model_folder, text, "--alignment")
    assert done.err == f"the text has words that the model doesn't know: {unknown}\n"
    assert done.out.splitlines()[0] == " ".join(f"{i}-{j}" for i, j in explanation.alignment())


def test_a_place_that_is_not_there_is_refused_with_those_that_are(model_folder: Path) -> None:
    explanation = load(model_folder, device="cpu").explain(TEXT)
    for ask in (explanation.axes, lambda place: explanation.weights(place, 0)):
        with pytest.raises(ConfigError, match="cross"):
            ask("cross")


def test_the_first_line_of_an_alignment_is_pairs_of_words(run: Run, model_folder: Path) -> None:
    out = run("explain", model_folder, TEXT, "--alignment").out
    pairs = [tuple(map(int, pair.split("-"))) for pair in out.splitlines()[0].split()]
    words = len(load(model_folder, device="cpu")(TEXT).split())
    assert [target for _, target in pairs] == list(range(words))
    assert all(0 <= source < len(TEXT.split()) for source, _ in pairs)


def test_all_heads_of_a_layer_are_drawn(run: Run, model_folder: Path, tmp_path: Path) -> None:
    done = run("explain", model_folder, TEXT, "--png", tmp_path / "new" / "attention.png")
    assert (done.code, done.out, done.err) == (0, "", f"wrote {tmp_path / 'new' / 'attention.png'}\n")
    assert (tmp_path / "new" / "attention.png").read_bytes().startswith(b"\x89PNG")


def test_a_notebook_shows_what_a_terminal_does(word_model_folder: Path) -> None:
    explanation = load(word_model_folder, device="cpu").explain("She <i> sings.")
    assert repr(explanation) == f"Explanation('She <i> sings.' -> {explanation.answer!r})"
    for seen in (explanation.lens, explanation.searched, explanation.why()):
        shown = seen._repr_html_()
        assert html.unescape(shown) == f"<pre>{seen.render()}</pre>" and "<i>" not in shown
    frame = explanation._repr_html_()
    assert frame.startswith("<iframe ") and "<i>" not in frame
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    assert page.startswith("<!doctype html>") and '"source":"She \\u003ci\\u003e sings."' in page


def test_looking_changes_no_bit_of_the_answer(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    before = app.results([TEXT])
    explanation = app.explain(TEXT)
    assert app.results([TEXT]) == before
    assert (explanation.translation, explanation.values["score"]) == (before[0].text, before[0].score)
    assert not any(part._forward_hooks for part in app.model.modules()) and not app.model.training


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ([], 2, "model folder"),
        (["{folder}"], 2, "clearhead explain DIR"),
        (["{folder}", " "], 1, "blank"),
        (["{folder}", "hungry " * 50], 1, "300 tokens"),
        (["{folder}", TEXT, "--step", "attention", "--layer", "1"], 2, "layer 1"),
        (["{folder}", TEXT, "--heads", "--layer", "-1"], 2, "layer -1"),
        (["{folder}", TEXT, "--step", "attention", "--head", "2"], 2, "head 2"),
        (["{folder}", TEXT, "--head", "x"], 2, "--head"),
        (["{folder}", TEXT, "--attention", "cross"], 2, "--attention"),
        (["{folder}", TEXT, "--json", "--png", "x.png"], 2, "--png"),
        (["{folder}", TEXT, "--lens", "--decode"], 2, "--decode and --lens"),
        (["{folder}", TEXT, "--lens", "--head", "1"], 2, "--head"),
        (["{folder}", TEXT, "--layer", "0", "--attention", "encoder.self"], 2, "--attention and --layer"),
        (["{folder}", TEXT, "--head", "99"], 2, "--head"),
        (["{folder}", TEXT, "--png", "x.svg"], 2, "--png"),
        (["{folder}", TEXT, "--svg", "x"], 2, "--svg"),
        (["{folder}", TEXT, "--heads", "--layer", "7", "--png", "x.png"], 2, "layer 7"),
        (["{folder}", TEXT, "--not", "x"], 2, "--why"),
        (["{folder}", TEXT, "--step", "attention", "--png", "x.png"], 2, "--step"),
        (["{folder}", TEXT, "--context", "x.txt"], 2, "--context"),
        (["{folder}", TEXT, "--decode", "--diverse", "--n-best", "2"], 2, "search"),
        (["{folder}", TEXT, "--alignment", "--head", "0"], 2, "--alignment"),
        (["{folder}", TEXT, "--alignment", "--attention", "encoder.self"], 2, "--attention"),
        (["{folder}", TEXT, "--alignment", "--layer", "7"], 2, "layer 7"),
        (["{folder}", TEXT, "--png", "x.png", "--head", "1"], 2, "--head"),
        (["{folder}", TEXT, "--png", "."], 2, "--png"),
        (["{folder}", TEXT, "--gif", "x.gif"], 2, "--film"),
        (["--film"], 2, "model folder"),
        (["{folder}", TEXT, "--film"], 2, "--film"),
        (["{folder}", "--film", "--beam", "2"], 2, "--beam"),
        (["{folder}", TEXT, "--temperature", "2"], 2, "--temperature 2"),
    ],
)
def test_what_cannot_be_explained_is_rejected(run: Run, model_folder: Path, arguments, code, named) -> None:
    done = run("explain", *(str(argument).replace("{folder}", str(model_folder)) for argument in arguments))
    assert (done.code, done.out) == (code, "")
    assert named in done.err and "Traceback" not in done.err


def test_an_answer_can_be_forced_and_parts_switched_off(run: Run, model_folder: Path) -> None:
    found = json.loads(run("explain", model_folder, TEXT, "--prefix", "Ils", "--json").out)
    assert found["text"].startswith("Ils") and found["without"] == []
    part = "decoder.0.cross.head.0"
    assert json.loads(run("explain", model_folder, TEXT, "--without", part, "--json").out)["without"] == [part]
    done = run("explain", model_folder, TEXT, "--without", "nothing")
    assert done.code == 2 and "isn't a part" in done.err


def test_a_prefix_needs_a_model_that_answers_with_a_text(run: Run, answer_folder: Path, tmp_path: Path) -> None:
    context = tmp_path / "context.txt"
    context.write_text("Ann and ten owls.", encoding="utf-8")
    done = run("explain", answer_folder, "Who was there?", "--context", context, "--prefix", "a")
    assert done.code == 2 and "--prefix is for models that translate" in done.err


def test_a_prefix_of_ids_must_be_of_the_vocabulary(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    first = app.explain(TEXT, prefix=[7]).said[0]
    assert first == 7
    for wrong in ([10_000], ["a"], 3.5, [True]):
        with pytest.raises(DataError) as error:
            app.explain(TEXT, prefix=wrong)
        assert error.value.name == "prefix"


def test_the_help_groups_the_options_by_what_they_are_for(run: Run) -> None:
    text = run("explain", "--help").out
    places = [text.index(f"\n{title}:\n") for title in ("view", "selection", "output", "decoding", "help")]
    assert places == sorted(places)
    for option, group in {"--lens": 0, "--layer": 1, "--without": 1, "--html": 2, "--beam": 3, "--greedy": 3}.items():
        assert places[group] < text.index(f"\n  {option}") < places[group + 1]
    assert [*run("explain", "--help-all").out.split("\nhelp:\n")][1].count("--help") == 2
