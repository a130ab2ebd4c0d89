"""The rules of both languages that the phrasebook is built with, each on words that obey it and words that do not."""

import pytest

from tools.phrasebook import english, french
from tools.phrasebook.grammar import A, Subject, Way, being, clause, count, noun_phrase, own, say, tell
from tools.phrasebook.people import HE, MYSELF, NAMES, YOU
from tools.phrasebook.times import PAST
from tools.phrasebook.words import ACTIONS, ADJECTIVES, MOVES, NOUNS, number

VERB = {verb.en: verb for verb in ACTIONS + MOVES}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("je ai le âge de le ami de Alice", "j'ai l'âge de l'ami d'Alice"),
        ("ma amie, sa école et ta histoire", "mon amie, son école et ton histoire"),
        ("ce arbre et ce hibou", "cet arbre et ce hibou"),
        (
            "près de le lac, de les maisons, à le parc et à les enfants",
            "près du lac, des maisons, au parc et aux enfants",
        ),
        ("si il veut, si elle veut", "s'il veut, si elle veut"),
        ("est-ce que elle se appelle Anna", "est-ce qu'elle s'appelle Anna"),
        ("le hérisson et le onze", "le hérisson et le onze"),
        ("il ne y a pas de eau", "il n'y a pas d'eau"),
    ],
)
def test_neighbours_elide_and_contract(words: str, said: str) -> None:
    assert french.sound(words) == said


def test_regular_verbs_are_conjugated_by_their_ending() -> None:
    assert french.present("parler") == ("parle", "parles", "parle", "parlons", "parlez", "parlent")
    assert french.present("choisir") == ("choisis", "choisis", "choisit", "choisissons", "choisissez", "choisissent")
    assert french.present("vendre") == ("vends", "vends", "vend", "vendons", "vendez", "vendent")
    assert french.present("manger")[3] == "mangeons" and french.present("commencer")[3] == "commençons"
    assert [french.participle(verb) for verb in ("parler", "choisir", "vendre")] == ["parlé", "choisi", "vendu"]


def test_nouns_and_adjectives_follow_their_endings() -> None:
    assert [french.plural(word) for word in ("chat", "gâteau", "cheval", "bus", "jeu", "bleu")] == [
        *("chats", "gâteaux", "chevaux", "bus", "jeux", "bleus"),
    ]
    assert [french.feminine(word) for word in ("rouge", "petit", "heureux", "actif")] == [
        *("rouge", "petite", "heureuse", "active"),
    ]
    assert [english.plural(word) for word in ("box", "library", "toy", "photo", "church")] == [
        *("boxes", "libraries", "toys", "photos", "churches"),
    ]


def test_the_imperative_of_a_friend_loses_its_s_after_e_alone() -> None:
    assert [french.imperative(form, to_friend=True) for form in ("manges", "ouvres", "lis")] == [
        "mange",
        "ouvre",
        "lis",
    ]
    assert french.imperative("mangez", to_friend=False) == "mangez"


def test_english_verbs_change_their_first_word() -> None:
    assert [english.third(verb) for verb in ("wash", "study", "look for")] == ["washes", "studies", "looks for"]
    assert [english.past(verb) for verb in ("love", "study", "play", "wait for")] == [
        *("loved", "studied", "played", "waited for"),
    ]
    assert [english.ing(verb) for verb in ("write", "see", "be", "listen to")] == [
        *("writing", "seeing", "being", "listening to"),
    ]


def test_adjectives_stand_before_or_after_and_hear_the_noun() -> None:
    old, black = ADJECTIVES["old"], ADJECTIVES["black"]
    assert noun_phrase(A, NOUNS["cat"], False, old, black).fr == "un vieux chat noir"
    assert noun_phrase(A, NOUNS["tree"], False, old).fr == "un vieil arbre"
    assert noun_phrase(count(21), NOUNS["table"], True, old).fr == "vingt et une vieilles tables"


def test_a_clause_says_the_same_in_both_languages_in_every_tense() -> None:
    anna = next(name for name in NAMES if name.en == "Anna")
    said = {tense: say(clause(anna, VERB["leave"], Way(tense))) for tense in ("now", "past", "future", "can", "want")}
    assert [(part.en, part.fr) for part in said.values()] == [
        ("Anna is leaving.", "Anna part."),
        ("Anna left.", "Anna est partie."),
        ("Anna is going to leave.", "Anna va partir."),
        ("Anna can leave.", "Anna peut partir."),
        ("Anna wants to leave.", "Anna veut partir."),
    ]
    asked = tell("ask", clause(YOU[0], VERB["get up"], Way("past", "ask"), PAST[0]), YOU[0])
    assert asked and asked.fr == "Est-ce que tu t'es levé hier, Paul ?"


def test_nobody_asks_about_oneself() -> None:
    a_king = noun_phrase(A, NOUNS["king"])
    assert tell("ask", being(MYSELF, a_king, "ask"), MYSELF) is None
    assert tell("no", being(MYSELF, a_king, "no"), MYSELF) is not None


def test_possessives_follow_the_owner_in_english_and_the_thing_in_french() -> None:
    she = Subject("she", "elle", (), "f")
    for who, noun, en, fr in ((she, "book", "her book", "son livre"), (HE, "key", "his key", "sa clé")):
        phrase = noun_phrase(own(who), NOUNS[noun])
        assert (phrase.en, phrase.fr) == (en, fr)


def test_numbers_join_their_ones_and_elevens_with_et_below_eighty_alone() -> None:
    et = [n for n in range(1, 101) if " et " in number(n)[1]]
    assert et == [21, 31, 41, 51, 61, 71]
    assert [n for n in range(1, 101) if number(n)[1] != number(n)[2]] == [1, 21, 31, 41, 51, 61, 81]
    assert number(80)[1] == "quatre-vingts" and number(100)[0] == "one hundred"
