"""`clearhead explain`: a text on its way through a model, seen from every side; all views are drawn from one record."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...config.messages import say
from ...inspection.views.attention_distance import PLACES
from ..input_texts import text_of, warn, whole_text
from ..model_options import NO_FOLDER, WATCHED, add_greedy, add_search_options, open_model, settle_greedy
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb, given_settings, new_picture

if TYPE_CHECKING:
    from ...inspection.views.explanation import Explanation

_VIEWS = ("step", "heads", "decode", "lens", "why", "alignment", "film")


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="a model folder")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the sentence to explain")
    parser.add_argument("--context", metavar="FILE", help="the text in which a question is answered; - is stdin")
    parser.add_argument("--step", choices=["attention"], help="Equation 1 step by step, with the numbers of one head")
    parser.add_argument("--heads", action="store_true", help="all heads as small pictures, each with its entropy")
    parser.add_argument(
        "--decode", action="store_true", help="the search: what was kept and dropped in each step, why the winner won"
    )
    parser.add_argument("--lens", action="store_true", help="what each layer of the decoder would have said")
    parser.add_argument("--why", metavar="WORD", help="which part made it say this word of the answer, or this label")
    parser.add_argument("--not", dest="other", metavar="OTHER", help="rather than this one, beside --why")
    parser.add_argument(
        "--alignment",
        action="store_true",
        help="pairs i-j, source word i and word j of the translation, and which words each looked at; by the last "
        "layer but one (of fewer than three, the last), or by --layer N",
    )
    parser.add_argument(
        "--film",
        action="store_true",
        help="how it came to see the text of `train --watch` as it does; without TEXT; with --lens, what each layer "
        "would have said then",
    )
    parser.add_argument("--attention", choices=PLACES, help="which attention (default: the last of these that it has)")
    parser.add_argument(
        "--layer", type=int, metavar="N", help="of that attention, from 0 (default: 0; of --heads and pictures, all)"
    )
    parser.add_argument("--head", type=int, metavar="N", help="of that layer, from 0 (default: 0)")
    parser.add_argument(
        "--png", type=new_picture("png"), metavar="FILE", help="draw the view (usually the heads), print nothing"
    )
    parser.add_argument("--svg", type=new_picture("svg"), metavar="FILE", help="the same as a drawing without pixels")
    parser.add_argument("--gif", type=new_picture("gif"), metavar="FILE", help="the film as a moving picture")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON document")
    add_greedy(parser)
    add_search_options(parser, WATCHED)


def _run(options: Options) -> None:
    _check(options)
    if options.film:
        _show_film(options)
        return
    settle_greedy(options)
    app, decode = open_model(options, "translate", "summarize", "generate", "classify", "answer", one_answer=True)
    line = text_of(options.text)
    explanation = app.explain(line.text, *_context(app, options), **decode)
    warn("the text", line, app.reading(line.text))
    if options.png or options.svg:
        _draw(explanation, options)
    else:
        print(_shown(explanation, options))


def _check(options: Options) -> None:
    """Raise a UsageError where options contradict each other."""
    if options.film:
        if options.folder is None:
            raise UsageError(NO_FOLDER)
        if options.text is not None:
            raise UsageError(f"--film is of the text of `train --watch`; expected no {options.text!r} beside it")
        if useless := _useless_beside_film(options):
            raise UsageError(f"--film shows what a run has kept; expected no {' and '.join(useless)} beside it")
    elif options.text is None:
        raise UsageError('a model folder and a sentence are needed: clearhead explain DIR "a sentence"')
    views = [f"--{name}" for name in _VIEWS if getattr(options, name) not in (None, False)]
    if len(views) > 1 and views != ["--lens", "--film"]:
        raise UsageError(f"{' and '.join(views)} are different views; expected one of them")
    if sum(map(bool, (options.png, options.svg, options.gif, options.json))) > 1:
        raise UsageError("--png, --svg, --gif and --json exclude each other; expected one of them")
    if options.gif and not options.film:
        raise UsageError("--gif is the film as a moving picture; expected --film beside it, or --png")
    if options.alignment and (options.attention is not None or options.head is not None):
        raise UsageError(
            "--alignment is the mean of all heads of decoder.cross; expected no --attention or --head beside it"
        )
    if options.other is not None and options.why is None:
        raise UsageError(f"--not {options.other} says what a word is compared with; expected --why WORD before it")
    places = [f"--{name}" for name in ("attention", "layer", "head") if getattr(options, name) is not None]
    drawn = options.png or options.svg
    whole = options.lens or options.decode or options.why is not None
    if places and (whole or not (views or drawn or options.json)):
        raise UsageError(
            f"this view is of the whole model; expected no {' and '.join(places)} beside it (--heads and --step "
            "attention are of a place)"
        )
    if options.head is not None and (options.heads or drawn):
        raise UsageError("all heads of a layer are shown; expected no --head beside --heads, --png or --svg")
    if options.film and options.lens and (drawn or options.gif):
        raise UsageError("--film and --lens together are words; expected no --png, --svg or --gif beside it")
    if drawn and options.step:
        raise UsageError("--step attention is numbers; expected no --png or --svg beside it")


def _useless_beside_film(options: Options) -> list[str]:
    """What asks for one head, for another search or for a text: the run has kept what it has kept."""
    found = [f"--{name}" for name in ("head", "context") if getattr(options, name) is not None]
    found += ["--greedy"] * options.greedy
    if options.json:  # which has all of it
        found += [f"--{name}" for name in ("attention", "layer") if getattr(options, name) is not None]
    return found + [f"--{name.split('.')[1].replace('_', '-')}" for name in given_settings(options)]


def _context(app: Any, options: Options) -> list[str]:
    """The text beside a question, for a model that answers from one."""
    if app.task.verb != "answer":
        if options.context is not None:
            raise UsageError(f"--context is for models that answer questions, and this one learnt to {app.task.verb}")
        return []
    if options.context is None:
        raise UsageError("this model answers questions from a text; expected --context FILE")
    return [whole_text(options.context)]


def _shown(explanation: "Explanation", options: Options) -> str:
    """The view that was asked for."""
    place, head = options.attention or explanation.main_place, options.head or 0
    if options.why is not None:
        why = explanation.why(options.why, options.other)
        if not options.json:
            return why.render()
        return to_json({"format_version": 1, "source": explanation.text, "text": explanation.answer} | why.to_dict())
    if options.json:
        return to_json(explanation.to_dict(place, options.layer or 0, head))
    if options.alignment:
        return explanation.render_alignment(options.layer)
    if options.step:
        return explanation.render_attention(place, options.layer or 0, head)
    if options.heads:
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        return explanation.render_heads(place, options.layer, color=color)
    if options.decode:
        return explanation.searched.render()
    return explanation.lens.render() if options.lens else explanation.render()


def _draw(explanation: "Explanation", options: Options) -> None:
    """The view that was asked for, as a picture."""
    from ...inspection.views import drawings

    path = options.png or options.svg
    if options.why is not None:
        drawings.draw_attribution(explanation.why(options.why, options.other), path)
    elif options.alignment:
        drawings.draw_alignment(explanation, options.layer, path)
    elif options.lens:
        drawings.draw_lens(explanation.lens, path)
    elif options.decode:
        drawings.draw_search(explanation.searched, path)
    else:
        place = options.attention or explanation.main_place
        drawings.draw_heads(explanation, place, options.layer, path)
    say(f"written to {path}")


def _show_film(options: Options) -> None:
    """What was kept while the model was trained: no model is needed for it."""
    from ...folder.checkpoint import FILM
    from ...folder.model_folder import read_config
    from ...inspection.film.film import Film
    from ...scoring.score_labels import LABELS
    from ...training.report.metrics import read_metrics

    read_config(Path(options.folder))  # what is no model folder is named as such
    path = Path(options.folder) / FILM
    labels = {name: label.name for name, label in LABELS.items()}
    film = Film.of(read_metrics(path) if path.exists() else [], Path(options.folder), labels)
    if options.json:  # has all places, and is there without any
        print(to_json(film.to_dict()))
        return
    if options.lens:
        print(film.render_lens())
        return
    place = film.place(options.attention, options.layer or 0)
    picture = options.png or options.svg or options.gif
    if picture:
        film.draw(place, picture, moving=bool(options.gif))
        say(f"written to {picture}")
    else:
        print(film.render(place, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))


VERB = Verb(
    name="explain",
    summary="show a text on its way through the model: shapes, attention, search, layers, reasons",
    usage='DIR "TEXT" [options]',
    examples=(
        'clearhead explain models/en-fr "I am hungry."',
        'clearhead explain models/en-fr "I am hungry." --step attention --layer 1 --head 3',
        'clearhead explain models/en-fr "I am hungry." --heads',
        'clearhead explain models/en-fr "I am hungry." --decode',
        'clearhead explain models/en-fr "I am hungry." --lens',
        'clearhead explain models/en-fr "I am hungry." --why faim --not soif',
        'clearhead explain models/en-fr "I am hungry." --png attention.png',
        "clearhead explain models/en-fr --film",
    ),
    add_options=_add_options,
    run=_run,
)
