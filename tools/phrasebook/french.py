"""French word forms: plurals, feminines and regular verbs, and elision and contraction between words.

The grammar builds sentences from full words ("de le ami", "ma amie"), and `sound` then applies elision ("de l'ami",
"mon amie"). So, except for adjectives, the other modules needn't know how the next word begins.
"""

import re
import unicodedata

# No elision before these words: their h is "aspirated" (which is also silent).
_ASPIRATED = "hamster|hérisson|hibou|huit|onze"
_VOWEL = rf"(?!{_ASPIRATED})(?=[aeiouhâàéèêëîïôöùûœ]|y a)"
_LONE = r"(?<![\w'-])"  # a separate word, not the end of "est-ce" or "l'une"
_ELISION = re.compile(rf"{_LONE}(l[ea]|[jdmtsn]e|que) {_VOWEL}", re.IGNORECASE)
_IF_HE = re.compile(rf"{_LONE}si (?=ils?\b)")
_HIATUS = re.compile(rf"{_LONE}([mts]a|ce) {_VOWEL}", re.IGNORECASE)
_BEFORE_VOWEL = {"ma": "mon ", "ta": "ton ", "sa": "son ", "ce": "cet "}
_CONTRACTION = re.compile(rf"{_LONE}(de|à) (les?) ")
_CONTRACTED = {"de le": "du ", "de les": "des ", "à le": "au ", "à les": "aux "}


def sound(text: str) -> str:
    """Apply elision and contraction: "je ai peur de le hibou et de le ami" -> "j'ai peur du hibou et de l'ami"."""
    text = _ELISION.sub(lambda match: match[1][:-1] + "'", text)
    text = _IF_HE.sub("s'", text)
    text = _HIATUS.sub(lambda match: _BEFORE_VOWEL[match[1]], text)
    return _CONTRACTION.sub(lambda match: _CONTRACTED[f"{match[1]} {match[2]}"], text)


def starts_with_vowel(word: str) -> bool:
    """Return whether a word starts with a vowel sound: "ami" and "hôtel" do, "hibou" doesn't."""
    return re.match(_VOWEL, word, re.IGNORECASE) is not None


def plural(word: str) -> str:
    """Return the regular plural: chats, chapeaux, journaux, souris."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith(("eau", "eu")) and word != "bleu" else "s")


def feminine(adjective: str) -> str:
    """Return the regular feminine: rouge, petite, heureuse, active."""
    for masculine, ending in (("e", "e"), ("eux", "euse"), ("if", "ive")):
        if adjective.endswith(masculine):
            return adjective.removesuffix(masculine) + ending
    return adjective + "e"


def present(infinitive: str) -> tuple[str, ...]:
    """Return the regular present, je to ils, of verbs in -er (mangeons, commençons), -ir (choisis) and -re (vends)."""
    stem, group = infinitive[:-2], infinitive[-2:]
    endings = {
        "er": ("e", "es", "e", "eons" if stem.endswith("g") else "ons", "ez", "ent"),
        "ir": ("is", "is", "it", "issons", "issez", "issent"),
        "re": ("s", "s", "", "ons", "ez", "ent"),
    }
    forms = [stem + ending for ending in endings[group]]
    return tuple(re.sub("co(?=ns$)", "ço", form) for form in forms)


def imperative(present: str, *, to_friend: bool) -> str:
    """Return the imperative for a tu or vous form. The tu form drops the s of -es: mange, ouvre, lis."""
    return present[:-1] if to_friend and present.endswith("es") else present


def participle(infinitive: str) -> str:
    """Return the regular past participle: mangé, choisi, vendu."""
    return infinitive[:-2] + {"er": "é", "ir": "i", "re": "u"}[infinitive[-2:]]


def agree(form: str, *, feminine: bool, plural: bool) -> str:
    """Return the participle with agreement: arrivé, arrivée, arrivés, arrivées. "pris" gets no second s."""
    form += "e" if feminine else ""
    return form + ("s" if plural and not form.endswith("s") else "")


def finish(text: str, mark: str) -> str:
    """Finish a sentence: apply elision, start with a capital, and add the mark, with a space before ? and !."""
    text = sound(text)
    space = "" if mark == "." else " "
    return unicodedata.normalize("NFC", text[0].upper() + text[1:] + space + mark)
