"""`clearhead explain`: follow one text, image or recording through a model. All views show the same recording."""

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from ...config.messages import say
from ...errors import ConfigError
from ...inspection.views import PLACES
from ..input_lines import text_of, warn, whole_text
from ..models import WATCHED, add_greedy, add_search_options, apply_greedy, open_model
from ..output import new_file_of, to_json
from ..parser import Options, Parser, UsageError, Verb
from ..setting_options import given_settings

if TYPE_CHECKING:
    from ...inspection.media.media_explanation import MediaExplanation
    from ...inspection.views.explanation import Explanation

_VIEWS = ("step", "heads", "decode", "lens", "words", "occlusion", "why", "alignment", "film")
_TOGETHER = (["--lens", "--film"], ["--words", "--why"], ["--occlusion", "--why"])


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="text, image file or audio file to explain")
    _add_views(parser)
    parser.section("selection")
    parser.add_argument("--context", metavar="FILE", help="file to find the answer in; - means standard input")
    parser.add_argument("--attention", choices=PLACES, help="attention module to show (default: the model's last)")
    parser.add_number("--layer", "layer index, starting at 0 (default: 0; all for --heads and images)")
    parser.add_number("--head", "head index, starting at 0 (default: 0)")
    parser.add_repeatable(
        "--without", "PART", "switch off a part, such as decoder.1.cross.head.0; can be given several times"
    )
    parser.section("output")
    files = {
        "png": "save the view as a PNG image (default view: --heads)",
        "svg": parser.rare("save the view as an SVG image"),
        "gif": parser.rare("save the film as an animated GIF"),
        "html": "save a page that shows everything, for any browser",
    }
    for ending, text in files.items():
        parser.add_value(f"--{ending}", "FILE", text, type=new_file_of(ending))
    parser.add_flag("--json", "print all results as one JSON document")
    parser.section("decoding")
    parser.add_argument("--prefix", metavar="TEXT", help="text that the answer starts with")
    add_greedy(parser)
    add_search_options(parser, WATCHED)


def _add_views(parser: Parser) -> None:
    parser.section("view")
    parser.add_argument("--step", choices=["attention"], help="show Equation 1 step by step for one head")
    parser.add_flag("--heads", "show a thumbnail of each head, with its entropy")
    parser.add_flag("--decode", "show the hypotheses that each search step kept and dropped")
    parser.add_flag("--lens", "show what each decoder layer would predict")
    how = "with --words or --occlusion, the label that they're about (default: the most likely one)"
    parser.add_argument("--why", metavar="WORD", help=f"show what made the model choose this word or label; {how}")
    parser.add_argument("--not", dest="other", metavar="OTHER", help="with --why, compare with this word or label")
    parser.add_flag("--words", "show which words of the text mattered for each word of the answer")
    how = "as i-j pairs, using cross-attention in --layer N (default: the second-to-last layer)"
    parser.add_flag("--alignment", f"align source and target words, {how}")
    how = "or stretch of a recording, and compare the drop in score with attention"
    parser.add_flag("--occlusion", f"hide each patch of an image, {how}")
    how = "for the text passed to `train --watch`; with --lens, show the predictions of each layer"
    parser.add_flag("--film", f"show how attention changed during training, {how}")


def _run(options: Options) -> None:
    _check(options)
    if options.film:
        _show_film(options)
        return
    apply_greedy(options)
    app, decode = open_model(options, one_answer=True)
    line = text_of(options.text)
    with app.without(*options.without):
        explanation = app.explain(line.text, *_context(app, options), **_prefix(app, options), **decode)
        if options.why is not None and (options.words or options.occlusion):
            explanation = explanation.about(options.why)
        warn(("the text", line), app.reading(line.text))
        if options.html:
            app = app.override({f"decode.{name}": value for name, value in decode.items()})
            _write_page(explanation, app, options)
        elif options.png or options.svg:
            _draw(explanation, options)
        else:
            print((_as_json if options.json else _as_text)(explanation, options))


def _check(options: Options) -> None:
    """Raise UsageError for options that contradict each other."""
    if options.film:
        _check_film(options)
    elif options.folder is None or options.text is None:
        raise UsageError("a model folder and a text are needed", fix='clearhead explain DIR "a sentence"')
    views = [f"--{name}" for name in _VIEWS if getattr(options, name) not in (None, False)]
    if len(views) > 1 and views not in _TOGETHER:
        raise UsageError(f"{' and '.join(views)} are different views", fix="choose one of them")
    if sum(map(bool, (options.png, options.svg, options.gif, options.html, options.json))) > 1:
        raise UsageError("--png, --svg, --gif, --html and --json can't be combined", fix="choose one of them")
    if options.html and views:
        raise UsageError(f"--html shows everything, so {' and '.join(views)} would have no effect", fix="leave it out")
    if options.gif and not options.film:
        raise UsageError("--gif draws the film", fix="add --film, or use --png")
    if options.alignment and (options.attention is not None or options.head is not None):
        raise UsageError("--alignment averages all heads of decoder.cross", fix="leave out --attention and --head")
    if options.other is not None and views != ["--why"]:
        raise UsageError("--not only works with --why, alone", fix="add --why WORD", value=options.other)
    _check_places(options, views)


def _check_places(options: Options, views: list[str]) -> None:
    """Raise UsageError if the view doesn't support the given layer, head or picture."""
    places = [f"--{name}" for name in ("attention", "layer", "head") if getattr(options, name) is not None]
    drawn = options.png or options.svg
    whole = options.lens or options.decode or options.words or options.occlusion or options.why is not None
    if places and (whole or not (views or drawn or options.json)):
        what = f"this view shows the whole model, so {' and '.join(places)} would have no effect"
        raise UsageError(what, fix="use them with --heads or --step attention")
    if options.head is not None and (options.heads or drawn):
        raise UsageError("--heads, --png and --svg show all heads of a layer", fix="leave out --head")
    if options.film and options.lens and (drawn or options.gif):
        raise UsageError("--film with --lens is text only", fix="leave out --png, --svg and --gif")
    if drawn and (options.step or options.words):
        name = "--step attention" if options.step else "--words"
        raise UsageError(f"{name} is text only", fix="leave out --png and --svg")


def _check_film(options: Options) -> None:
    """Raise UsageError for options that have no effect on a finished recording."""
    if options.folder is None:
        raise UsageError("no model folder is given", fix="name the folder of a run with train.watch")
    if options.text is not None:
        what = "--film always shows the text of `train --watch`"
        raise UsageError(what, fix="leave out the text", value=options.text)
    names = ["head", "context", "prefix", "without", "greedy"]
    names += ["attention", "layer"] * options.json  # JSON always includes every layer of every attention module
    given = {name: getattr(options, name) for name in names}
    useless = [f"--{name}" for name, it in given.items() if it is not False and it not in (None, [])]  # head 0 is given
    useless += [f"--{name.split('.')[1].replace('_', '-')}" for name in given_settings(options)]
    if useless:
        raise UsageError(f"--film shows a finished recording, so {' and '.join(useless)} would have no effect")


def _context(app: Any, options: Options) -> list[str]:
    """Return the text to find the answer in, for a model that answers questions."""
    if app.task.verb != "answer":
        if options.context is not None:
            raise UsageError(f"--context is for models that answer questions; this one is for `{app.task.verb}`")
        return []
    if options.context is None:
        raise UsageError("this model answers questions about a text", fix="name the text with --context FILE")
    return [whole_text(options.context)]


def _prefix(app: Any, options: Options) -> dict[str, str]:
    """Return the text that the answer starts with, for a model that answers one text with another."""
    if options.prefix is None:
        return {}
    if app.task.verb not in ("translate", "summarize", "transcribe"):
        raise UsageError(
            f"--prefix is for models that translate, summarize or transcribe; this one is for `{app.task.verb}`"
        )
    return {"prefix": options.prefix}


def _as_json(explanation: "Explanation", options: Options) -> str:
    """Return all results, or those of a view that's computed only on request."""
    about = {"format_version": 1, "source": explanation.text, "text": explanation.answer}
    if options.words:
        return to_json(about | explanation.words.to_dict())
    if options.occlusion:
        return to_json(about | _media(explanation).occlusion.to_dict())
    if options.why is not None:
        return to_json(about | explanation.why(options.why, options.other).to_dict())
    place = options.attention or explanation.main_place
    return to_json(explanation.to_dict(place, options.layer or 0, options.head or 0))


def _as_text(explanation: "Explanation", options: Options) -> str:
    """Return the view as text."""
    place = options.attention or explanation.main_place
    if options.words:
        return explanation.words.render()
    if options.occlusion:
        return _media(explanation).render_occlusion(color=_has_color())
    if options.why is not None:
        return explanation.why(options.why, options.other).render()
    if options.alignment:
        return explanation.render_alignment(options.layer)
    if options.step:
        return explanation.render_attention(place, options.layer or 0, options.head or 0)
    if options.heads:
        return explanation.render_heads(place, options.layer, color=_has_color())
    if options.decode:
        return explanation.searched.render()
    return explanation.lens.render() if options.lens else explanation.render()


def _draw(explanation: "Explanation", options: Options) -> None:
    """Save the view as a picture."""
    from ...inspection.media import media_pictures
    from ...inspection.media.media_explanation import MediaExplanation
    from ...inspection.views import drawings

    path, place = options.png or options.svg, options.attention or explanation.main_place
    if options.occlusion:
        media_pictures.draw_occlusion(_media(explanation), path)
    elif options.why is not None:
        drawings.draw_attribution(explanation.why(options.why, options.other), path)
    elif options.alignment and isinstance(explanation, MediaExplanation):
        media_pictures.draw_timings(explanation, options.layer, path)
    elif options.alignment:
        drawings.draw_alignment(explanation, options.layer, path)
    elif options.lens:
        drawings.draw_lens(explanation.lens, path)
    elif options.decode:
        drawings.draw_search(explanation.searched, path)
    elif isinstance(explanation, MediaExplanation) and place != "decoder.self":
        media_pictures.draw_maps(explanation, place, options.layer, path)
    else:
        drawings.draw_heads(explanation, place, options.layer, path)
    say(f"wrote {path}")


def _write_page(explanation: "Explanation", app: Any, options: Options) -> None:
    """Save the page, with the film if the run was watched."""
    from ...apps.pages import write_page

    given, path = [str(options.folder), options.text], options.html
    optional = [("context", options.context), ("prefix", options.prefix), *(("without", it) for it in options.without)]
    given += [word for name, value in optional if value for word in (f"--{name}", value)]
    write_page(app.loaded, explanation, path, f"clearhead explain {shlex.join(given)} --html {shlex.quote(path.name)}")
    say(f"wrote {path}")


def _media(explanation: "Explanation") -> "MediaExplanation":
    """Return the explanation of an image or recording. Raise a ConfigError if it's that of a text."""
    from ...inspection.media.media_explanation import MediaExplanation

    if not isinstance(explanation, MediaExplanation):
        what = "--occlusion hides parts of an image or recording, and this model reads text"
        fix = "use --why to see what made the model choose a word or label"
        raise ConfigError(what, expected="a model that reads images or recordings", fix=fix, name="occlusion")
    return explanation


def _show_film(options: Options) -> None:
    """Show the attention recorded during training. The model itself isn't loaded."""
    from ...folder.checkpoint import FILM
    from ...folder.model_folder import model_path, read_config
    from ...inspection.film.film import Film
    from ...scoring.score_labels import LABELS
    from ...training.report.metrics import read_metrics

    folder = model_path(options.folder)
    read_config(folder, allow_custom_code=True)  # raises an error if it isn't a model folder
    path = folder / FILM
    labels = {name: label.name for name, label in LABELS.items()}
    film = Film.of(read_metrics(path) if path.exists() else [], folder, labels)
    if options.json:
        print(to_json(film.to_dict()))
        return
    if options.lens:
        print(film.render_lens())
        return
    place = film.place(options.attention, options.layer or 0)
    picture = options.png or options.svg or options.gif
    if picture:
        film.draw(place, picture, moving=bool(options.gif))
        say(f"wrote {picture}")
    else:
        print(film.render(place, color=_has_color()))


def _has_color() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


VERB = Verb(
    name="explain",
    summary="follow a text, image or recording through a model: shapes, attention, search, layers and attribution",
    usage='DIR "TEXT" [options]',
    examples=(
        'clearhead explain models/en-fr "I am hungry."',
        'clearhead explain models/en-fr "I am hungry." --step attention --layer 1 --head 3',
        'clearhead explain models/en-fr "I am hungry." --heads',
        'clearhead explain models/en-fr "I am hungry." --why faim --not soif',
        'clearhead explain models/en-fr "I am hungry." --png attention.png',
        "clearhead explain models/en-fr --film",
    ),
    add_options=_add_options,
    run=_run,
)
