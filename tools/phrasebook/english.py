"""English word forms: plurals, verb forms, and "a" or "an"."""

import re

# "an" follows the sound: not before the y of "useful", but before the silent h of "honest".
_AN = re.compile(r"\b(a) (?=(?!uni|use)[aeiou]|hon|hour)", re.IGNORECASE)


def plural(word: str) -> str:
    """Return the regular plural: cats, boxes, ladies."""
    return _with_s(word)


def third(verb: str) -> str:
    """Return the third person singular: washes, studies, looks for."""
    first, *rest = verb.split()
    return " ".join([{"be": "is", "have": "has", "can": "can", "must": "must"}.get(first) or _with_s(first), *rest])


def past(verb: str) -> str:
    """Return the regular past: watched, loved, studied, looked for."""
    first, *rest = verb.split()
    if first[-1] == "y" and first[-2] not in "aeiou":
        first = first[:-1] + "i"
    return " ".join([first + ("d" if first.endswith("e") else "ed"), *rest])


def ing(verb: str) -> str:
    """Return the regular -ing form: writing, looking for, seeing. Forms with a doubled consonant are in the lexicon."""
    first, *rest = verb.split()
    stem = first[:-1] if first.endswith("e") and first[-2] not in "eb" else first
    return " ".join([stem + "ing", *rest])


def finish(text: str, mark: str) -> str:
    """Finish a sentence: choose "a" or "an" by sound, start with a capital, and add the punctuation mark."""
    text = _AN.sub(r"\1n ", text)
    return text[0].upper() + text[1:] + mark


def _with_s(word: str) -> str:
    if word.endswith(("s", "x", "sh", "ch", "o")) and word not in ("piano", "photo", "radio"):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"
