"""`clearhead info`: show the components of a model, trained or not, with their parameters and shapes."""

from pathlib import Path
from typing import Any

from ...config import FAMILIES, Config, ModelConfig, preset, settings
from ...config.messages import printable, say
from ...config.presets import render_sources
from ..folder_summary import render_folder, summarize_folder
from ..models import add_consent
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb
from ..setting_options import add_settings, configure, given_settings

_SOURCE, _TARGET = "model.src_vocab_size", "model.tgt_vocab_size"
_SHORT = {"train.preset": ["--preset"], _SOURCE: ["--src-vocab"], _TARGET: ["--tgt-vocab"]}
_SIDE = "size of the {} vocabulary; separate vocabularies can only be tied with --model.tie=target"
_HELPS = {
    "train.preset": "model size or published model, with its vocabulary (default: base)",
    _SOURCE: _SIDE.format("source"),
    _TARGET: _SIDE.format("target"),
}
_PAPERS_VOCABULARY = 37_000  # section 5.1: shared, English and German
_OTHER_STACK = {"encoder-only": "decoder", "decoder-only": "encoder"}  # which a topology doesn't have


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder (default: use the settings below)")
    parser.add_argument("--vocab", metavar="N", help="size of a vocabulary shared by source and target")
    parser.add_argument("--config", metavar="FILE", help="TOML file or recipe; options override its settings")
    parser.add_flag("--json", "print the results as JSON")
    add_consent(parser)
    add_settings(parser, ["train.preset", *_shape()], _SHORT, helps=_HELPS)


def _run(options: Options) -> None:
    if options.folder is None:
        config, folder = _configured(options), None
    elif given_settings(options) or options.vocab or options.config:
        raise UsageError(f"{options.folder} has its own settings", fix="leave out the folder or the settings")
    else:
        from ...folder.model_folder import model_path

        path = model_path(options.folder)
        config, folder = summarize_folder(path, allow_custom_code=options.allow_custom_code)
        _check_files(config.model, path)
    print(_as_json(config, folder) if options.json else printable(_as_text(config, folder)))


def _configured(options: Options) -> Config:
    """Build the configuration from the options, including vocabulary sizes."""
    given = vars(options)
    if not given_settings(options) and not options.config:
        raise UsageError("no model is given", fix="name a model folder, or a shape such as --preset base")
    if (_SOURCE in given) != (_TARGET in given) or (options.vocab and _SOURCE in given):
        what = "the vocabulary sizes contradict each other"
        raise UsageError(what, fix="use --vocab N, or both --src-vocab N and --tgt-vocab N")
    two = _SOURCE in given and given.get("train.preset") not in FAMILIES
    if options.vocab:
        given |= {_SOURCE: options.vocab, _TARGET: options.vocab}
    config = _as_published(configure(options, defaults={"model.tie": "none"} if two else None))
    sizes = config.model.vocabulary_sizes
    if any(sizes.values()) or not sizes:
        return config
    say(f"assuming one vocabulary of {_PAPERS_VOCABULARY:,} tokens, as in the paper; change it with --vocab N")
    return config.override({_SOURCE: _PAPERS_VOCABULARY, _TARGET: _PAPERS_VOCABULARY})


def _as_published(config: Config) -> Config:
    """Return the configuration with the settings that depended on a published model's data, unless set by the user."""
    family = FAMILIES.get(config.train.preset or "")
    if family is None:
        return config
    head = config.model.head if config.is_users("model.head") else family.data.get("model.head", "none")
    values = {**family.settings(head), **family.data}
    open_ = {name: value for name, value in values.items() if config.origin(name) in ("default", "family")}
    return config.choose(open_, "family")


def _as_text(config: Config, folder: dict[str, Any] | None) -> str:
    from ...inspection.record.parts import render_footprint, render_parts
    from ...inspection.views.flow import dimension_flow, render_flow

    empty = _empty_model(config.model)
    family = FAMILIES.get(config.train.preset or "") if folder is None else None
    title = [f"{family.title} ({family.paper})"] if family else []
    sections = ["\n".join([*title, _headline(config.model)]), *([render_folder(config, folder)] if folder else [])]
    sections += [f"settings by source\n{render_sources(config.by_origin())}"] if folder else []
    if folder is None and (rows := [f"{name:<26}{one:<26}{base}" for name, one, base in _differences(config.model)]):
        sections.append("\n".join([f"{'settings':<26}{'here':<26}the paper's base model", *rows]))
    sections += [f"parameters\n{render_parts(empty)}", f"memory\n{render_footprint(empty)}"]
    return "\n\n".join([*sections, f"dimensions\n{render_flow(dimension_flow(empty))}"])


def _differences(model: ModelConfig) -> list[tuple[str, str, str]]:
    """Return the settings with other values than in the paper's base model: name, value and the paper's value."""
    base, missing = Config().override(preset("base")).model, f"n_{_OTHER_STACK.get(model.topology)}_layers"
    skipped = {f"model.{name}" for name in ("src_vocab_size", "tgt_vocab_size", "n_classes", missing)}
    values = {name: [getattr(it, name.removeprefix("model.")) for it in (model, base)] for name in _shape()}
    return [
        (name, _shown(name, one), _shown(name, other))
        for name, (one, other) in values.items()
        if one != other and name not in skipped
    ]


def _shape() -> list[str]:
    return [name for name in settings() if name.startswith("model.")]


def _shown(name: str, value: object) -> str:
    """Return a value as text. For one that's chosen later, that's the description of the default in its help."""
    if value is None:
        return settings()[name].help.partition("(default: ")[2].removesuffix(")") or "none"
    if isinstance(value, bool | str):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _as_json(config: Config, folder: dict[str, Any] | None) -> str:
    from ...inspection.record.parts import count_parameters, footprint, parts
    from ...inspection.views.flow import dimension_flow

    empty = _empty_model(config.model)
    parameters = {**count_parameters(empty), "parts": [part.to_dict() for part in parts(empty)]}
    flow = [step.to_dict() for step in dimension_flow(empty)]
    values = {
        **(folder or {}),
        "parameters": parameters,
        "memory": footprint(empty),
        "flow": flow,
        "settings": config.to_dict(),
        "sources": dict(config.origins),
    }
    return to_json(values)


def _check_files(config: ModelConfig, folder: Path) -> None:
    """Raise ModelError if the weights or the tokenizer don't fit the configuration, which could be huge, or damaged."""
    from ...folder.adapters import ADAPTER_WEIGHTS
    from ...folder.model_folder import TOKENIZER, WEIGHTS, load_model_folder, read_tokenizer
    from ...tokenization.source_and_target import Tokenizers

    if any((folder / name).exists() for name in (WEIGHTS, ADAPTER_WEIGHTS)):
        load_model_folder(folder, allow_custom_code=True, numpy=True)
    Tokenizers.for_model(read_tokenizer(folder), config, origin=str(folder / TOKENIZER))


def _empty_model(config: ModelConfig) -> Any:
    """Build the model on torch's meta device, with shapes but no values. This is instant at any size."""
    import torch

    from ...model.transformer import build

    with torch.device("meta"):
        return build(config)


def _headline(model: ModelConfig) -> str:
    stacks = ("encoder", "decoder")
    layers = [str(getattr(model, f"n_{it}_layers")) for it in stacks if it != _OTHER_STACK.get(model.topology)]
    sizes = " and ".join(f"{size:,}" for size in sorted({*model.vocabulary_sizes.values()}))
    reads = [f"vocabulary {sizes}, tied: {model.tie}"] if sizes else []
    if model.front == "patches" and model.image_size and model.patch_size:
        reads.insert(0, f"images of {model.image_size} pixels a side in patches of {model.patch_size}")
    parts = (
        f"{model.topology}: {' + '.join(layers)} layers, d_model {model.d_model}, {model.n_heads} heads, "
        f"d_ff {model.d_ff:,}, {model.attention} attention, {model.positions} positions, "
        f"{'pre' if model.pre_norm else 'post'}-norm, {model.feed_forward}"
    )
    return "; ".join([parts, *reads])


VERB = Verb(
    name="info",
    summary="show the components of a model with their parameters and shapes",
    usage="[DIR] [--preset NAME] [options]",
    examples=(
        "clearhead info models/en-fr",
        "clearhead info --preset gpt2",
        "clearhead info --preset base --src-vocab 10000 --tgt-vocab 10000",
        "clearhead info --preset big --vocab 37000 --json",
    ),
    add_options=_add_options,
    run=_run,
)
