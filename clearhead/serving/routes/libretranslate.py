"""Routes shaped like LibreTranslate's: /translate, /detect and /languages."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..bodies import fields_of, json_response
from ..guards import wrong_key
from ..limits import RequestError
from ..served_models import Languages, ModelShelf, ServedModel
from ..work import Work
from .asking import answered, shelf_of

UNKNOWN = "und"  # ISO 639-2: undetermined
AUTO = "auto"
_UNKNOWN = 4  # tokens that an unknown word counts as
_LARGEST = 700  # whose exponential is a number
_LANGUAGES = """
ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, ca Catalan, cs Czech, cy Welsh, da Danish,
de German, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fr
French, ga Irish, gl Galician, gu Gujarati, he Hebrew, hi Hindi, hr Croatian, hu Hungarian, hy Armenian, id
Indonesian, is Icelandic, it Italian, ja Japanese, ka Georgian, kk Kazakh, ko Korean, ky Kyrgyz, la Latin, lb
Luxembourgish, lt Lithuanian, lv Latvian, mk Macedonian, mr Marathi, ms Malay, nb Norwegian, nl Dutch, no
Norwegian, pa Punjabi, pl Polish, pt Portuguese, ro Romanian, ru Russian, sk Slovak, sl Slovenian, sq
Albanian, sr Serbian, sv Swedish, sw Swahili, ta Tamil, te Telugu, th Thai, tl Tagalog, tr Turkish, uk
Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, zh Chinese, und Undetermined
"""
_LANGUAGE_NAMES = dict(entry.split() for entry in _LANGUAGES.replace("\n", " ").strip().split(", "))


class Translate(msgspec.Struct):
    """Body of /translate."""

    q: str | list[str]
    source: str = AUTO
    target: str = ""
    format: str = "text"
    alternatives: Annotated[int, msgspec.Meta(ge=0)] = 0
    api_key: str = ""


class Detect(msgspec.Struct):
    """Body of /detect."""

    q: str
    api_key: str = ""


async def translate(request: Request) -> Response:
    """Translate one text or a list of texts, each line by itself."""
    body = await fields_of(request, Translate)
    check_key(request, body.api_key)
    shelf = shelf_of(request)
    if body.format not in ("text", ""):
        what = f"format={body.format!r} isn't supported"
        raise RequestError(400, what, expected="text", name="format", value=body.format)
    texts = [body.q] if isinstance(body.q, str) else body.q
    shelf.limits.check_texts(texts, "q")
    shelf.limits.check("alternatives", body.alternatives, shelf.limits.n - 1)
    model, languages = _chosen(shelf, body, texts)
    found = await _translated(request, model, texts, body.alternatives)
    reply: dict[str, Any] = {"translatedText": [it[0] for it in found]}
    if body.alternatives:
        reply["alternatives"] = [it[1:] for it in found]
    if body.source == AUTO:
        [code, share] = languages[0]
        reply["detectedLanguage"] = [{"confidence": round(100 * share, 1), "language": code} for _ in texts]
    return json_response({name: it[0] for name, it in reply.items()} if isinstance(body.q, str) else reply)


async def detect(request: Request) -> Response:
    """Return the languages that the served translators read, the most likely first."""
    body = await fields_of(request, Detect)
    check_key(request, body.api_key)
    shelf = shelf_of(request)
    shelf.limits.check_texts([body.q], "q")
    found = ranked(shelf.translators(), body.q)
    if not found:
        raise RequestError(404, "no translator with known languages is served", fix="start it with --languages en-fr")
    return json_response([{"confidence": round(100 * share, 1), "language": code} for code, share in found])


async def languages(request: Request) -> Response:
    """List the languages of the served translators, with the targets of each."""
    given = await fields_of(request, _Key) if request.headers.get("content-type") else _Key()
    check_key(request, given.api_key)
    targets: dict[str, list[str]] = {}
    for model in shelf_of(request).translators():
        pair = model.languages or Languages(UNKNOWN, UNKNOWN)
        targets.setdefault(pair.source, []).append(pair.target)
    names = {code: _LANGUAGE_NAMES.get(code.partition("_")[0], code) for code in targets}
    return json_response([{"code": code, "name": names[code], "targets": it} for code, it in targets.items()])


class _Key(msgspec.Struct):
    api_key: str = ""


def check_key(request: Request, key: str) -> None:
    """Check the key that LibreTranslate's clients send in the body, unless a header had one."""
    if not request.headers.get("authorization") and not request.state.access.accepts_key(key):
        raise wrong_key()


def ranked(models: Sequence[ServedModel], text: str) -> list[tuple[str, float]]:
    """Return the source languages of translators, and how likely a text is in each of them, the most likely first.

    A text needs the fewest tokens in its own language's vocabulary. With one language, that's the answer.
    """
    counts: dict[str, int] = {}
    for model in models:
        if model.languages:
            tokenizer = model.app.tokenizers.source
            count = len(tokenizer.encode(text)) + _UNKNOWN * len(tokenizer.unknown_words(text))
            counts[model.languages.source] = min(count, counts.get(model.languages.source, count))
    least = min(counts.values(), default=0)
    weights = {code: math.exp(max(least - count, -_LARGEST)) for code, count in counts.items()}
    total = sum(weights.values())
    return sorted(((code, weight / total) for code, weight in weights.items()), key=lambda it: -it[1])


def _chosen(shelf: ModelShelf, body: Translate, texts: list[str]) -> tuple[ServedModel, list[tuple[str, float]]]:
    """Return the translator of a request, and likely source languages. Raise RequestError unless exactly one fits."""
    models = shelf.translators()
    fitting = [it for it in models if it.languages is None or _same(it.languages.target, body.target or AUTO)]
    if body.source != AUTO:
        fitting = [it for it in fitting if it.languages is None or _same(it.languages.source, body.source)]
    languages = ranked(fitting, " ".join(texts)) if body.source == AUTO else []
    if languages:
        fitting = [it for it in fitting if it.languages and it.languages.source == languages[0][0]]
    named = [it for it in fitting if it.languages] or fitting
    if len(named) != 1:
        what = f"no translator from {body.source!r} to {body.target!r} is served"
        if named:
            what = f"several translators from {body.source!r} to {body.target!r} are served"
        known = ", ".join(f"{it.languages.source} to {it.languages.target}" for it in models if it.languages)
        raise RequestError(400, what, expected=known, name="target", value=body.target)
    return named[0], languages or [(UNKNOWN, 0.0)]


def _same(code: str, asked: str) -> bool:
    """Return whether a code is meant: en by en, en-US and auto."""
    return asked == AUTO or code.lower() == asked.lower().replace("-", "_") or code.lower() == asked.lower()[:2]


async def _translated(request: Request, model: ServedModel, texts: list[str], alternatives: int) -> list[list[str]]:
    """Return the translation of each text and the alternatives. Lines are translated one by one, as in training."""
    n_best = 1 + alternatives
    options: dict[str, Any] = {"n_best": n_best}
    if n_best > model.app.config.decode.beam:
        options["beam"] = n_best
    lines = [text.split("\n") for text in texts]
    filled = [line for some in lines for line in some if line.strip()]
    found = iter(await answered(request, model, Work.of("results", options), filled) if filled else ())
    answers = [[_best_first(next(found)) if line.strip() else [""] for line in some] for some in lines]
    return [["\n".join(_nth(it, n) for it in some) for n in range(max(map(len, some)))] for some in answers]


def _best_first(record: Any) -> list[str]:
    return [record.text, *(other.text for other in record.alternatives)]


def _nth(answers: list[str], n: int) -> str:
    """Return an answer, or the last one if there are too few."""
    return answers[min(n, len(answers) - 1)]
