"""How findings make a ranking, and what the screen shows first."""

import pytest

from clearhead.apps.diagnosis.causes import ALARM, CAUSES, Blame, Diagnosis, Finding, certainty, ranked


def finding(*blames: tuple[str, float], probe: str = "a probe", measured: str = "what was seen") -> Finding:
    return Finding(probe, measured, {}, [Blame(name, weight, "--this=1") for name, weight in blames])


def test_independent_evidence_adds_up() -> None:
    [found] = ranked([finding(("leak", 0.5)), finding(("leak", 0.6), measured="more")])
    assert found.weight == pytest.approx(0.8)
    assert found.evidence == ["more", "what was seen"]  # the strongest first


def test_a_cause_takes_the_weight_of_what_it_explains() -> None:
    first, second = ranked([finding(("unrelated", 0.9), ("unused", 0.8)), finding(("unrelated", 0.0))])
    assert (first.cause, second.cause) == ("unrelated", "unused")
    assert second.weight == pytest.approx(0.08)
    assert "unused" in CAUSES["unrelated"].explains


def test_a_setting_is_a_cause_with_a_command_and_explains_symptoms() -> None:
    found = ranked([finding(("model.dropout", 0.9), ("unlearned", 0.8))])
    assert [it.cause for it in found] == ["model.dropout", "unlearned"]
    assert found[0].remedy == "clearhead train … --this=1" and found[1].weight == pytest.approx(0.08)


def test_causes_only_explain_known_ones() -> None:
    assert {it for cause in CAUSES.values() for it in cause.explains} <= {*CAUSES, "train.lr", "train.warmup"}


def test_weights_of_effects_grow_from_0_to_1() -> None:
    assert certainty(-1, 0.1) == certainty(0, 0.1) == 0
    assert 0.6 < certainty(0.1, 0.1) < certainty(0.2, 0.1) < certainty(9, 0.1) == 1


def test_the_screen_shows_the_most_likely_cause_first_and_what_is_fine() -> None:
    fine, findings = finding(("dead", 0.0), probe="units"), [finding(("copies", ALARM)), finding(("leak", 0.9))]
    found = Diagnosis("runs/a", "translate", [*findings, fine], {"log": "none"})
    lines = found.render().splitlines()
    places = [
        next(n for n, line in enumerate(lines) if text in line)
        for text in ("most likely", "also", "fine", "not measured")
    ]
    assert places == sorted(places) and CAUSES["leak"].title in lines[places[0]]
    assert "units" in lines[places[2]] and [it["cause"] for it in found.to_dict()["causes"]] == ["leak", "copies"]


def test_without_a_cause_the_screen_shows_what_was_measured() -> None:
    assert "what was seen" in Diagnosis("runs/a", "translate", [finding(("leak", 0.1))], {}).render()
