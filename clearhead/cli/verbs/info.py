"""`clearhead info`: show the components of a model, trained or not, with their parameters and shapes."""

from pathlib import Path
from typing import Any

from ...config import Config, ModelConfig, settings
from ...config.messages import say
from ...config.provenance import render_sources
from ..configure import configure
from ..folder_summary import render_folder, summarize_folder
from ..models import add_consent
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb
from ..setting_options import add_settings, given_settings

_SOURCE, _TARGET = "model.src_vocab_size", "model.tgt_vocab_size"
_SHORT = {"train.preset": ["--preset"], _SOURCE: ["--src-vocab"], _TARGET: ["--tgt-vocab"]}
_SIDE = "size of the {} vocabulary; separate vocabularies can only be tied with --model.tie=target"
_HELPS = {
    "train.preset": "model size (default: base)",
    _SOURCE: _SIDE.format("source"),
    _TARGET: _SIDE.format("target"),
}
_PAPERS_VOCABULARY = 37_000  # section 5.1: shared, English and German


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder (default: use the settings below)")
    parser.add_argument("--vocab", metavar="N", help="size of a vocabulary shared by source and target")
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings; options override it")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    add_consent(parser)
    shape = [name for name in settings() if name.startswith("model.")]
    add_settings(parser, ["train.preset", *shape], _SHORT, helps=_HELPS)


def _run(options: Options) -> None:
    if options.folder is None:
        config, folder = _configured(options), None
    elif given_settings(options) or options.vocab or options.config:
        raise UsageError(f"{options.folder} has its own settings", fix="leave out the folder or the settings")
    else:
        config, folder = summarize_folder(Path(options.folder), allow_custom_code=options.allow_custom_code)
        _check_sizes(config.model, Path(options.folder))
    print(_as_json(config, folder) if options.json else _as_text(config, folder))


def _configured(options: Options) -> Config:
    """Build the configuration from the options, including vocabulary sizes."""
    given = vars(options)
    if not given_settings(options) and not options.config:
        raise UsageError("no model is given", fix="name a model folder, or a shape such as --preset base")
    if (_SOURCE in given) != (_TARGET in given) or (options.vocab and _SOURCE in given):
        raise UsageError(
            "the vocabulary sizes contradict each other", fix="use --vocab N, or both --src-vocab N and --tgt-vocab N"
        )
    if _SOURCE in given:
        return configure(options, defaults={"model.tie": "none"})
    if options.vocab:
        given |= {_SOURCE: options.vocab, _TARGET: options.vocab}
        return configure(options)
    config = configure(options)
    if config.model.src_vocab_size or config.model.tgt_vocab_size:
        return config
    say(f"assuming one vocabulary of {_PAPERS_VOCABULARY:,} tokens, as in the paper; change it with --vocab N")
    return config.override({_SOURCE: _PAPERS_VOCABULARY, _TARGET: _PAPERS_VOCABULARY})


def _as_text(config: Config, folder: dict[str, Any] | None) -> str:
    from ...inspection.record.parts import render_parts
    from ...inspection.views.flow import dimension_flow, render_flow

    empty = _empty_model(config.model)
    sections = [_headline(config.model), *([render_folder(config, folder)] if folder else [])]
    sections += [f"settings by source\n{render_sources(config.by_origin())}"] if folder else []
    sections += [f"parameters\n{render_parts(empty)}", f"dimensions\n{render_flow(dimension_flow(empty))}"]
    return "\n\n".join(sections)


def _as_json(config: Config, folder: dict[str, Any] | None) -> str:
    from ...inspection.record.parts import count_parameters, parts
    from ...inspection.views.flow import dimension_flow

    empty = _empty_model(config.model)
    parameters = {**count_parameters(empty), "parts": [part.to_dict() for part in parts(empty)]}
    flow = [step.to_dict() for step in dimension_flow(empty)]
    values = {
        **(folder or {}),
        "parameters": parameters,
        "flow": flow,
        "settings": config.to_dict(),
        "sources": dict(config.origins),
    }
    return to_json(values)


def _check_sizes(config: ModelConfig, folder: Path) -> None:
    """Raise ModelError if the stored weights don't fit the configuration, before building what could be huge."""
    from ...folder.model_folder import weight_shapes
    from ...model.restore import check_shapes

    if shapes := weight_shapes(folder):
        check_shapes(config, shapes)


def _empty_model(config: ModelConfig) -> Any:
    """Build the model on torch's meta device, with shapes but no values. This is instant at any size."""
    import torch

    from ...model.transformer import build

    with torch.device("meta"):
        return build(config)


def _headline(model: ModelConfig) -> str:
    sizes = {"encoder-only": [model.src_vocab_size], "decoder-only": [model.tgt_vocab_size]}.get(
        model.topology, sorted({model.src_vocab_size, model.tgt_vocab_size})
    )
    layers = {"encoder-only": f"{model.n_encoder_layers}", "decoder-only": f"{model.n_decoder_layers}"}.get(
        model.topology, f"{model.n_encoder_layers} + {model.n_decoder_layers}"
    )
    return (
        f"{model.topology}: {layers} layers, d_model {model.d_model}, {model.n_heads} heads, d_ff {model.d_ff:,}, "
        f"{model.attention} attention, {model.positions} positions, {'pre' if model.pre_norm else 'post'}-norm, "
        f"{model.activation}; "
        f"vocabulary {' and '.join(f'{size:,}' for size in sizes)}, tied: {model.tie}"
    )


VERB = Verb(
    name="info",
    summary="show the components of a model with their parameters and shapes",
    usage="[DIR] [--preset NAME] [options]",
    examples=(
        "clearhead info models/en-fr",
        "clearhead info --preset base --src-vocab 10000 --tgt-vocab 10000",
        "clearhead info --preset big --vocab 37000 --json",
    ),
    add_options=_add_options,
    run=_run,
)
