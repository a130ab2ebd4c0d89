"""`clearhead explain`: one sentence on its way through the model, and Equation 1 step by step with its own numbers."""

from pathlib import Path

from .output import say, to_json
from .parser import Options, Parser, UsageError, Verb
from .using import add_model_options, open_model

_PLACES = ("encoder.self", "decoder.self", "decoder.cross")


def _add_options(parser: Parser) -> None:
    add_model_options(parser)
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the sentence to explain")
    parser.add_argument("--attention", choices=_PLACES, default="decoder.cross", help="which attention is shown")
    parser.add_argument("--layer", type=int, default=0, metavar="N", help="of that attention, from 0 (default: 0)")
    parser.add_argument("--head", type=int, default=0, metavar="N", help="of that layer, from 0 (default: 0)")
    parser.add_argument("--png", metavar="FILE", help="draw the weights of all heads of the layer, and print nothing")
    parser.add_argument(
        "--alignment", action="store_true", help="print pairs i-j alone: source word i, word j of the translation"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def _run(options: Options) -> None:
    if options.text is None:
        raise UsageError('a model folder and a sentence are needed: clearhead explain DIR "a sentence"')
    if sum(map(bool, (options.png, options.alignment, options.json))) > 1:
        raise UsageError("--png, --alignment and --json exclude each other; expected one of them")
    app, decode = open_model(options)
    explanation = app.explain(options.text, **decode)
    if options.png:
        from ..figures import attention_heatmap

        rows, columns = explanation.axes(options.attention)
        weights = explanation.weights(options.attention, options.layer).numpy(force=True)
        title = f"{options.attention}, layer {options.layer}"
        attention_heatmap(weights, columns, rows, Path(options.png), title)
        say(f"written to {options.png}")
    elif options.alignment:
        print(" ".join(f"{source}-{target}" for source, target in explanation.alignment()))
    else:
        shown = (options.attention, options.layer, options.head)
        print(to_json(explanation.to_dict(*shown)) if options.json else explanation.render(*shown))


VERB = Verb(
    name="explain",
    summary="show a sentence on its way through the model, and attention step by step",
    usage='DIR "TEXT" [options]',
    examples=(
        'clearhead explain models/en-fr "I am hungry."',
        'clearhead explain models/en-fr "I am hungry." --attention encoder.self --layer 1 --head 3',
        'clearhead explain models/en-fr "I am hungry." --png attention.png',
        'clearhead explain models/en-fr "I am hungry." --alignment',
    ),
    add_options=_add_options,
    run=_run,
)
