"""What Recollect knows about a language: its words and patterns, in one TOML file for each.

A file is read when its language is first needed, and a pattern is compiled when it is first used.
Everything is in lower case, with accents. The fields, most of which may be missing, are of three
kinds:

- *Words*, separated by spaces.
- *Patterns*, one in each line; an indented line goes on with the one before, and a line with `#` is
  a comment. They are regular expressions in which a space stands for any white space. They are
  matched against text without accents, so they lose theirs when they are compiled. In a language
  that is written without spaces, they match parts of words.
- *Pairs*, one in each line: `key | another key => value`.

A word is *evidence* if it says what a query is about, so that a message with the word may be the
answer. "Invoice" is evidence, "the" and "what" are not.

    stemmer               The name of the Snowball stemmer; none if words are not inflected.
    function_words        Articles, pronouns, auxiliaries and the like, which are no evidence.
    question_words        The function words with which a question can begin.
    personal_words        The function words for the first and second person.
    opening_verbs         Verbs with which a request can begin, such as `recommend`: evidence.
    typical_words         Other frequent words by which the language is recognized: evidence.
    frequent_words        Words that almost every longer text has, and few in other languages.
    foreign_too           English words that are words of other languages, too.
    letters               Letters that are typical of this language.
    statements            Words with which people state preferences and standing instructions.
    events                Words that ask for anything that was done or said at some time.
    joiners               Characters that join a function word to another one: l'avion, dis-moi.
    linking_elements      What may stand between the parts of compounds, if words are joined freely.
    fixed_accents         Whether people seldom omit accents. In German they write `ue` for `ü`.

    frames                Patterns of phrases that frame a question and say nothing about its topic.
                          If a pattern has a group, only the group is the phrase.
    questions             By which a question is recognized in a language without spaces.
    no_questions          That begin like questions and ask nothing: "Could not find a version".
    to_assistant          Other requests that the assistant answers.
    requests              That ask for advice, such as "recommend" or "how should I".
    asks_assistant        That ask what the assistant said.
    asks_time             That ask for a time, such as "when".
    asks_number           That ask for a number, such as "how many".
    asks_future           That ask for what is yet to come, such as "what will".
    asks_rule             That ask what is allowed, required or preferred, such as "may I".
    standing_instructions How a sentence begins that tells an assistant what to do from now on.

    irregular_forms       Base forms, each followed by its irregular forms; without forms that are
                          frequent stop words, such as `van` in Spanish and `at` in Dutch.
    irregular_endings     What may follow an irregular form, such as the `en` of `gingen`.
    stem_spellings        Patterns in stems and what some inflected forms have instead (`huizen`).
    spellings             Pairs of British and American words.
    beginnings            Pairs of British and American beginnings of stems.
    hyphenated            Words that are also written as one word or as two.
    acronyms_in_s         Acronyms whose last letter is no plural.
    endings               What replaces endings whose accents the stemmer needs.

    particles             Patterns of what separates the words of a text without spaces.
    words_with_particles  Words that contain a particle and are not cut there.
    fragments             What can remain between particles and is no topic.
    nouns                 Nouns in such a text that would lose their ends like inflected words.
    dates                 Dates in such a text, which are no evidence.

The table `times` has the words for points in time. Months, weekdays (from Monday) and numbers (from
one to twelve) are separated by `|`, each with its abbreviations and other spellings. `seasons`,
`units` and `moments` are pairs with the English name. `ordinals` is what follows a number that
counts a day, such as `th` or a full stop. `rules` are patterns and their English translation, which
`language.when` understands. Both can contain `{count}`, `{unit}`, `{day}`, `{month}`, `{weekday}`,
`{season}` and `{year}`; a second month or year is `{month2}` and `{year2}`. A pattern can also
contain `{one}` and `{week}`. In a pattern, `l'` is a word of its own, and a hyphen has spaces
around it.

The table `observer` has the cues of `memory.observe`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from recollect.language.text import fold, indexable, indexable_as_written

_NEVER = "(?!)"  # matches nothing
_SPACES = re.compile(r"\s{2,}")


class Fields:
    """The fields of a file, or of a table in it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        return str(self._values.get(name, "")).strip()

    def table(self, name: str) -> Fields:
        return Fields(self._values.get(name, {}))

    def words(self, name: str) -> list[str]:
        return self.text(name).split()

    def names(self, name: str) -> list[list[str]]:
        """Words in groups between `|`, which may be empty."""
        return [names.split() for names in self.text(name).split("|") if names]

    def groups(self, name: str) -> list[list[str]]:
        """Words in groups, each on a line or between `|`."""
        groups = map(str.split, self.text(name).replace("|", "\n").split("\n"))
        return [group for group in groups if group]

    def lines(self, name: str) -> list[str]:
        """The lines without comments; an indented line belongs to the one before."""
        lines: list[str] = []
        for line in self.text(name).split("\n"):
            if line.startswith(" "):
                lines[-1] += line.strip()
            elif line and not line.startswith("#"):
                lines.append(line)
        return lines

    def pairs(self, name: str) -> list[tuple[str, str]]:
        pairs = []
        for line in self.lines(name):
            keys, _, value = line.partition(" => ")
            pairs.append((keys, value))
        return pairs

    def mapping(self, name: str) -> dict[str, str]:
        """Pairs, of which each key has the value."""
        return {key: value for keys, value in self.pairs(name) for key in keys.split(" | ")}


class Times:
    """The words for points in time."""

    def __init__(self, fields: Fields) -> None:
        self.months = fields.names("months")
        """The names of each month. Weekdays and numbers are like months."""
        self.weekdays = fields.names("weekdays")
        self.numbers = fields.names("numbers")
        self.seasons = fields.mapping("seasons")
        self.units = fields.mapping("units")
        self.moments = fields.mapping("moments")
        """Adverbs, and their translation: `gestern` is `yesterday`."""
        self.rules = fields.pairs("rules")
        self.ordinals = fields.words("ordinals")


Phrases = Literal[
    "frames", "questions", "no_questions", "to_assistant", "requests", "asks_assistant",
    "asks_time", "asks_number", "asks_future", "asks_rule", "standing_instructions",
    "fragments", "nouns", "dates",
]  # fmt: skip
"""The fields whose patterns are looked for in a text."""


class Language:
    """The words and patterns of one language."""

    def __init__(self, code: str, name: str, *, unspaced: bool = False) -> None:
        self.code = code
        """ISO 639-1."""
        self.name = name
        self.unspaced = unspaced
        """Whether words are not separated by spaces, or particles are attached to them."""
        self._patterns: dict[str, re.Pattern[str]] = {}

    def __repr__(self) -> str:
        return f"<Language {self.code}>"

    @cached_property
    def fields(self) -> Fields:
        import tomllib  # takes as long as reading the files of all languages

        path = Path(__file__).with_name(f"{self.code}.toml")
        return Fields(tomllib.loads(path.read_text(encoding="utf-8")))

    @cached_property
    def times(self) -> Times:
        return Times(self.fields.table("times"))

    # -- words ---

    @cached_property
    def stemmer(self) -> str:
        return self.fields.text("stemmer")

    @cached_property
    def linking_elements(self) -> list[str]:
        """What may stand between the parts of compounds; empty if words are not joined freely."""
        return self.fields.words("linking_elements")

    @cached_property
    def stop_words(self) -> frozenset[str]:
        """The words that are no evidence."""
        return self.word_set("function_words", "question_words", "personal_words")

    @cached_property
    def opening_words(self) -> frozenset[str]:
        """The words with which a question or a request can begin."""
        return self.word_set("question_words", "opening_verbs")

    @cached_property
    def persons(self) -> frozenset[str]:
        """The words for the first and second person."""
        return self.word_set("personal_words")

    @cached_property
    def statement_words(self) -> frozenset[str]:
        return self.word_set("statements")

    @cached_property
    def accent_endings(self) -> list[tuple[str, str]]:
        """What replaces endings whose accents the stemmer needs."""
        return self.fields.pairs("endings")

    @cached_property
    def base_forms(self) -> Mapping[str, str]:
        """The base form of each irregular form, without accents."""
        return {form: base for base, forms in self.irregular_forms_of.items() for form in forms}

    @cached_property
    def irregular_forms_of(self) -> Mapping[str, tuple[str, ...]]:
        """The irregular forms of each base form, without accents."""
        all_forms: dict[str, tuple[str, ...]] = {}
        for group in self.fields.groups("irregular_forms"):
            base, *forms = map(indexable, group)
            all_forms[base] = (*all_forms.get(base, ()), *forms)
        return all_forms

    @cached_property
    def joiners(self) -> str:
        return self.fields.text("joiners")

    def joined_parts(self, word: str) -> list[str]:
        """The parts of a word that a joiner of the language connects."""
        for joiner in self.joiners:
            word = word.replace(joiner, self.joiners[0])
        return word.split(self.joiners[0]) if self.joiners else [word]

    def word_set(self, *names: str) -> frozenset[str]:
        """The words of some fields, also without accents if people often omit them."""
        words = {fold(word) for name in names for word in self.fields.words(name)}
        if not self.fields.text("fixed_accents"):
            words |= without_accents(words)
        return frozenset(words)

    # -- phrases ---

    def has(self, phrases: Phrases, text: str) -> bool:
        """Whether a text has one of the phrases. "How many may we open?" asks for a number."""
        if phrases == "asks_rule" and self.has("asks_number", text):
            return False
        searchable = self._searchable(text)
        if phrases == "standing_instructions":
            searchable = f"\n{searchable}"
        return self._pattern(phrases).search(searchable) is not None

    def frames_in(self, text: str) -> list[str]:
        """The phrases of a text that say nothing about its topic, without accents."""
        matches = self._pattern("frames").finditer(self._searchable(text))
        return [match[match.lastindex or 0] for match in matches]

    def _pattern(self, phrases: Phrases) -> re.Pattern[str]:
        """A pattern for any of the phrases, as whole words if words are separated by spaces."""
        pattern = self._patterns.get(phrases)
        if pattern is None:
            patterns = "|".join(self.fields.lines(phrases)) or _NEVER
            if not self.unspaced:
                patterns = indexable_as_written(patterns).replace(" ", r"\s")
                # A pattern that begins with a set of characters is searched three times as fast.
                start = r"[.!?:;\n]\s?" if phrases == "standing_instructions" else ""
                patterns = rf"{start}\b(?:{patterns})\b"
            pattern = self._patterns[phrases] = re.compile(patterns)
        return pattern

    def _searchable(self, text: str) -> str:
        """A text as phrases are matched against it: without accents, with straight apostrophes.

        A run of spaces becomes one space, or one line break, because some phrases begin a line: a
        phrase of several words could match a long run in very many ways.
        """
        if self.unspaced:
            return unicodedata.normalize("NFKC", text)
        text = indexable(text.replace("\u2019", "'"))
        return _SPACES.sub(lambda run: "\n" if "\n" in run[0] else " ", text)

    # -- text without spaces ---

    def without_dates(self, text: str) -> str:
        """An unspaced text without its dates."""
        return self._pattern("dates").sub(" ", text)

    def topics_in(self, text: str) -> list[str]:
        """The parts of an unspaced text between its particles and adverbs of time."""
        topics = [""]
        end = 0
        for match in self._particle.finditer(text):
            topics[-1] += text[end : match.start()]
            if match.lastindex:
                topics.append("")
            else:
                topics[-1] += match[0]
            end = match.end()
        topics[-1] += text[end:]
        fragment = self._pattern("fragments")
        return [topic for topic in topics if topic and not fragment.fullmatch(topic)]

    def nouns_in(self, text: str) -> list[str]:
        """The nouns of an unspaced text of which `topics_in` has only the beginning."""
        return self._pattern("nouns").findall(text)

    @cached_property
    def _particle(self) -> re.Pattern[str]:
        words = self.fields.words("words_with_particles")
        moments = sorted(self.times.moments, key=len, reverse=True)
        particles = "|".join([*moments, *self.fields.lines("particles")])
        return re.compile("|".join([*words, f"({particles})"]))


def without_accents(words: Iterable[str]) -> set[str]:
    """The words that have accents, without their accents."""
    return {indexable(word) for word in words if not word.isascii()}


ENGLISH = Language("en", "English")
GERMAN = Language("de", "German")
FRENCH = Language("fr", "French")
SPANISH = Language("es", "Spanish")
ITALIAN = Language("it", "Italian")
PORTUGUESE = Language("pt", "Portuguese")
DUTCH = Language("nl", "Dutch")
CHINESE = Language("zh", "Chinese", unspaced=True)
JAPANESE = Language("ja", "Japanese", unspaced=True)
KOREAN = Language("ko", "Korean", unspaced=True)
LATIN = (ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH)
"""The languages with Latin letters, which only their words tell apart."""
UNSPACED = (CHINESE, JAPANESE, KOREAN)
ALL = (*LATIN, *UNSPACED)
