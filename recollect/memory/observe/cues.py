"""The types of observations, and the phrases that reveal them.

The phrases of a language are in its file (`language.languages`), in the table `observer`:

    decision, preference, learning, security, pattern, fix, refactor, feature
                      Patterns of what a sentence is about. `learning` is a cause or a finding.
    repair            That something was broken, even in a change of configuration files.
    own, aside        Of statements about oneself, and of what people add in passing.
    empty, step       Of sentences that say nothing, and that only say what comes next.
    request, polite   How requests begin, and what of it can be left out.
    lead, clauses     Introductory words, such as "by the way", and how clauses begin.
    advice, run_tests How sentences begin that tell the reader what to do, and requests to run
                      tests.
    asks, asks_at_end, asks_cause
                      How questions and requests begin and end, and how a cause is asked for.
    trivial, trivial_end
                      Replies that say nothing by themselves, and what may follow them.
    accepts, choice_end, pleasantry
                      How replies begin that accept something, how those end that choose something,
                      and thanks and greetings.
    offer             Of an answer that offers something to choose from.
    anaphor           Words that refer to what was said before.
    new_topic         How a message begins that is about something else.
    common_words, weak_verbs, outcome_words, count_words, time_words
                      Words without a meaning, verbs that are no concept, and words that count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache

from recollect.language.detection import unspaced_language
from recollect.language.languages import ALL, ENGLISH, Language
from recollect.memory.observe.words import languages_of
from recollect.memory.observe.work import Work, is_configuration, is_test_file

TYPES = (
    "decision",
    "bugfix",
    "feature",
    "refactor",
    "discovery",
    "pattern",
    "preference",
    "change",
    "learning",
    "config",
    "test",
    "debug",
    "security",
)
_ALIASES = {
    "bugfix": "bug fix bugfixes hotfix",
    "feature": "features feat",
    "refactor": "refactoring refactors cleanup",
    "discovery": "discoveries finding investigation",
    "pattern": "patterns convention",
    "preference": "preferences",
    "change": "changes chore",
    "learning": "learnings learned lesson gotcha",
    "config": "configuration setup settings",
    "test": "tests testing",
    "debug": "debugging error",
    "security": "securityalert securitynote vulnerability",
    "decision": "decisions tradeoff",
}
_TYPES_BY_ALIAS = {name: type_ for type_, names in _ALIASES.items() for name in names.split()}
_COMMIT_TYPES = {
    "fix": "bugfix",
    "feat": "feature",
    "refactor": "refactor",
    "test": "test",
    "tests": "test",
    "perf": "refactor",
    "build": "config",
    "ci": "config",
    "config": "config",
    "style": "refactor",
    "hotfix": "bugfix",
    "security": "security",
    "chore": "change",
    "docs": "change",
    "revert": "change",
}
_CONVENTIONAL_COMMIT = re.compile(r"^(\w+)(?:\([^)]*\))?!?: ")


def parse_type(name: str) -> str | None:
    """The type that a name stands for (`bug-fix`, `Bug_Fix` and `fix` mean bugfix), or None."""
    bare_name = re.sub(r"[\s_-]+", "", name).casefold()
    return bare_name if bare_name in TYPES else _TYPES_BY_ALIAS.get(bare_name)


# -- cues ---


class Cue:
    """Phrases of one kind, in every language that has any."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Several rules look for the same cue in the same sentence.
        self.is_in = lru_cache(maxsize=1_024)(self._is_in)

    def _is_in(self, text: str) -> bool:
        lower = text.lower()  # is searched faster than in any case
        for language in languages_of(text):
            pattern = _pattern(language, self._name, 0)
            if pattern is not None and pattern.search(lower):
                return True
        return False

    def at_start(self, text: str) -> re.Match[str] | None:
        """The phrase with which a text begins. It may be too short to tell its language."""
        for pattern in self._in_any_case:
            match = pattern.match(text)
            if match is not None:
                return match
        return None

    @cached_property
    def _in_any_case(self) -> list[re.Pattern[str]]:
        flags = re.IGNORECASE | re.DOTALL
        patterns = [_pattern(language, self._name, flags) for language in ALL]
        return [pattern for pattern in patterns if pattern is not None]


@cache
def _pattern(language: Language, name: str, flags: int) -> re.Pattern[str] | None:
    lines = language.fields.table("observer").lines(name)
    # What begins at the same boundary is searched several times as fast.
    at_word = "|".join(line.removeprefix(r"\b") for line in lines if line.startswith(r"\b"))
    others = [line for line in lines if not line.startswith(r"\b")]
    if at_word:
        others.append(rf"\b(?:{at_word})")
    return re.compile("|".join(others), flags) if lines else None


@cache
def cue_words(name: str) -> frozenset[str]:
    """Words of one kind, in all languages."""
    return frozenset(word for lang in ALL for word in lang.fields.table("observer").words(name))


DECISION = Cue("decision")
PREFERENCE = Cue("preference")
LEARNING = Cue("learning")
SECURITY = Cue("security")
PATTERN = Cue("pattern")
FIX = Cue("fix")
REFACTOR = Cue("refactor")
FEATURE = Cue("feature")
OWN = Cue("own")
ASIDE = Cue("aside")
EMPTY = Cue("empty")
STEP = Cue("step")
ADVICE = Cue("advice")
RUN_TESTS = Cue("run_tests")
REQUEST = Cue("request")
LEAD = Cue("lead")
_REPAIR = Cue("repair")
_POLITE = Cue("polite")
_ASKS = Cue("asks")
_ASKS_AT_END = Cue("asks_at_end")
ASKS_CAUSE = Cue("asks_cause")
_ACCEPTS = Cue("accepts")
_CHOICE_END = Cue("choice_end")
_PLEASANTRY = Cue("pleasantry")
_OFFER = Cue("offer")
_ANAPHOR = Cue("anaphor")
_NEW_TOPIC = Cue("new_topic")


def has_decision(text: str) -> bool:
    """Whether a text states a decision or a lasting preference."""
    return DECISION.is_in(text) or PREFERENCE.is_in(text)


# -- types ---


def type_of_work(work: Work, request: str, outcome: str) -> str:
    """The type of an observation of work: by what was done, or by the words if that is unclear."""
    text = " ".join((*work.commits, request))
    if work.changes or work.renames or work.commits:
        return type_of_change(work, text, outcome)
    if SECURITY.is_in(text) or SECURITY.is_in(outcome):
        return "security"
    if work.errors or FIX.is_in(request):
        return "debug"
    if any(run.outcomes[-1:] == ["failed"] for run in work.runs.values()):
        return "debug"
    if work.runs and re.search(r"\btests?\b", request, re.IGNORECASE):
        return "test"
    return "discovery"


def type_of_change(work: Work, text: str, outcome: str) -> str:
    files = work.files_modified
    is_config = bool(files) and all(map(is_configuration, files))
    if SECURITY.is_in(text):
        return "security"
    named = type_of_commits(work.commits)
    if named is not None:
        return "config" if named == "change" and is_config else named
    if files and all(map(is_test_file, files)):
        return "test"
    if is_config and not work.is_repair and not _REPAIR.is_in(text):
        return "config"
    if REFACTOR.is_in(text) and not FIX.is_in(text):
        return "refactor"
    if work.is_repair or FIX.is_in(text):
        return "bugfix"
    if any(change.is_new for change in work.changes.values()) or FEATURE.is_in(text):
        return "feature"
    if work.renames and not work.changes:
        return "refactor"
    if re.search(r"\b(?:fixed|the bug|the fix)\b", outcome, re.IGNORECASE):
        return "bugfix"
    return "change"


def type_of_commits(commits: Sequence[str]) -> str | None:
    """The type that the last conventional commit names ("fix: ..." is a bugfix)."""
    for commit in reversed(commits):
        match = _CONVENTIONAL_COMMIT.match(commit)
        if match is not None and match[1].casefold() in _COMMIT_TYPES:
            return _COMMIT_TYPES[match[1].casefold()]
    return None


def type_of_talk(statements: Sequence[str], request: str, answer: str, *, question: bool) -> str:
    """The type of an observation of a conversation without tool calls."""
    if SECURITY.is_in(request) or any(map(SECURITY.is_in, statements)):
        return "security"
    for type_, cue in (("decision", DECISION), ("preference", PREFERENCE), ("pattern", PATTERN)):
        if any(map(cue.is_in, statements)):
            return type_
    if statements and not question:
        return "discovery"
    return "decision" if DECISION.is_in(answer[:400]) else "learning"


# -- what a person's message does, by its first and last words ---

_MAX_REPLY_LENGTH = 140
_MAX_DECISION_LENGTH = 70
_MAX_CHOICE_WORDS = 5
_MAX_CHOICE_LENGTH = 40
_MAX_UNSPACED_CHOICE_LENGTH = 14
_END = re.compile(r"\W|$")


def asks(text: str) -> bool:
    """Whether a text asks a question or for something to be done, by its first or last words."""
    if _ASKS.at_start(text):
        return True
    return not text.isascii() and _ASKS_AT_END.is_in(text)


def is_question(text: str) -> bool:
    return "?" in text or "？" in text or (not text.isascii() and _ASKS_AT_END.is_in(text))


def is_pleasantry(text: str) -> bool:
    text = text.strip()
    match = _PLEASANTRY.at_start(text)
    return match is not None and _END.match(text, match.end()) is not None


@lru_cache(maxsize=1_024)
def is_trivial(text: str) -> bool:
    """Whether a message says nothing by itself, such as "ok, go ahead"."""
    text = text.strip()
    if len(text) > _MAX_REPLY_LENGTH:
        return False
    return any(trivial(language).fullmatch(text) for language in ALL)


@cache
def trivial(language: Language) -> re.Pattern[str]:
    own, english = (each.fields.table("observer") for each in (language, ENGLISH))
    words = "|".join(own.lines("trivial")) or "(?!)"
    # No end twice: that would be matched in very many ways.
    ends = "|".join({*own.lines("trivial_end"), *english.lines("trivial_end")})
    return re.compile(rf"(?:{words})(?:[\s,.!、，]++(?:{ends}))*[\s.!?…。！]*", re.IGNORECASE)


def is_reply(text: str, request: str, answer: str) -> bool:
    """Whether a message can only be understood as the reply to an answer to a request.

    It accepts an offer ("yes please", "ok, do it"), or it chooses ("the table then", "14").
    """
    text = text.strip()
    if not text or len(text) > _MAX_REPLY_LENGTH or is_question(text) or "\n" in text:
        return False
    if _NEW_TOPIC.at_start(text) or is_pleasantry(text):
        return False
    if is_trivial(text) or accepts(text):
        return True
    if not is_choice(text):
        return False
    # The answer may be long, so it is searched last.
    return is_question(request) or _ANAPHOR.is_in(text) or _OFFER.is_in(answer)


def accepts(text: str) -> bool:
    match = _ACCEPTS.at_start(text)
    if match is None:
        return False
    is_whole_word = match.end() == len(text) or text[match.end()] in " \t,.!:;"
    return is_whole_word or not match[0].isascii()


def is_choice(text: str) -> bool:
    if len(text) <= _MAX_DECISION_LENGTH and DECISION.is_in(text):
        return True
    if asks(text):
        return False
    length = _MAX_CHOICE_LENGTH
    if unspaced_language(text) is not None:
        length = _MAX_UNSPACED_CHOICE_LENGTH
    is_short = len(text) <= length and len(text.split()) <= _MAX_CHOICE_WORDS
    return is_short or _CHOICE_END.is_in(text)


def without_politeness(request: str) -> str:
    """A request without polite opening words."""
    match = _POLITE.at_start(request)
    rest = request[match.end() :].rstrip("?") if match else ""
    return rest if len(rest) >= 10 else request
