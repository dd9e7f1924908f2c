"""The language of a query, its stop words and its inflected forms."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from texts import add_texts

import recollect
from recollect import SearchOptions
from recollect.language.detection import language_of, unspaced_language
from recollect.language.languages import ENGLISH, JAPANESE, LATIN, Language
from recollect.language.queries.query import parse_query
from recollect.language.text import fold, indexable
from recollect.language.words import content_words, stem, stems
from recollect.model.kinds import CONVERSATION
from recollect.search.passages import ANSWER, ScoredCandidate, find_terms
from recollect.search.queries.terms import RankingQuery
from recollect.store.values import Candidate


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Was hat der Kunde gesagt?", "de"),
        ("wann Zahnarzt", "de"),
        ("Weißt du noch, wo ich das Fahrrad gekauft habe?", "de"),
        ("letzte Woche", "de"),
        ("hier ist es", "de"),
        ("Quel vélo ai-je acheté ?", "fr"),
        ("Te souviens-tu quand j’ai parlé de l’avion ?", "fr"),
        ("avant-hier", "fr"),
        ("¿Qué dije de la casa?", "es"),
        ("como se llama mi perro", "es"),
        ("ayer", "es"),
        ("Cosa mi hai consigliato ieri?", "it"),
        ("come si chiama il mio dentista", "it"),
        ("o que eu disse sobre o carro", "pt"),
        ("Como se chama o meu cão?", "pt"),
        ("Wat zei ik over de fiets?", "nl"),
        ("wanneer hebben we het huis gekocht", "nl"),
        ("WAS HAT DER KUNDE GESAGT", "de"),
        ("Was kostet das Arbeitszimmer", "de"),
        ("Wie funktioniert asyncio?", "de"),
        ("Come funziona asyncio?", "it"),
        ("Quanto custa o sofá?", "pt"),
        ("Was gab sie mir?", "de"),
        ("Was trank er?", "de"),
        ("Was steht im Brief?", "de"),
        ("was lag im Auto", "de"),
        ("Was macht Anna?", "de"),
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
        "la restaurants",
        "per se",
        "Rechnung Telekom",
        "was it a hit",
        "was im there",
        "was standup 9 am",
        "was Anna in Berlin",
        "was die hard a christmas movie",
        "im in love",
        "er doctor",
        "trip in mai",
        "asyncio.gather()",
        "2024-05-01",
    ],
)
def test_names_loan_words_and_short_queries_do_not_change_the_language(text: str) -> None:
    assert language_of(text) is ENGLISH


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Was haben wir über den Garten gesagt?", ["Garten", "gesagt?"]),
        ("fuer was ist das Geld", ["Geld"]),
        ("Qu’est-ce que j’ai dit de l’avion ?", ["dit", "avion"]),
        ("Te souviens-tu du rendez-vous avec ma tante", ["souviens", "rendez", "tante"]),
        ("¿Cuándo compré el té de la tía?", ["compré", "té", "tía?"]),
        ("Dov'era l'albergo che ho prenotato?", ["albergo", "prenotato?"]),
        ("O que disse-me a médica sobre o pão?", ["disse", "médica", "pão?"]),
        ("Wat heb ik over zo'n fiets gezegd", ["fiets", "gezegd"]),
        ("was ist das", ["was", "ist", "das"]),
        ("Was gab sie mir?", ["gab"]),
        ("où est-il", ["où", "est-il"]),
    ],
)
def test_stop_words_are_those_of_the_language_of_the_query(text: str, expected: list[str]) -> None:
    query = parse_query(text)
    assert query.node is not None
    content = content_words(query.node, query.language)
    assert [word.text for word in content if word.text != "?"] == expected


def test_a_query_with_operators_has_no_language() -> None:
    assert parse_query("wann AND wo").language is ENGLISH
    assert parse_query("wann und wo").language.code == "de"


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
        "How should I water the roses?",
        "Wie soll ich die Rosen gießen?",
        "Comment dois-je arroser les roses ?",
        "¿Cómo debo regar las rosas?",
        "Come devo annaffiare le rose?",
        "Como devo regar as rosas?",
        "Hoe moet ik de rozen water geven?",
    ],
)
def test_a_request_for_advice_is_recognized(text: str) -> None:
    assert language_of(text).has("requests", text)


@pytest.mark.parametrize(
    "text",
    [
        "May I edit an old migration?",
        "Are global variables allowed in the parser?",
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


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("When did we leave?", "We left in May", "We left"),
        ("Wann sind wir losgefahren?", "Wir sind im Mai losgefahren", "Wir sind losgefahren"),
        ("Quand sommes-nous partis ?", "Nous sommes partis en août", "Nous sommes partis"),
        ("¿Cuántos perros tenemos?", "Tenemos tres perros", "Tenemos un perro"),
        ("Quanti cani abbiamo?", "Abbiamo tre cani", "Abbiamo un cane"),
        ("Quantos cães nós temos?", "Temos três cães", "Temos um cão"),
        ("Wanneer zijn we vertrokken?", "We zijn gisteren vertrokken", "We zijn vertrokken"),
        ("我们什么时候出发？", "我们 5 日出发", "我们出发"),
        ("いくらでしたか？", "240ユーロでした", "安かった"),
        ("얼마였지?", "240유로였어요", "비쌌어요"),
        ("Wer fährt?", "", "Wir fahren im Mai"),
    ],
)
def test_an_answer_has_the_time_or_the_number_that_the_question_asks_for(
    question: str, answer: str, other: str
) -> None:
    assert has_answer(question, answer) == bool(answer)
    assert not has_answer(question, other)


def has_answer(question: str, text: str) -> bool:
    candidate = Candidate(
        1, "m", "c", "", "user", None, "message", None, "test", CONVERSATION, "", 0, True, 1, text
    )
    scored = ScoredCandidate(candidate, by_text=True)
    find_terms(RankingQuery(question, (), datetime(2025, 6, 18, tzinfo=UTC)), [scored])
    return bool(scored.traits & ANSWER)


# -- inflected forms ---


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("de", "rechnung rechnungen"),
        ("de", "haus hauser hausern"),
        ("de", "gehen ging gingen gegangen"),
        ("de", "lesen las lasen gelesen"),
        ("de", "kaufen gekauft kaufte kauften"),
        ("fr", "avion avions"),
        ("fr", "acheter achete achetes achetees"),
        ("fr", "cheval chevaux"),
        ("fr", "venir venu venue venues"),
        ("es", "cancion canciones"),
        ("es", "comprar compre compraron comprado"),
        ("es", "ir fui fueron"),
        ("it", "albergo alberghi"),
        ("it", "scrivere scritto scrivo"),
        ("pt", "reuniao reunioes"),
        ("pt", "comprar comprei compraram"),
        ("nl", "fiets fietsen"),
        ("nl", "kopen kocht gekocht"),
        ("nl", "straat straten"),
        ("de", "bekommen bekam bekamen"),
        ("de", "verstehen verstand verstanden"),
        ("de", "anrufen angerufen"),
    ],
)
def test_inflected_forms_have_the_same_stem(code: str, words: str) -> None:
    language = next(language for language in LATIN if language.code == code)
    assert len({stem(word, language) for word in words.split()}) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("de", "essen assets"),
        ("de", "gehen ginger"),
        ("de", "lesen laser"),
        ("fr", "vivre visit"),
        ("fr", "mettre meter"),
        ("nl", "eten attend"),
        ("pt", "propor proposes"),
    ],
)
def test_english_words_are_no_forms_of_irregular_verbs(code: str, words: str) -> None:
    language = next(language for language in LATIN if language.code == code)
    assert len({stem(word, language) for word in words.split()}) == 2


def test_many_words_have_the_same_stems_as_one_by_one() -> None:
    words = ["tusks", "went", "children", "книги", "naïve", "x2s", "", "s" * 65]
    assert stems(words) == [stem(word) for word in words]


def test_other_scripts_have_their_own_stemmer_in_every_language() -> None:
    for language in LATIN:
        assert stem("книги", language) == stem("книга", language)


VOCABULARY = (
    "Häuser haushalt ging gingen gegangen Rechnung Rechnungen Rechnungsdatum walking walked"
)


@pytest.mark.parametrize(
    ("code", "word", "variants"),
    [
        ("de", "haus", {"haus", "hauser"}),
        ("de", "gehen", {"gehen", "ging", "gingen", "gegangen"}),
        ("de", "rechnungen", {"rechnung", "rechnungen"}),
        ("de", "datum", {"datum"}),
        ("en", "rechnungen", {"rechnungen"}),
        ("en", "walk", {"walk", "walking", "walked"}),
        ("fr", "walk", {"walk"}),
        ("de", "zz", {"zz"}),
    ],
)
def test_a_store_finds_the_inflected_forms_of_a_word(
    library: recollect.Library, code: str, word: str, variants: set[str]
) -> None:
    library.add_conversation("c", messages=[{"role": "user", "content": VOCABULARY}])
    language = next(language for language in LATIN if language.code == code)
    (forms,) = library._store.variants([word], language)
    assert forms[0] == word
    assert set(forms) == variants


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("nl", "huis huizen"),
        ("nl", "brief brieven"),
        ("nl", "straat straten"),
        ("nl", "maan manen"),
        ("nl", "roos rozen"),
        ("nl", "oog ogen"),
        ("nl", "klussen geklust"),
        ("de", "treffen traf trafen getroffen"),
        ("de", "essen aß aßen gegessen"),
        ("de", "bekommen bekam bekamen"),
        ("fr", "hôpital hôpitaux"),
        ("fr", "heureux heureuse"),
        ("fr", "essayer essaie"),
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
        ("De brieven liggen op tafel", "Waar is de brief?"),
        ("Wir haben uns in Köln getroffen", "Wo trafen wir uns?"),
        ("Sie hat eine Zwei bekommen", "Was bekam sie?"),
        ("Wir haben Fisch gegessen", "Wo aßen wir?"),
        ("Sie hat mir ein Buch gegeben", "Was gab sie mir?"),
        ("Er hat Tee getrunken", "Was trank er?"),
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
        ("我妹妹的吉他老师是谁", ["妹妹", "吉他老师"]),
        ("新しいパソコンをいつ買いましたか", ["新", "パソコン", "買"]),
        ("犬の名前は何ですか", ["犬", "名前"]),
        ("美味しいラーメン屋はどこ", ["美味", "ラーメン屋"]),
        ("犬を飼いたい", ["犬", "飼"]),
        ("병원에서", ["병원"]),
        ("샀어요", ["샀"]),
        ("추천했어", ["추천"]),
        ("언제", []),
        ("昨天", []),
        ("いつですか", []),
    ],
)
def test_particles_and_endings_are_cut_from_text_without_spaces(
    text: str, topics: list[str]
) -> None:
    language = unspaced_language(text)
    assert language is not None
    assert language.topics_in(text) == topics


@pytest.mark.parametrize(
    ("text", "nouns"),
    [
        ("肉じゃが", ["肉じゃが"]),
        ("焼きそば", ["焼きそば"]),
        ("子どもの名前は何ですか", ["子ども"]),
        ("食べものを買いました", ["食べもの"]),
        ("犬を飼いたい", []),
        ("甘すぎたので次は砂糖を減らします", []),
        ("犬の名前は何ですか", []),
        ("料理したもの", []),
        ("買ったもの全部", []),
    ],
)
def test_a_noun_of_kanji_and_kana_is_recognized(text: str, nouns: list[str]) -> None:
    assert JAPANESE.nouns_in(text) == nouns


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
    ("text", "frame"),
    [
        ("How many days ago did I meet Emma?", "how many days ago"),
        ("How many months have passed since the move?", "how many months have passed"),
        ("I moved three weeks ago.", "weeks ago"),
        ("How many weeks did the move take?", "how many weeks"),
    ],
)
def test_how_long_ago_something_was_is_no_topic(text: str, frame: str) -> None:
    assert frame in [each.casefold() for each in ENGLISH.frames_in(text)]


@pytest.mark.parametrize(
    "query",
    [
        "conversation about kubernetes",
        "that chat where we compared kubernetes",
        "the one about kubernetes",
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
        ("en", "have I written anything about the holidays?"),
        ("en", "What was it that Anna wrote about the holidays?"),
        ("de", "Was habe ich über den Urlaub geschrieben"),
        ("de", "Was haben wir zum Urlaub geschrieben?"),
        ("de", "Was schrieb Anna über den Urlaub?"),
        ("fr", "Qu'est-ce que j'ai écrit sur les vacances ?"),
        ("fr", "Qu'ai-je écrit à propos des vacances ?"),
        ("es", "¿Qué escribí sobre las vacaciones?"),
        ("es", "¿Qué he escrito de las vacaciones?"),
        ("it", "Cosa ho scritto sulle vacanze?"),
        ("it", "Che cosa ho scritto delle vacanze?"),
        ("pt", "O que escrevi sobre as férias?"),
        ("pt", "O que tenho escrito sobre as férias?"),
        ("nl", "Wat heb ik over de vakantie geschreven?"),
        ("nl", "Wat schreef ik over de vakantie?"),
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
