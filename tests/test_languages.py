"""The language of a query, its stop words and its inflected forms."""

from __future__ import annotations

import subprocess
import sys

import pytest
from texts import add_texts

import recollect
from recollect import SearchOptions
from recollect.language.detection import language_of, unspaced_language
from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.text import fold, indexable
from recollect.language.words import stem


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Was hat der Kunde gesagt?", "de"),
        ("wann Zahnarzt", "de"),
        ("Weißt du noch, wo ich das Fahrrad gekauft habe?", "de"),
        ("Quel vélo ai-je acheté ?", "fr"),
        ("Te souviens-tu quand j’ai parlé de l’avion ?", "fr"),
        ("avant-hier", "fr"),
        ("¿Qué dije de la casa?", "es"),
        ("ayer", "es"),
        ("Cosa mi hai consigliato ieri?", "it"),
        ("Como se chama o meu cão?", "pt"),
        ("Wat zei ik over de fiets?", "nl"),
        ("WAS HAT DER KUNDE GESAGT", "de"),
        ("Was kostet das Arbeitszimmer", "de"),
        ("Come funziona asyncio?", "it"),
        ("Quanto custa o sofá?", "pt"),
        ("Was steht im Brief?", "de"),
    ],
)
def test_a_query_in_another_language_is_recognized_by_its_words(text: str, code: str) -> None:
    assert language_of(text).code == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?!",
        "what did we say about the garden",
        "When is Melanie's daughter's birthday?",
        "die hard",
        "lake como",
        "mit license",
        "MIT license der Universität",
        "Carmen de la Cruz birthday",
        "Rechnung Telekom",
        "was it a hit",
        "was standup 9 am",
        "was Anna in Berlin",
        "was die hard a christmas movie",
        "trip in mai",
    ],
)
def test_names_loan_words_and_short_queries_do_not_change_the_language(text: str) -> None:
    assert language_of(text) is ENGLISH


def test_no_file_is_read_before_it_is_needed() -> None:
    code = """
import pkgutil, importlib, recollect
for module in pkgutil.walk_packages(recollect.__path__, "recollect."):
    if "__main__" not in module.name:
        importlib.import_module(module.name)
from recollect.language.languages import ALL
print([language.code for language in ALL if "fields" in vars(language)])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr


@pytest.mark.parametrize("language", LATIN, ids=lambda language: language.name)
def test_a_record_of_a_language_is_complete(language: Language) -> None:
    assert all(word == fold(word) for word in language.stop_words)
    assert "may" not in language.stop_words
    times = language.times
    assert (len(times.months), len(times.weekdays), len(times.numbers)) == (12, 7, 12)
    for name in ("frames", "requests", "asks_assistant", "asks_rule"):
        assert language.fields.text(name), name
    assert language.frames_in("") == []
    assert not language.has("requests", "") and not language.has("asks_assistant", "")


@pytest.mark.parametrize(
    "text",
    [
        "Can you recommend a hotel?",
        "Kannst du mir ein Hotel empfehlen?",
        "Peux-tu me recommander un hôtel ?",
        "¿Me recomiendas un hotel?",
        "Mi consigli un albergo?",
        "Você me recomenda um hotel?",
        "Kun je een hotel aanraden?",
    ],
)
def test_a_request_for_advice_is_recognized(text: str) -> None:
    assert language_of(text).has("requests", text)


@pytest.mark.parametrize(
    "text",
    [
        "May I edit an old migration?",
        "How do I like my tests to be named?",
        "Tabs or spaces?",
        "Darf ich alte Migrationen ändern?",
        "Peut-on modifier une ancienne migration ?",
        "¿Se puede cambiar una migración antigua?",
        "Si può cambiare una vecchia migrazione?",
        "Posso mudar uma migração antiga?",
        "Mag ik een oude migratie aanpassen?",
        "可以改旧的迁移吗？",
        "古いマイグレーションを変えてもいいですか",
        "오래된 마이그레이션을 고쳐도 되나요?",
    ],
)
def test_a_question_for_what_is_allowed_or_preferred_is_recognized(text: str) -> None:
    assert language_of(text).has("asks_rule", text)


@pytest.mark.parametrize(
    "text",
    [
        "Who changed the old migration?",
        "Did we buy tea or coffee?",
        "Wer hat es geändert?",
        "How many connections may we open?",
        "Wie viele Boote dürfen wir vermieten?",
    ],
)
def test_other_questions_ask_for_no_rule(text: str) -> None:
    assert not language_of(text).has("asks_rule", text)


@pytest.mark.parametrize(
    "text",
    [
        "What hotel did you recommend?",
        "Welches Hotel hast du mir empfohlen?",
        "Quel hôtel m’as-tu recommandé ?",
        "¿Qué hotel me recomendaste?",
        "Quale albergo mi hai consigliato?",
        "Que hotel você me recomendou?",
        "Welk hotel heb je aangeraden?",
    ],
)
def test_a_question_about_the_assistant_is_recognized(text: str) -> None:
    assert language_of(text).has("asks_assistant", text)


# -- inflected forms ---


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("de", "essen assets"),
        ("de", "gehen ginger"),
        ("fr", "vivre visit"),
        ("nl", "eten attend"),
        ("pt", "propor proposes"),
    ],
)
def test_english_words_are_no_forms_of_irregular_verbs(code: str, words: str) -> None:
    language = next(language for language in LATIN if language.code == code)
    assert len({stem(word, language) for word in words.split()}) == 2


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("nl", "huis huizen"),
        ("nl", "straat straten"),
        ("nl", "klussen geklust"),
        ("de", "treffen traf trafen getroffen"),
        ("de", "essen aß aßen gegessen"),
        ("fr", "hôpital hôpitaux"),
        ("fr", "heureux heureuse"),
        ("pt", "reunião reuniões"),
    ],
)
def test_each_inflected_form_finds_the_others(
    library: recollect.Library, code: str, words: str
) -> None:
    library.add_conversation("c", messages=[{"role": "user", "content": words}])
    language = next(language for language in LATIN if language.code == code)
    forms = indexable(words).split()
    for form in forms:
        (variants,) = library._store.variants([form], language)
        assert set(variants) == set(forms), form


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("De huizen zijn duur", "Hoeveel kost het huis?"),
        ("Wir haben uns in Köln getroffen", "Wo trafen wir uns?"),
        ("Wir haben Fisch gegessen", "Wo aßen wir?"),
        ("Sie hat mir ein Buch gegeben", "Was gab sie mir?"),
    ],
)
@pytest.mark.both_stores
def test_a_question_finds_other_forms_of_its_words(
    library: recollect.Library, text: str, query: str
) -> None:
    library.add_conversation("c", messages=[{"role": "user", "content": text}])
    assert len(library.search(query).hits) == 1


# -- scripts without spaces ---


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("我什么时候买了新电脑", ["买", "新电脑"]),
        ("旅行的目的地是哪里", ["旅行", "目的地"]),
        ("上周医生说我对什么过敏", ["医生", "对", "过敏"]),
        ("新しいパソコンをいつ買いましたか", ["新", "パソコン", "買"]),
        ("美味しいラーメン屋はどこ", ["美味", "ラーメン屋"]),
        ("犬を飼いたい", ["犬", "飼"]),
        ("병원에서", ["병원"]),
        ("샀어요", ["샀"]),
        ("추천했어", ["추천"]),
        ("언제", []),
        ("昨天", []),
    ],
)
def test_particles_and_endings_are_cut_from_text_without_spaces(
    text: str, topics: list[str]
) -> None:
    language = unspaced_language(text)
    assert language is not None
    assert language.topics_in(text) == topics


@pytest.mark.both_stores
def test_a_noun_of_kanji_and_kana_comes_first(library: recollect.Library) -> None:
    texts = {"meat": "肉は冷凍庫にあります。肉です。", "stew": "祖母のじゃがいもと肉じゃがの作り方"}
    for name, text in texts.items():
        library.add_conversation(name, messages=[{"role": "user", "content": text}])
    for query in ("肉じゃが", "肉じゃがを作った？"):
        hits = library.search(query).hits
        assert [hit.conversation_id for hit in hits] == ["stew", "meat"], query


@pytest.mark.both_stores
def test_words_of_characters_that_no_message_has_resemble_nothing(
    library: recollect.Library,
) -> None:
    for number, text in enumerate(
        ("甘すぎたので次は砂糖を減らします", "修理は明後日の午前中に来てくれるそうです")
    ):
        library.add_conversation(f"c{number}", messages=[{"role": "user", "content": text}])
    library.index()
    for query in ("すし", "カレー", "ピアノ", "ねこ", "水", "東京", "寿司", "犬を飼いたい"):
        page = library.search(query)
        assert page.hits == (), query
        assert page.note.startswith("No message mentions"), query


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("我什么时候买了新电脑", "zh"),
        ("パソコン", "ja"),
        ("いつ買った？", "ja"),
        ("노트북", "ko"),
        ("docker 部署", "zh"),
        ("what does 日本語 mean", "en"),
        ("ภาษาไทย", "en"),
    ],
)
def test_chinese_japanese_and_korean_are_recognized_by_their_scripts(text: str, code: str) -> None:
    assert language_of(text).code == code


@pytest.mark.parametrize(
    "query",
    [
        "conversation about kubernetes",
        "that chat where we compared kubernetes",
        "Das Gespräch über Kubernetes",
        "notre conversation sur le kubernetes",
        "la conversación sobre kubernetes",
        "la conversazione sul kubernetes",
        "a nossa conversa sobre o kubernetes",
        "het gesprek over kubernetes",
    ],
)
def test_that_it_is_a_conversation_is_no_topic(library: recollect.Library, query: str) -> None:
    texts = (
        "Tips for a good conversation, and the one thing to avoid in a chat about money.",
        "Das Gespräch war gut, la conversation aussi. La conversación, la conversazione!",
        "A conversa foi boa. Het gesprek was goed.",
    )
    for number, text in enumerate(texts):
        library.add_conversation(f"c{number}", messages=[{"role": "user", "content": text}])
    page = library.search(query)
    assert page.hits == ()
    assert "kubernetes" in page.note


WRITTEN = {
    "en": (
        "Write a letter to the landlord about the heating",
        "We go to Brest for the holidays",
    ),
    "de": (
        "Ich habe dem Vermieter einen Brief geschrieben, schreib ihm auch, schrieb ich dir.",
        "Im Urlaub fahren wir nach Brest",
    ),
    "fr": ("J'ai écrit une lettre au propriétaire", "Pour les vacances, nous allons à Brest"),
    "es": ("Escribí una carta al dueño, está escrito", "En las vacaciones vamos a Brest"),
    "it": ("Ho scritto una lettera al padrone di casa", "Per le vacanze andiamo a Brest"),
    "pt": ("Escrevi uma carta ao senhorio, está escrito", "Nas férias vamos a Brest"),
    "nl": (
        "Ik heb de huisbaas een brief geschreven, ik schreef hem",
        "In de vakantie gaan we naar Brest",
    ),
}


@pytest.mark.parametrize(
    ("code", "query"),
    [
        ("en", "what did I write about the holidays"),
        ("en", "What was it that Anna wrote about the holidays?"),
        ("de", "Was habe ich über den Urlaub geschrieben"),
        ("de", "Was schrieb Anna über den Urlaub?"),
        ("fr", "Qu'est-ce que j'ai écrit sur les vacances ?"),
        ("es", "¿Qué escribí sobre las vacaciones?"),
        ("it", "Cosa ho scritto sulle vacanze?"),
        ("pt", "O que escrevi sobre as férias?"),
        ("nl", "Wat heb ik over de vakantie geschreven?"),
    ],
)
def test_that_something_was_written_about_a_topic_is_no_topic(
    library: recollect.Library, code: str, query: str
) -> None:
    assert language_of(query).code == code
    letter, holidays = WRITTEN[code]
    library.add_conversation("letter", messages=[{"role": "user", "content": letter}])
    library.add_conversation("holidays", messages=[{"role": "user", "content": holidays}])
    assert [hit.conversation_id for hit in library.search(query).hits] == ["holidays"]


@pytest.mark.parametrize(
    ("code", "query"),
    [
        ("en", "when did I write to the landlord"),
        ("en", "write about the landlord"),
        ("de", "Wann habe ich Anna geschrieben?"),
        ("fr", "Quand ai-je écrit à Anna ?"),
        ("es", "¿Cuándo escribí a Ana?"),
        ("it", "Quando ho scritto ad Anna?"),
        ("pt", "Quando escrevi para a Ana?"),
        ("nl", "Wanneer heb ik Anna geschreven?"),
    ],
)
def test_writing_to_somebody_is_a_topic(library: recollect.Library, code: str, query: str) -> None:
    library.add_conversation("c", messages=[{"role": "user", "content": WRITTEN[code][0]}])
    assert len(library.search(query).hits) == 1


def test_that_there_is_something_is_no_topic(library: recollect.Library) -> None:
    library.add_conversation("c", messages=[{"role": "user", "content": "Das gab sie mir."}])
    for query in (
        "Was gibt es Neues zum Garten?",
        "Wann gab es Streit?",
        "Gibt es hier Äpfel?",
        "Wo gibt’s hier Äpfel?",
        "Welche Äpfel es alles gab",
    ):
        assert library.search(query).hits == (), query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("De sleutel van de fiets", "¿Cuándo fui al dentista?"),
        ("We start at noon", "Wanneer hebben we gegeten?"),
        ("So we do it", "Cosa hai dato a Marta?"),
        ("Op tafel met bloemen", "Où ai-je mis les clés ?"),
        ("Il libro di Marta", "¿Cuándo le dieron la llave?"),
    ],
)
@pytest.mark.both_stores
def test_a_stop_word_of_another_language_is_no_form_of_a_verb(
    library: recollect.Library, text: str, query: str
) -> None:
    library.add_conversation("c", messages=[{"role": "user", "content": text}])
    assert library.search(query).hits == ()


PAST_FORMS = {"las", "alle", "alles", "dit", "mis", "nee", "vi", "dei", "viel"}
"""Forms without which messages about the past would be missed."""


@pytest.mark.parametrize(
    "language",
    [language for language in LATIN if language is not ENGLISH],
    ids=lambda language: language.name,
)
def test_irregular_forms_are_no_stop_words_of_other_languages(language: Language) -> None:
    others = [other for other in LATIN if other is not language]
    stop_words = {indexable(word) for other in others for word in other.stop_words}
    own_stop_words = set(map(indexable, language.stop_words))
    forms = {form for forms in language.irregular_forms_of.values() for form in forms}
    assert (forms & stop_words) - own_stop_words <= PAST_FORMS


@pytest.fixture
def japanese_notes(library: recollect.Library) -> recollect.Library:
    return add_texts(
        library,
        {
            "camper": "キャンピングカーでノルウェーを回っています。",
            "database": "データベースを移行したい。",
            "coffee": "エチオピアのコーヒー豆を買った。",
            "machine": "古いサーバを捨てた。",
        },
    )


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("query", "conversations"),
    [
        ("コンピュータ", []),
        ("ロボット", []),
        ("データベース", ["database"]),
        ("コーヒー", ["coffee"]),
        ("サーバー", ["machine"]),
    ],
)
def test_words_in_katakana_are_not_found_by_pairs_of_characters(
    japanese_notes: recollect.Library, query: str, conversations: list[str]
) -> None:
    page = japanese_notes.search(query, options=SearchOptions(mode="text"))
    assert [hit.conversation_id for hit in page.hits] == conversations


def test_a_missing_word_in_chinese_is_named_as_a_whole(
    japanese_notes: recollect.Library,
) -> None:
    page = japanese_notes.search("潜水艇")
    assert (page.missing, page.note) == (("潜水艇",), "No message mentions “潜水艇”.")
