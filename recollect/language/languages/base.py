"""What Recollect knows about a language: a record of words and patterns for each.

A word is *evidence* if it says what a query is about, so that a message with the word may be the
answer. "Invoice" is evidence, "the" and "what" are not.

Everything is written in lower case, with accents. Patterns are regular expressions in which a
space stands for any white space. They are matched against text without accents, so they lose
theirs when they are compiled.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from recollect.language.text import fold, indexable, indexable_as_written

_NEVER = "(?!)"  # matches nothing
_SPACES = re.compile(r"\s{2,}")


@dataclass(frozen=True, eq=False, repr=False)
class TimeWords:
    """The words for points in time.

    A rule is a pattern and its English translation, which `language.when` understands. Both can
    contain `{count}`, `{unit}`, `{day}`, `{month}`, `{weekday}`, `{season}` and `{year}`; a
    second month or year is `{month2}` and `{year2}`. A pattern can also contain `{one}` and
    `{week}`. In a pattern, `l'` is a word of its own, and a hyphen has spaces around it.
    """

    months: tuple[str, ...]
    """Each with its abbreviations and other spellings, separated by spaces."""
    weekdays: tuple[str, ...]
    """From Monday. Like months."""
    numbers: tuple[str, ...]
    """From one to twelve. Like months."""
    seasons: Mapping[str, str] = field(default_factory=dict)
    """The names of `spring`, `summer`, `autumn` and `winter`."""
    units: Mapping[str, str] = field(default_factory=dict)
    """All forms of `minute`, `hour`, `day`, `week`, `month`, `year` and `weekend`."""
    moments: Mapping[str, str] = field(default_factory=dict)
    """Adverbs, and their translation: `gestern` is `yesterday`."""
    rules: tuple[tuple[str, str], ...] = ()
    ordinals: tuple[str, ...] = ()
    """What follows a number that counts a day, such as `th` or a full stop."""


@dataclass(frozen=True, eq=False, repr=False)
class Language:
    """The words and patterns of one language. Most fields may be empty."""

    code: str
    """ISO 639-1."""
    name: str
    times: TimeWords
    stemmer: str = ""
    """The name of the Snowball stemmer; empty if words are not inflected."""
    function_words: str = ""
    """Articles, pronouns, auxiliaries, prepositions and the like, which are no evidence."""
    question_words: str = ""
    """The function words with which a question can begin."""
    personal_words: str = ""
    """The function words for the first and second person, which people use in questions."""
    opening_verbs: str = ""
    """Verbs with which a request can begin, such as `recommend`. They are evidence."""
    frames: tuple[str, ...] = ()
    """Patterns of phrases that frame a question and say nothing about its topic.

    If a pattern has a group, only the group is the phrase.
    """
    questions: tuple[str, ...] = ()
    """Patterns by which a question is recognized wherever they occur, in unspaced languages."""
    requests: tuple[str, ...] = ()
    """Patterns of phrases that ask for advice, such as "recommend" or "how should I"."""
    asks_assistant: tuple[str, ...] = ()
    """Patterns of phrases that ask what the assistant said."""
    asks_time: tuple[str, ...] = ()
    """Patterns of phrases that ask for a time, such as "when"."""
    asks_number: tuple[str, ...] = ()
    """Patterns of phrases that ask for a number, such as "how many"."""
    asks_future: tuple[str, ...] = ()
    """Patterns of phrases that ask for what is yet to come, such as "what will"."""
    asks_rule: tuple[str, ...] = ()
    """Patterns of phrases that ask what is allowed, required or preferred, such as "may I"."""
    standing_instructions: tuple[str, ...] = ()
    """Patterns of how a sentence begins that tells an assistant what to do from now on."""
    statements: str = ""
    """Words with which people state preferences and standing instructions, such as `prefer`."""
    events: str = ""
    """Words that ask for anything that was done or said at some time, such as `happened`."""
    irregular_forms: str = ""
    """Base forms, each followed by its irregular forms. Entries are separated by | or lines.

    Forms that are frequent stop words are left out, such as `van` in Spanish and `at` in Dutch.
    """
    irregular_endings: str = ""
    """What may follow an irregular form, such as the `en` of `gingen`."""
    stem_spellings: tuple[tuple[str, str], ...] = ()
    """Patterns in stems and what some inflected forms have instead, such as the `z` of `huizen`."""
    derivations: str = ""
    """Endings that words of one family can have (`vote voter`), a group on each line.

    First the least number of letters before the ending; `-` is no ending.
    """
    families: str = ""
    """Families of words that no rule joins (`long length`), separated by | or lines."""
    inflections: str = ""
    """The endings of the inflected forms of these words, a group on each line; `-` is no ending."""
    endings: Mapping[str, str] = field(default_factory=dict)
    """Endings without accents and what replaces them, where the stemmer depends on accents."""
    joiners: str = ""
    """Characters that join a function word to another word, as in `l'avion` or `dis-moi`."""
    linking_elements: str | None = None
    """What may stand between the parts of compounds; None if the language does not join words."""
    typical_words: str = ""
    """Other frequent words by which the language is recognized. They are evidence."""
    letters: str = ""
    """Letters that are typical of this language."""
    unspaced: bool = False
    """Whether words are not separated by spaces, or particles are attached to them. Patterns then
    match parts of words."""
    particles: tuple[str, ...] = ()
    """Patterns of what separates the words of an unspaced text: particles, endings, pronouns."""
    words_with_particles: str = ""
    """Words that contain a particle and are not cut there."""
    fragments: str = _NEVER
    """A pattern of what can remain between particles and is no topic."""
    nouns: str = _NEVER
    """A pattern of nouns in an unspaced text that would lose their ends like inflected words."""
    dates: str = _NEVER
    """A pattern of dates in an unspaced text, which are no evidence."""
    optional_accents: bool = True
    """Whether people often omit accents. In German they write `ue` instead of `ü`."""

    @cached_property
    def stop_words(self) -> frozenset[str]:
        """The words that are no evidence."""
        return self._word_set(self.function_words, self.question_words, self.personal_words)

    @cached_property
    def event_words(self) -> frozenset[str]:
        return self._word_set(self.events)

    @cached_property
    def statement_words(self) -> frozenset[str]:
        return self._word_set(self.statements)

    @cached_property
    def opening_words(self) -> frozenset[str]:
        """The words with which a question or a request can begin."""
        return self._word_set(self.question_words, self.opening_verbs)

    @cached_property
    def persons(self) -> frozenset[str]:
        """The words for the first and second person."""
        return self._word_set(self.personal_words)

    @cached_property
    def base_forms(self) -> Mapping[str, str]:
        """The base form of each irregular form, without accents."""
        return {form: base for base, forms in self.irregular_forms_of.items() for form in forms}

    @cached_property
    def irregular_forms_of(self) -> Mapping[str, tuple[str, ...]]:
        """The irregular forms of each base form, without accents."""
        all_forms: dict[str, tuple[str, ...]] = {}
        for entry in re.split(r"[|\n]", indexable(self.irregular_forms)):
            base, *forms = entry.split() or [""]
            all_forms[base] = (*all_forms.get(base, ()), *forms)
        return all_forms

    @cached_property
    def _frame(self) -> re.Pattern[str]:
        return self._compile(self.frames)

    @cached_property
    def _question(self) -> re.Pattern[str]:
        return self._compile(self.questions)

    @cached_property
    def _request(self) -> re.Pattern[str]:
        return self._compile(self.requests)

    @cached_property
    def _assistant(self) -> re.Pattern[str]:
        return self._compile(self.asks_assistant)

    @cached_property
    def _time_question(self) -> re.Pattern[str]:
        return self._compile(self.asks_time)

    @cached_property
    def _number_question(self) -> re.Pattern[str]:
        return self._compile(self.asks_number)

    @cached_property
    def _future_question(self) -> re.Pattern[str]:
        return self._compile(self.asks_future)

    @cached_property
    def _rule_question(self) -> re.Pattern[str]:
        return self._compile(self.asks_rule)

    @cached_property
    def _standing_instruction(self) -> re.Pattern[str]:
        pattern = self._compile(self.standing_instructions).pattern
        if self.unspaced:
            return re.compile(pattern)
        # A pattern that begins with a set of characters is searched three times as fast.
        return re.compile(rf"[.!?:;\n]\s?{pattern}")

    @cached_property
    def _particle(self) -> re.Pattern[str]:
        words = self.words_with_particles.split()
        moments = sorted(self.times.moments, key=len, reverse=True)
        return re.compile("|".join([*words, f"({'|'.join([*moments, *self.particles])})"]))

    @cached_property
    def _date(self) -> re.Pattern[str]:
        return re.compile(self.dates)

    @cached_property
    def _fragment(self) -> re.Pattern[str]:
        return re.compile(self.fragments)

    @cached_property
    def _noun(self) -> re.Pattern[str]:
        return re.compile(self.nouns)

    def without_dates(self, text: str) -> str:
        """An unspaced text without its dates."""
        return self._date.sub(" ", text)

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
        return [topic for topic in topics if topic and not self._fragment.fullmatch(topic)]

    def nouns_in(self, text: str) -> list[str]:
        """The nouns of an unspaced text of which `topics_in` has only the beginning."""
        return self._noun.findall(text)

    def joined_parts(self, word: str) -> list[str]:
        """The parts of a word that a joiner of the language connects."""
        for joiner in self.joiners[1:]:
            word = word.replace(joiner, self.joiners[0])
        if not self.joiners:
            return [word]
        return word.split(self.joiners[0])

    def frames_in(self, text: str) -> list[str]:
        """The phrases of a text that say nothing about its topic, without accents."""
        matches = self._frame.finditer(self._searchable(text))
        return [match[match.lastindex or 0] for match in matches]

    def is_question(self, text: str) -> bool:
        """Whether a text has a question word or particle. Only unspaced languages have any."""
        return self._question.search(self._searchable(text)) is not None

    def is_request(self, text: str) -> bool:
        """Whether a text asks for advice."""
        return self._request.search(self._searchable(text)) is not None

    def is_about_assistant(self, text: str) -> bool:
        """Whether a text asks what the assistant said."""
        return self._assistant.search(self._searchable(text)) is not None

    def asks_for_time(self, text: str) -> bool:
        return self._time_question.search(self._searchable(text)) is not None

    def asks_for_number(self, text: str) -> bool:
        return self._number_question.search(self._searchable(text)) is not None

    def asks_for_future(self, text: str) -> bool:
        return self._future_question.search(self._searchable(text)) is not None

    def asks_for_rule(self, text: str) -> bool:
        """Whether a text asks what is allowed, required or preferred.

        "How many may we open?" asks for a number.
        """
        if self.asks_for_number(text):
            return False
        return self._rule_question.search(self._searchable(text)) is not None

    def has_standing_instruction(self, text: str) -> bool:
        """Whether a text tells an assistant what to do from now on."""
        return self._standing_instruction.search(f"\n{self._searchable(text)}") is not None

    def _compile(self, patterns: Iterable[str]) -> re.Pattern[str]:
        """A pattern for any of the phrases, as whole words if words are separated by spaces."""
        if self.unspaced:
            return re.compile("|".join(patterns) or _NEVER)
        alternatives = [indexable_as_written(pattern).replace(" ", r"\s") for pattern in patterns]
        return re.compile(rf"\b(?:{'|'.join(alternatives) or _NEVER})\b")

    def _searchable(self, text: str) -> str:
        """A text as phrases are matched against it: without accents, with straight apostrophes.

        A run of spaces becomes one space: a phrase of several words could match a long run in very
        many ways.
        """
        if self.unspaced:
            return unicodedata.normalize("NFKC", text)
        return _SPACES.sub(_single_space, indexable(text.replace("\u2019", "'")))

    def _word_set(self, *texts: str) -> frozenset[str]:
        words = {word for text in texts for word in fold(text).split()}
        if self.optional_accents:
            words |= {indexable(word) for word in words if not word.isascii()}
        return frozenset(words)


def _single_space(run: re.Match[str]) -> str:
    """A line break stays one, because some phrases begin a line."""
    if "\n" in run[0]:
        return "\n"
    return " "
