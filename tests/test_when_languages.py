"""Times in other languages mean what they mean in English."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from selection import few

from recollect.language.detection import language_of
from recollect.language.languages import LATIN, Language
from recollect.language.when import windows

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)  # a Wednesday

# What an English expression is in each language. `|` separates other ways to say it.
TIMES = {
    "yesterday": {
        "de": "Was habe ich gestern gesagt?",
        "fr": "Qu'est-ce que j'ai dit hier ?",
        "es": "¿Qué dije ayer?",
        "it": "Che cosa ho detto ieri?",
        "pt": "O que eu disse ontem?",
        "nl": "Wat zei ik gisteren?",
    },
    "day before yesterday": {
        "de": "Was war vorgestern?",
        "fr": "avant-hier",
        "es": "¿Qué pasó anteayer?",
        "it": "Che cosa ho fatto l’altro ieri?",
        "pt": "O que eu fiz anteontem?",
        "nl": "Wat deed ik eergisteren?",
    },
    "last week": {
        "de": "Was habe ich letzte Woche gekauft?|Wen traf ich in der vergangenen Woche?",
        "fr": "Qu’ai-je acheté la semaine dernière ?|la semaine passée",
        "es": "¿Qué compré la semana pasada?",
        "it": "Che cosa ho comprato la settimana scorsa?|la scorsa settimana con mio padre",
        "pt": "O que comprei na semana passada?",
        "nl": "Wat heb ik vorige week gekocht?|Wat heb ik afgelopen week gekocht?",
    },
    "three days ago": {
        "de": "Was habe ich vor drei Tagen gefragt?|Was war vor 3 Tagen?",
        "fr": "Qu’ai-je demandé il y a trois jours ?|il y a environ 3 jours",
        "es": "¿Qué pregunté hace tres días?|¿Qué pasó hace 3 días?",
        "it": "Che cosa ho chiesto tre giorni fa?|Che cosa ho chiesto 3 giorni fa?",
        "pt": "O que perguntei há três dias?|O que perguntei três dias atrás?",
        "nl": "Wat vroeg ik drie dagen geleden?|Wat vroeg ik 3 dagen geleden?",
    },
    "a few weeks ago": {
        "de": "Was war vor ein paar Wochen?|Was war vor einigen Wochen?",
        "fr": "il y a quelques semaines",
        "es": "¿Qué pasó hace unas semanas?|¿Qué pasó hace algunas semanas?",
        "it": "Che cosa è successo qualche settimana fa?",
        "pt": "O que aconteceu há algumas semanas?",
        "nl": "Wat gebeurde er een paar weken geleden?",
    },
    "in the last 2 weeks": {
        "de": "Was war in den letzten zwei Wochen?|Was war in den letzten 2 Wochen?",
        "fr": "Qu’ai-je fait ces deux dernières semaines ?",
        "es": "¿Qué pasó en las últimas dos semanas?",
        "it": "Che cosa ho fatto nelle ultime due settimane?",
        "pt": "O que eu fiz nas últimas duas semanas?",
        "nl": "Wat deed ik in de afgelopen twee weken?",
    },
    "in March": {
        "de": "Was habe ich im März geplant?",
        "fr": "Qu’avais-je prévu en mars ?",
        "es": "¿Qué planeé en marzo?",
        "it": "Che cosa ho fatto a marzo?|Che cosa ho fatto in marzo?",
        "pt": "O que eu fiz em março?",
        "nl": "Wat heb ik in maart gedaan?",
    },
    "5 March 2024": {
        "de": "Was war am 5. März 2024?|Was war am 5.3.2024?|Was war am Dienstag, 5. März 2024?",
        "fr": "Qu’ai-je dit le 5 mars 2024 ?|Qu’ai-je dit le 5/3/2024 ?",
        "es": "¿Qué dije el 5 de marzo de 2024?|¿Qué dije el martes 5 de marzo de 2024?",
        "it": "Che cosa ho detto il 5 marzo 2024?|Che cosa ho detto il 5/3/2024?",
        "pt": "O que eu disse em 5 de março de 2024?|O que eu disse no dia 5 de março de 2024?",
        "nl": "Wat zei ik op 5 maart 2024?|Wat zei ik op 5-3-2024?",
    },
    "last Monday": {
        "de": "Was war letzten Montag?|Was war am vergangenen Montag?",
        "fr": "Qu’ai-je dit lundi dernier ?",
        "es": "¿Qué dije el lunes pasado?|¿Qué dije el pasado lunes?",
        "it": "Che cosa ho detto lunedì scorso?",
        "pt": "O que eu disse na segunda-feira passada?|O que eu disse na segunda passada?",
        "nl": "Wat zei ik afgelopen maandag?",
    },
    "last summer": {
        "de": "Wo war ich letzten Sommer?",
        "fr": "Où étais-je l’été dernier ?",
        "es": "¿Dónde estuve el verano pasado?",
        "it": "Dove ero la scorsa estate?|Dove ero l’estate scorsa?",
        "pt": "Onde estive no verão passado?",
        "nl": "Waar was ik afgelopen zomer?",
    },
    "summer 2023": {
        "de": "Wo war ich im Sommer 2023?",
        "fr": "Où étais-je à l’été 2023 ?",
        "es": "¿Dónde estuve en verano de 2023?",
        "it": "Dove ero nell’estate del 2023?",
        "pt": "Onde estive no verão de 2023?",
        "nl": "Waar was ik in de zomer van 2023?",
    },
    "early May 2024": {
        "de": "Was war Anfang Mai 2024?",
        "fr": "Qu’ai-je dit début mai 2024 ?",
        "es": "¿Qué dije a principios de mayo de 2024?",
        "it": "Che cosa ho detto all’inizio di maggio 2024?",
        "pt": "O que eu disse no início de maio de 2024?",
        "nl": "Wat zei ik begin mei 2024?",
    },
    "in 2023": {
        "de": "Wo war ich im Jahr 2023?|Wo war ich in 2023?",
        "fr": "Où étais-je en 2023 ?",
        "es": "¿Dónde estuve en 2023?|¿Dónde estuve en el año 2023?",
        "it": "Dove ero nel 2023?",
        "pt": "Onde estive em 2023?",
        "nl": "Waar was ik in 2023?",
    },
    "since June": {
        "de": "Was habe ich seit Juni gelernt?",
        "fr": "Qu’ai-je appris depuis juin ?",
        "es": "¿Qué aprendí desde junio?",
        "it": "Che cosa ho imparato da giugno?",
        "pt": "O que aprendi desde junho?",
        "nl": "Wat heb ik sinds juni geleerd?",
    },
    "between May and July 2025": {
        "de": "Was war zwischen Mai und Juli 2025?",
        "fr": "Qu’ai-je dit entre mai et juillet 2025 ?",
        "es": "¿Qué dije entre mayo y julio de 2025?",
        "it": "Che cosa ho detto tra maggio e luglio 2025?",
        "pt": "O que eu disse entre maio e julho de 2025?",
        "nl": "Wat zei ik tussen mei en juli 2025?",
    },
    "May of last year": {
        "de": "Was war im Mai letzten Jahres?",
        "fr": "Qu’ai-je dit en mai de l’année dernière ?",
        "es": "¿Qué dije en mayo del año pasado?",
        "it": "Che cosa ho detto a maggio dell’anno scorso?",
        "pt": "O que eu disse em maio do ano passado?",
        "nl": "Wat zei ik in mei vorig jaar?",
    },
    "last night": {
        "de": "Was habe ich gestern Abend gekocht?",
        "fr": "Qu’ai-je mangé hier soir ?",
        "es": "¿Qué cené anoche?",
        "it": "Che cosa ho mangiato ieri sera?",
        "pt": "O que eu comi ontem à noite?",
        "nl": "Wat heb ik gisteravond gekookt?",
    },
    "at Christmas": {
        "de": "Was haben wir an Weihnachten gekocht?",
        "fr": "Qu’avons-nous mangé à Noël ?",
        "es": "¿Qué comimos en Navidad?",
        "it": "Che cosa abbiamo mangiato a Natale?",
        "pt": "O que nós comemos no Natal?",
        "nl": "Wat hebben we met Kerst gegeten?",
    },
}
UNSPACED_TIMES = {
    "yesterday": {
        "zh": "我昨天说了什么？",
        "ja": "昨日何を話しましたか",
        "ko": "어제 뭐라고 했지?",
    },
    "last week": {"zh": "上周我买了什么", "ja": "先週何を買った？", "ko": "지난주에 뭘 샀지?"},
    "last month": {"zh": "上个月去了哪里", "ja": "先月どこに行った？", "ko": "지난달에 어디 갔지?"},
    "last year": {"zh": "去年去了哪里", "ja": "去年どこに行った？", "ko": "작년에 어디 갔지?"},
    "three days ago": {
        "zh": "三天前我问了什么|3天前我问了什么",
        "ja": "三日前に何を聞いた？|3日前に何を聞いた？",
        "ko": "3일 전에 뭘 물어봤지?|사흘 전에 뭘 물어봤지?",
    },
    "two months ago": {
        "zh": "两个月前我在哪里",
        "ja": "2か月前はどこにいた？",
        "ko": "두 달 전에 어디 있었지?",
    },
    "a year ago": {"zh": "一年前", "ja": "1年前に", "ko": "1년 전"},
    "5 March 2024": {
        "zh": "2024年3月5日发生了什么|2024年三月五号发生了什么",
        "ja": "2024年3月5日に何があった？|２０２４年３月５日に何があった？",
        "ko": "2024년 3월 5일에 무슨 일이 있었지?",
    },
    "March 2024": {
        "zh": "2024年3月我去了哪里",
        "ja": "2024年3月にどこに行った？",
        "ko": "2024년 3월에 어디 갔지?",
    },
    "in March": {"zh": "三月我去了哪里", "ja": "3月にどこに行った？", "ko": "3월에 어디 갔지?"},
    "May last year": {
        "zh": "去年5月我去了哪里",
        "ja": "去年の5月にどこに行った？",
        "ko": "작년 5월에 어디 갔지?",
    },
    "in the last 2 weeks": {
        "zh": "最近两周我做了什么",
        "ja": "この2週間何をした？",
        "ko": "지난 2주 동안 뭘 했지?",
    },
    "Monday last week": {
        "zh": "上周一我说了什么",
        "ja": "先週の月曜日に何を話した？",
        "ko": "지난주 월요일에 뭐라고 했지?",
    },
    "summer 2023": {
        "zh": "2023年夏天我在哪里",
        "ja": "2023年の夏はどこにいた？",
        "ko": "2023년 여름에 어디 있었지?",
    },
    "summer last year": {
        "zh": "去年夏天我在哪里",
        "ja": "去年の夏はどこにいた？",
        "ko": "작년 여름에 어디 있었지?",
    },
    "last night": {"zh": "昨晚吃了什么", "ja": "昨夜何を食べた？", "ko": "어젯밤에 뭘 먹었지?"},
    "recently": {"zh": "最近买了什么", "ja": "最近何を買った？", "ko": "최근에 뭘 샀지?"},
}
CASES = [
    (code, text, english)
    for english, texts in [*TIMES.items(), *UNSPACED_TIMES.items()]
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
