"""Words of the same family, such as "vote" and "voter"."""

from __future__ import annotations

import pytest

import recollect
from recollect.language.languages import DUTCH, ENGLISH, FRENCH, GERMAN
from recollect.language.words.derivation import possible_relatives


@pytest.mark.parametrize(
    "words",
    [
        "vote voters",
        "pool pooler",
        "log loggers",
        "replicas replication",
        "notify notification",
        "deny denial",
        "fail failure",
        "decide decision",
        "extended extension",
        "convert conversion",
        "permit permissions",
        "subscribed subscription",
        "produce production",
        "receive reception",
        "resolve resolution",
        "consume consumption",
        "retain retention",
        "treat treatment",
        "store storage",
        "deliver delivery",
        "define definition",
        "own ownership",
        "scale scalable",
        "long length",
        "pay payments",
        "fly flights",
        "flew flights",
        "flying flight",
        "speak speeches",
        "enter entries",
        "used usage",
    ],
)
def test_english_words_of_a_family_are_related(words: str) -> None:
    first, second = words.split()
    assert second in possible_relatives(first, ENGLISH)
    assert first in possible_relatives(second, ENGLISH)


@pytest.mark.parametrize(
    "words",
    [
        "port portion",
        "state station",
        "data date",
        "sect section",
        "let letter",
        "vote vote",
        "sight seed",
    ],
)
def test_other_words_are_not(words: str) -> None:
    first, second = words.split()
    assert second not in possible_relatives(first, ENGLISH)


@pytest.mark.both_stores
def test_a_question_finds_the_inflected_forms_of_a_family(library: recollect.Library) -> None:
    text = "Martin booked flights with TAP, 28 to 30 November"
    library.add_conversation("c", messages=[{"role": "user", "content": text}])
    for query in ("when do we fly to Porto", "when are we flying?", "who flew to Porto?"):
        assert len(library.search(query).hits) == 1, query


def test_german_and_dutch_verbs_are_related_to_their_nouns() -> None:
    assert "migrationen" in possible_relatives("migriert", GERMAN)
    assert "prufung" in possible_relatives("prufen", GERMAN)
    assert "speicherung" in possible_relatives("speichern", GERMAN)
    assert "migratie" in possible_relatives("migreren", DUTCH)
    assert "betaling" in possible_relatives("betalen", DUTCH)


def test_a_language_without_rules_has_no_families() -> None:
    assert possible_relatives("installer", FRENCH) == set()
