"""Times in other languages mean what they mean in English."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from selection import few

from recollect.language.detection import language_of
from recollect.language.languages import LATIN, Language
from recollect.language.when import windows

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)  # a Wednesday

TIMES = tomllib.loads((Path(__file__).parent / "data/times.toml").read_text(encoding="utf-8"))
CASES = [
    (code, text, english)
    for english, texts in TIMES.items()
    for code, alternatives in texts.items()
    for text in alternatives.split("|")
]
OTHER_LANGUAGES = [language for language in LATIN if language.code != "en"]


def spans(text: str) -> list[tuple[datetime, datetime]]:
    return [(window.start, window.end) for window in windows(text, NOW)]


@pytest.mark.parametrize(("code", "text", "english"), few(CASES, 60))
def test_a_time_in_another_language_is_the_same_period_as_in_english(
    code: str, text: str, english: str
) -> None:
    assert language_of(text).code == code
    assert spans(text) == spans(english) != []


@pytest.mark.parametrize("language", OTHER_LANGUAGES, ids=lambda language: language.name)
def test_every_number_from_one_to_twelve_is_understood(language: Language) -> None:
    frame = {
        "de": "Was war vor {} Wochen?",
        "fr": "il y a {} semaines",
        "es": "¿Qué dije hace {} semanas?",
        "it": "Che cosa ho detto {} settimane fa?",
        "pt": "O que eu disse há {} semanas?",
        "nl": "Wat zei ik {} weken geleden?",
    }[language.code]
    for number, names in enumerate(language.times.numbers, start=1):
        for name in names:
            assert spans(frame.format(name)) == spans(f"{number} weeks ago")


@pytest.mark.parametrize(
    "text",
    [
        "Was machen wir nächste Woche?",
        "Was ist im Mai nächsten Jahres?",
        "Wie viele Tage hat ein Jahr?",
        "Wie spät ist es hier?",
        "Qu’est-ce que je fais demain ?",
        "J’ai été malade",
        "¿Qué hago mañana?",
        "Sei il mio amico?",
        "O que eu faço amanhã?",
        "Wat doe ik volgende week?",
        "明天做什么",
        "日本語の本",
        "다음 주 월요일에 뭘 하지?",
    ],
)
def test_what_is_not_in_the_past_is_not_a_time(text: str) -> None:
    assert spans(text) == []


def test_the_words_of_a_time_are_those_of_the_text() -> None:
    texts = ["Was war letzte Woche?", "Où étais-je l’été dernier ?", "Was war am 5. März 2024?"]
    words = [[window.words for window in windows(text, NOW)] for text in texts]
    assert words == [["letzte Woche"], ["l’été dernier"], ["am 5. März 2024"]]


@pytest.mark.parametrize("text", ["Juni 2025", "juin 2025", "giugno 2025", "junio de 2025"])
def test_the_name_of_a_month_tells_the_language(text: str) -> None:
    (window,) = windows(text, NOW)
    assert (window.start.year, window.start.month, window.words) == (2025, 6, text)


@pytest.mark.parametrize("text", ["the Mars 2025 mission", "Marco 2025", "mayo 2025"])
def test_english_words_are_no_foreign_months(text: str) -> None:
    assert windows(text, NOW) == ()


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("3. Mai 2024", "2024-05-03"),  # "Mai" is French, too
        ("Rechnung 3. Mai 2024", "2024-05-03"),
        ("3. August 2024", "2024-08-03"),
        ("10. Nov. 2025", "2025-11-10"),
        ("14. Oktober", "2025-10-14"),
        ("1er mai 2024", "2024-05-01"),
        ("3 mars 2024", "2024-03-03"),
        ("3 de mayo de 2024", "2024-05-03"),
        ("op 13 november", "2025-11-13"),
        ("3 August 2024", "2024-08-03"),
    ],
)
def test_a_date_by_itself_is_that_day(text: str, day: str) -> None:
    (window,) = windows(text, NOW)
    assert (str(window.start.date()), window.end - window.start) == (day, timedelta(days=1))
    assert text.endswith(window.words.removesuffix("."))


def test_the_month_of_a_year_may_be_an_english_word() -> None:
    (window,) = windows("vélo en mars 2025", NOW)
    assert (window.words, window.start.month, window.start.year) == ("en mars 2025", 3, 2025)


@pytest.mark.parametrize("text", ["Che cosa ho chiesto lunedì?", "Qu'est-ce que j'ai dit lundi ?"])
def test_weekdays_need_no_preposition_in_french_and_italian(text: str) -> None:
    (window,) = windows(text, NOW)
    assert str(window.start.date()) == "2026-03-16"


@pytest.mark.parametrize(
    ("text", "day"),
    [("五月二十三号", "2025-05-23"), ("十一月十五日", "2025-11-15"), ("二月三日", "2026-02-03")],
)
def test_days_may_be_written_in_chinese_characters(text: str, day: str) -> None:
    (window,) = windows(text, NOW)
    assert (str(window.start.date()), window.end - window.start) == (day, timedelta(days=1))


@pytest.mark.parametrize("text", ["三週間前", "月曜日"])
def test_japanese_words_for_times_need_no_kana(text: str) -> None:
    assert language_of(text).code == "ja"
    assert windows(text, NOW)
