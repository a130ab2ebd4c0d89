"""The phrasebook, checked over all of its sentences by means that its grammar does not use."""

import re
import unicodedata
from collections import defaultdict

import pytest

from clearhead.demo.phrasebook import phrases, split
from tools.phrasebook.grammar import Part
from tools.phrasebook.sentences import PATTERNS, draw, sentences

ALL = phrases()
MEN = ["Paul", "Marc", "Pierre", "Antoine", "Julien", "Olivier", "Victor", "Simon"]
FORMAL = {"sir", "madam", "children", "boys", "girls", "gentlemen", "ladies"}
WOMEN = ["Anna", "Alice", "Emma", "Marie", "Julie", "Sophie", "Claire", "Lucie"]


def matching(english: str, ending: str = "") -> list[tuple[re.Match[str], str]]:
    """Every sentence whose English matches a pattern, with its French; fails where there is none.

    `ending` is an end that all of them have, which saves time.
    """
    some = [phrase for phrase in ALL if phrase.english.endswith(ending)] if ending else ALL
    found = [(match, phrase.french) for phrase in some if (match := re.search(english, phrase.english))]
    assert found
    return found


# --- as a set of sentences ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Part]]:
    return draw()


def test_the_data_file_is_what_the_grammar_makes(drawn: dict[str, list[Part]]) -> None:
    assert sentences(drawn) == ALL, "run: python -m tools.phrasebook"


def test_no_pattern_dominates_and_none_is_rare_in_training(drawn: dict[str, list[Part]]) -> None:
    english = {phrase.english for phrase in split()[0]}
    for name, parts in drawn.items():
        assert 12 <= sum(part.en in english for part in parts) <= len(english) * 0.03, name


def test_every_pattern_is_named_by_what_it_says_and_no_two_alike() -> None:
    assert len({pattern.name for pattern in PATTERNS}) == len(PATTERNS) >= 150


def test_content_holds_every_name_and_color_that_is_said() -> None:
    known = {*MEN, *WOMEN, "red", "white", "black", "blue", "green", "yellow", "gray", "brown"}
    for phrase in ALL:
        said = {word.removesuffix("'s") for word in re.findall(r"[\w'-]+", phrase.english)}
        assert said & known == set(phrase.content) & known, phrase


# --- typography and sound ----------------------------------------------------------------------------------


def test_both_sides_are_single_clean_lines() -> None:
    for phrase in ALL:
        for text in (phrase.english, phrase.french):
            assert text == " ".join(text.split()) == unicodedata.normalize("NFC", text)
            assert text[0].isupper() and text[-1] in ".?!", text
            assert re.fullmatch(r"[\w' .,?!-]+", text), text


def test_marks_stand_as_each_language_prints_them() -> None:
    for phrase in ALL:
        assert not re.search(r" [.,?!]", phrase.english)
        assert not re.search(r"[^ ][?!]| [.,]", phrase.french)
        assert re.findall(r"[.?!]", phrase.english) == re.findall(r"[.?!]", phrase.french)


def test_sentences_after_the_first_start_with_a_capital_too() -> None:
    for phrase in ALL:
        assert not re.search(r"[.?!] [a-zà-ÿ]", phrase.english + phrase.french), phrase


_VOWEL = "[aàâeéèêëiîïoôuùûœ]"


def test_french_elides_before_vowels_and_only_there() -> None:
    forbidden = re.compile(rf"(?<![\w'-])(l[ea]|j|je|[mtsnd]e|que|si(?= il)|[mts]a|ce) (?!onze){_VOWEL}", re.IGNORECASE)
    elided = re.compile(rf"(?<!\w)(?:[ljmtsnd]|qu)'(?!{_VOWEL}|h|y a)", re.IGNORECASE)
    for phrase in ALL:
        assert not forbidden.search(phrase.french), phrase.french
        assert not elided.search(phrase.french.replace("s'il te", "").replace("s'il vous", "")), phrase.french


def test_a_silent_h_elides_and_an_aspirated_one_does_not() -> None:
    aspirated = re.compile(r"hamsters?|hérissons?|hiboux?|huit(e|i|\b)")
    for phrase in ALL:
        for before, word in re.findall(r"(\S+?[ '])(h\w+)", phrase.french, re.IGNORECASE):
            if aspirated.match(word.lower()):
                assert not before.endswith("'"), phrase.french
            else:
                article = before.lower().strip()
                assert article not in ("le", "la", "de", "je", "ne", "que", "ma", "ta", "sa", "ce"), phrase.french


def test_prepositions_and_articles_contract() -> None:
    for phrase in ALL:
        assert not re.search(r"\b(de|à|De|À) les?\b(?! \w+er\b)", phrase.french), phrase.french


def test_beautiful_new_and_old_have_their_form_before_a_vowel() -> None:
    for phrase in ALL:
        one = r"\b(?:un|[mts]on|notre|votre|leur|le|ce|quel)"
        assert not re.search(rf"{one} (beau|nouveau|vieux) (?:{_VOWEL}|hom|hôt)", phrase.french), phrase
        assert not re.search(rf"\b(bel|nouvel|vieil) (?!{_VOWEL}|hom|hôt)", phrase.french), phrase


def test_english_has_a_and_an_by_the_sound() -> None:
    for phrase in ALL:
        for article, word in re.findall(r"\b([Aa]n?) (\w+)", phrase.english):
            vowel = (word[0].lower() in "aeiou" and word != "useful") or word == "honest"
            assert (article.lower() == "an") == vowel, phrase.english


# --- agreement ---------------------------------------------------------------------------------------------

IRREGULAR = """
happy heureux heureuse | proud fier fière | kind gentil gentille | jealous jaloux jalouse | discreet discret discrète
active actif active | worried inquiet inquiète | Italian italien italienne | French français française
sad triste triste | busy occupé occupée | lazy paresseux paresseuse | generous généreux généreuse | old vieux vieille
"""


@pytest.mark.parametrize("row", re.split(r"[|\n]", IRREGULAR.strip()))
def test_adjectives_agree_with_who_is_spoken_of(row: str) -> None:
    english, masculine, feminine = row.split()
    plural = {masculine: masculine if masculine[-1] in "sx" else masculine + "s", feminine: feminine + "s"}
    for names, form in ((MEN, masculine), (WOMEN, feminine)):
        last, end = "|".join(names), f" {english}."
        for _, french in matching(rf"^(?:(?:Our|My) \w+ )?(?:{last}) (?:is|was) (?:not |very )?{english}\.$", end):
            assert french.endswith(f" {form}."), french
        for match, french in matching(rf"^(\w+) and (?:{last}) (?:are|were) (?:not |very )?{english}\.$", end):
            both = feminine if match[1] in WOMEN and names is WOMEN else masculine
            assert french.endswith(f" {plural[both]}."), french


def test_no_noun_is_now_masculine_and_now_feminine() -> None:
    before = "vieil vieille petit petite grand grande bel belle beau nouvel nouvelle nouveau vieux joli jolie bon bonne"
    before = {*before.split(), "mauvais", "mauvaise", "jeune", "long", "longue"}
    genders = defaultdict(set)
    for phrase in ALL:
        for article, rest in re.findall(r"\b(une?|ce|cet|cette|au|du) ([a-zà-ÿœ-]+(?: [a-zà-ÿœ-]+)?)", phrase.french):
            noun = next(word for word in rest.split() if word not in before or word == rest.split()[-1])
            genders[noun].add(article in ("une", "cette"))
    numerals = {"et", "euros", "fois", "font"}  # of vingt et un
    assert {noun for noun, kinds in genders.items() if len(kinds) == 2} - numerals == {"dentiste", "journaliste"}


def test_what_went_arrived_or_rose_agrees_with_who_did() -> None:
    gone = "allé|arrivé|parti|revenu|sorti|tombé|resté|levé|couché|réveillé|reposé|né"
    past = rf"(?:est|sont|s'est|se sont) (?:{gone})(e?s?)\b"
    for phrase in ALL:
        names = f"(?:{'|'.join(MEN + WOMEN)})"
        for first, second, ending in re.findall(rf"\b({names})(?: et ({names}))? (?:ne )?(?:n')?{past}", phrase.french):
            women = {first, second} <= {*WOMEN, ""}
            assert ending == ("e" if women else "") + ("s" if second else ""), phrase.french
        for pronoun, ending in re.findall(rf"\b(il|elle|ils|elles) (?:ne )?(?:n')?{past}", phrase.french.lower()):
            assert ending == {"il": "", "elle": "e", "ils": "s", "elles": "es"}[pronoun], phrase.french


def test_a_participle_agrees_with_an_object_before_it() -> None:
    for match, french in matching(r"^Which \w+ did .*\?$"):
        which, participle = french.split()[0], re.sub(r",.*", "", french.rstrip(" ?")).split()[-1]
        feminine, plural = which in ("Quelle", "Quelles"), which in ("Quels", "Quelles")
        assert participle.endswith("e" if feminine and not plural else "es" if feminine else "s" if plural else ""), (
            match
        )
        assert feminine or not re.search("es?$", participle), french


def test_i_and_we_say_only_what_men_and_women_say_alike() -> None:
    def forms(person: str) -> dict[str, str]:
        return {m[1]: f.rstrip(".").split()[-1] for m, f in matching(rf"^{person} (?:is|am|are) (?!\w+ing\.)(\w+)\.$")}

    he, she = forms("He"), forms("She")
    for english, french in forms("I").items():
        assert he.get(english, french) == she.get(english, french) == french
    for english, french in forms("We").items():
        assert {he.get(english, french), she.get(english, french)} <= {french, french.removesuffix("s")}


def test_you_is_always_somebody_and_the_same_one_of_tu_and_vous() -> None:
    said = defaultdict(set)
    for phrase in ALL:
        if re.search(r"\b(you|your|You|Your)\b", phrase.english) or ", please " in phrase.english:
            called = re.match(r"(\w+), (?:please|do not) ", phrase.english) or re.search(
                r", (\w+)[.?](?: |$)", phrase.english
            )
            assert called, phrase.english
            said[called[1].lower()] |= {
                "tu" if word in ["tu", "te", "ton", "ta", "tes", "t"] else "vous"
                for word in re.findall(r"\b(tu|te|t(?=')|ton|ta|tes|vous|votre|vos)\b", phrase.french.lower())
            }
    assert said.keys() == {name.lower() for name in MEN + WOMEN} | FORMAL | {"mom", "dad"}
    assert all(persons == ({"vous"} if name in FORMAL else {"tu"}) for name, persons in said.items())


# --- negation and questions --------------------------------------------------------------------------------


def test_french_is_negated_where_english_is_with_both_halves_of_it() -> None:
    for phrase in ALL:
        negative = re.search(r"\b(not|cannot|never|there (is|are) no)\b", phrase.english, re.IGNORECASE)
        assert bool(negative) == bool(re.search(r"(?<![\w-])(ne |n')", phrase.french)), phrase
        assert bool(negative) == bool(re.search(r"\b(pas|jamais)\b", phrase.french)), phrase


def test_after_a_negation_some_and_a_become_de() -> None:
    for phrase in ALL:
        if re.search(r"\b(any|there (?:is|are) no)\b", phrase.english, re.IGNORECASE):
            assert re.search(r"\b(pas|besoin)\b.*?(\bde |\bd')", phrase.french), phrase
        elif re.search(r"\bpas (?:\w+ )?(une?|de la|de l'|du|des)\b", phrase.french):
            definite = r"\b(the|from|near|far|next|of) "
            no_object = r"^(This is|These are) not |\bnot an? "
            assert re.search(f"{definite}|{no_object}", phrase.english), phrase


def test_questions_are_asked_in_one_way() -> None:
    inverted = re.compile(r"-(je|tu|il|elle|nous|vous|ils|elles)\b")
    for phrase in ALL:
        if phrase.french.endswith("?"):
            assert re.search(
                r"[Ee]st-ce qu[e']|^Où (est|sont) |^De quelle couleur |^Quel âge a |^Quelle heure est-il|^Qui ",
                phrase.french,
            ), phrase
        assert not inverted.search(phrase.french.replace("est-il", ""))


@pytest.mark.parametrize(
    "unsaid",
    [
        r"^(?:I|We|You|They|\w+ and \w+) (?:never|often|always) read (?:my|our|your|their) ",  # now or in the past?
        r"(?:get|got|wake|woke) up yesterday|(?:go|went) to bed (?:yesterday[.,?]|this morning)",
        r" and \w+ and \w+ are \w+ing\.",
        r"\bour (?:\w+ )?(?:skirt|hat|shirt|coat|ring|fork|spoon)\b",
        r"(?:behind|in front of) the (?:beach|lake|river|apartment)",
        r"listen(?:ed|ing)? to a radio|(?:clos|clean)\w+ some ",
        r"\b(?:Our|My|His|Her) \w+ (?:is|was) \w+ (?:\w+ )?than the (?:man|woman|boy|girl)\.",
    ],
)
def test_what_two_readings_found_odd_is_not_said(unsaid: str) -> None:
    assert not [phrase.english for phrase in ALL if re.search(unsaid, phrase.english)]


# --- numbers and hours -------------------------------------------------------------------------------------

SMALL = [
    "un",
    "deux",
    "trois",
    "quatre",
    "cinq",
    "six",
    "sept",
    "huit",
    "neuf",
    "dix",
    "onze",
    "douze",
    "treize",
    "quatorze",
    "quinze",
    "seize",
]
TENS = {"vingt": 20, "vingts": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60}
ENGLISH = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def french_number(text: str) -> int:
    """Read aloud: each word adds its value, and quatre-vingt multiplies."""
    total = 0
    for word in re.findall(r"\w+", text.lower()):
        if word in ("vingt", "vingts") and total == 4:
            total = 80
        elif word == "cent":
            total = 100
        elif word != "et":
            word = {"une": "un"}.get(word, word)
            total += TENS.get(word) or SMALL.index(word) + 1
    return total


def english_number(text: str) -> int:
    total = 0
    for word in re.findall(r"[a-z]+", text.lower()):
        if word == "hundred":
            return 100
        total += ENGLISH.index(word) + 1 if word in ENGLISH else 10 * (ENGLISH_TENS.index(word) + 2)
    return total


def test_sums_are_right_in_both_languages() -> None:
    seen = set()
    for match, french in matching(r"^([\w -]+) (and|times) ([\w -]+) (?:make|is) ([\w -]+)\.$"):
        first, sign, second, result = match.groups()
        if not all(re.fullmatch("[a-z-]+|one hundred", part.lower()) for part in (first, second, result)):
            continue
        values = [english_number(part) for part in (first, second, result)]
        said = re.split(r" fois | font ", french.rstrip("."))
        if sign == "and":
            left, right = said
            cut = [at for at in re.finditer(" et ", left) if french_number_or_none(left[: at.start()]) == values[0]]
            assert cut and french_number(left[cut[-1].end() :]) == values[1] and french_number(right) == values[2]
            assert values[0] + values[1] == values[2]
        else:
            assert [french_number(part) for part in said] == values and values[0] * values[1] == values[2]
        seen.update(values)
    assert seen >= set(range(2, 100))


def french_number_or_none(text: str) -> int | None:
    try:
        return french_number(text)
    except ValueError:
        return None


def test_ages_and_prices_are_the_same_number_in_both_languages() -> None:
    for match, french in matching(r" (?:is|are|am|costs?|lasts) ((?:[a-z]+-)?[a-z]+) (?:years old|euros|minutes)"):
        said = re.search(
            r"(?:a|ai|as|ont|avons|avez|ai|coûtent|coûte|dure) ((?:[a-z-]+ et )?[a-z-]+) (?:ans|euros|minutes)",
            french.replace("'", " "),
        )
        assert said and french_number(said[1]) == english_number(match[1]), french
        assert ("une" in said[1]) == (
            " minutes" in french and english_number(match[1]) % 10 == 1 and said[1][-3:] == "une"
        )


HOURS = {"noon": 12, "midnight": 24, "midi": 12, "minuit": 24}


def english_minutes(text: str) -> int:
    """The minutes since midnight that an English time of day names."""
    text = text.removesuffix(" o'clock")
    if " past " in text or " to " in text:
        minutes, side, hour = re.fullmatch(r"(.*) (past|to) (.*)", text).groups()
        amount = {"a quarter": 15, "half": 30}.get(minutes) or english_number(minutes)
        return english_minutes(hour) + (amount if side == "past" else -amount)
    return 60 * (HOURS.get(text) or english_number(text))


def french_minutes(text: str) -> int:
    """The same of a French one."""
    hour, rest = re.fullmatch(r"(midi|minuit|.+? heures?)(?: (.*))?", text).groups()
    start = 60 * (HOURS.get(hour) or french_number(re.sub(" heures?", "", hour)))
    sign = -1 if rest and rest.startswith("moins") else 1
    rest = re.sub(r"^moins (?=.)", "", rest or "")
    amount = {"": 0, "et quart": 15, "le quart": 15, "et demie": 30}.get(rest)
    return start + sign * (french_number(rest) if amount is None else amount)


def test_clocks_show_the_same_time_in_both_languages() -> None:
    times = set()
    part = r"(?: in the (?:morning|afternoon|evening))?"
    for match, french in matching(
        rf"^It is (?:almost |already )?((?:.* (?:past|to) \w+)|\w+ o'clock|noon|midnight){part}\.$"
    ):
        said = re.fullmatch(r"Il est (?:presque |déjà )?(.*?)(?: du matin| de l'après-midi| du soir)?\.", french)[1]
        assert french_minutes(said) == english_minutes(match[1]), french
        assert ("heures" in said) == (not said.startswith(("une", "mi")))
        times.add(english_minutes(match[1]))
    assert len(times) >= 130
