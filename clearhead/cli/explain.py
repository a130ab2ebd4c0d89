"""`clearhead explain`: one sentence on its way through the model, and Equation 1 step by step with its own numbers."""

from ..inspection.places import PLACES
from ..messages import say
from .output import to_json
from .parser import Options, Parser, UsageError, Verb, new_file
from .reading import text_of, warn
from .using import add_model_options, open_model

_CROSS = "decoder.cross"


def _add_options(parser: Parser) -> None:
    add_model_options(parser)
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the sentence to explain")
    parser.add_argument("--attention", choices=PLACES, help=f"which attention is shown (default: {_CROSS})")
    parser.add_argument("--layer", type=int, metavar="N", help="of that attention, from 0 (default: 0)")
    parser.add_argument("--head", type=int, metavar="N", help="of that layer, from 0 (default: 0)")
    parser.add_argument(
        "--png", type=new_file, metavar="FILE", help="draw the weights of all heads of the layer, and print nothing"
    )
    parser.add_argument(
        "--alignment",
        action="store_true",
        help="print pairs i-j alone: source word i, word j of the translation; by the last layer but one (of fewer "
        "than three, the last), or by --layer N",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def _run(options: Options) -> None:
    if options.text is None:
        raise UsageError('a model folder and a sentence are needed: clearhead explain DIR "a sentence"')
    if sum(map(bool, (options.png, options.alignment, options.json))) > 1:
        raise UsageError("--png, --alignment and --json exclude each other; expected one of them")
    if options.alignment and (options.attention is not None or options.head is not None):
        raise UsageError(
            f"--alignment is the mean of all heads of {_CROSS}; expected no --attention or --head beside it"
        )
    if options.png and options.head is not None:
        raise UsageError("--png draws all heads of a layer; expected no --head beside it")
    app, decode = open_model(options, "translate", "summarize", one_answer=True)
    line = text_of(options.text)
    explanation = app.explain(line.text, **decode)
    warn("the text", line, app.reading(line.text))
    place, layer, head = options.attention or _CROSS, options.layer or 0, options.head or 0
    if options.png:
        from ..figures import attention_heatmap

        rows, columns = explanation.axes(place)
        weights = explanation.weights(place, layer).numpy(force=True)
        attention_heatmap(weights, columns, rows, options.png, f"{place}, layer {layer}")
        say(f"written to {options.png}")
    elif options.alignment:
        print(" ".join(f"{source}-{target}" for source, target in explanation.alignment(options.layer)))
    else:
        print(
            to_json(explanation.to_dict(place, layer, head)) if options.json else explanation.render(place, layer, head)
        )


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
