"""Reading a query. Where it is ambiguous, the library decides what it means.

**Operators that are text.** Commands and SQL look like exclusions: `tar -xzf`, `IS NOT NULL`. If a
message contains the operator between the same words, exactly as typed, the user is looking for that
text.

**Queries about nothing but a time**: "What did we do last week?", or only "last week". Any message
may contain the words of such a query, so they are not evidence. The answer is what was written at
that time. A single word such as "yesterday" may be a name, so it is searched for. A date such as
"2026-03-05" is searched for as an identifier, and "March 5" as the day of an appointment; if
nothing has it, it is a time. A question may also name a time besides a topic. If no hit is from
then, a remark says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import cache
from typing import NamedTuple

from recollect.errors import SearchTimeout
from recollect.language.dates import formats_in, mentions_day, names_day
from recollect.language.languages import Language
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, classify
from recollect.language.queries.query import Mention, Query, literal_words, parse_query
from recollect.language.queries.query_tokens import Token, query_tokens
from recollect.language.queries.query_tree import And, Node, Or, Word
from recollect.language.text import has_token, tokens
from recollect.language.when import Window, windows
from recollect.model.search import Filter, SearchOptions
from recollect.search.queries.long_queries import parse_any_length
from recollect.search.queries.query_filter import narrow_filter
from recollect.store.base import Store

_WORD = re.compile(r"\w+")
_LAST_MOMENT = timedelta(microseconds=1)
BY_TIME = "Searched by time only"
"""How the note of such a query begins."""
_MESSAGES = 20
"""So many of the best matches are read."""
_FIRST_YEAR = 2000  # people have not talked to programs for longer than that


def read_query(text: str, store: Store, options: SearchOptions, filters: Sequence[Filter]) -> Query:
    """Parse a query, and decide what it means in this library.

    `filters`: what is searched passes at least one of them.
    """
    query = parse_any_length(text, store)
    if options.mode != "vector":
        query = as_period(query, options.now)
    return resolve_ambiguity(query, store, filters)


def resolve_ambiguity(query: Query, store: Store, filters: Sequence[Filter]) -> Query:
    """Decide by what the library contains whether operators are text, and a time is meant."""
    query = with_operators_as_text(query, store, filters)
    return period_or_mention(query, store, filters)


# -- operators ---


class _Exclusion(NamedTuple):
    """An exclusion that may be text."""

    text: str
    """As typed, with the words around it."""
    node: Node
    """A query that messages with the text match, among others."""
    pattern: re.Pattern[str]
    """A pattern of the text itself."""


def with_operators_as_text(query: Query, store: Store, filters: Sequence[Filter]) -> Query:
    """The query. If messages contain its exclusions, all its operators are text."""
    if query.plain or query.node is None:
        return query
    for exclusion in exclusions(list(query_tokens(query.rest, fields=True))):
        if any(contain(exclusion, store, narrow_filter(f, query, store)) for f in filters):
            note = f"Searched as text, because a message contains “{exclusion.text}”."
            node = literal_words(query.rest)
            return query._replace(node=node, plain=True, literal=True, note=note)
    return query


def contain(exclusion: _Exclusion, store: Store, filter: Filter) -> bool:
    """Whether one of the best matches contains the text."""
    try:
        keys = store.match(exclusion.node, filter, _MESSAGES)
        messages = store.candidates(keys, filter)
    except SearchTimeout:
        return False
    return any(exclusion.pattern.search(message.content) for message in messages)


def exclusions(all_tokens: Sequence[Token]) -> Iterator[_Exclusion]:
    for number, token in enumerate(all_tokens[:-1]):
        before, following = all_tokens[max(number - 1, 0) : number], all_tokens[number + 1]
        if following.kind != "word":
            continue
        if token.kind == "-":
            # An option of a command, in a message with the word before it, else one after it. At
            # the beginning of a line, a minus may be a bullet.
            others = [*reversed(all_tokens[:number]), *all_tokens[number + 2 :]]
            words = [t.word for t in others if t.word is not None and has_token(t.word.text)]
            node: Node = Word(following.text)
            if words:
                node = And((words[0], node))
            pattern = rf"(?:\S[ \t]+|[`'\"(])-{re.escape(following.text)}(?!\w)"
            yield _Exclusion(f"-{following.text}", node, re.compile(pattern))
        elif token.kind == "NOT":
            # NOT and the words around it, in SQL: IF NOT EXISTS.
            parts = [*(each for each in before if each.kind == "word"), token, following]
            if any(part.text.isupper() for part in parts if part is not token):
                text = "".join(part.text for part in parts).strip()
                pattern = rf"(?<!\w){re.escape(text)}(?!\w)"
                yield _Exclusion(text, Word(" ".join(tokens(text))), re.compile(pattern))


# -- times ---


def as_period(query: Query, now: datetime) -> Query:
    """The query; with fields instead of words if it asks about nothing but a time."""
    if not query.plain or query.note or not may_ask_for_time(query):
        return query
    periods = windows(query.rest, now)
    if len(periods) != 1 or has_topic(query, periods[0]):
        return query
    period = periods[0]
    last = period.end - _LAST_MOMENT
    fields = query.fields._replace(
        after=max(filter(None, (query.fields.after, period.start))),
        before=min(filter(None, (query.fields.before, last))),
    )
    note = f"{BY_TIME}: {_dates(period)}."
    return query._replace(
        node=None,
        fields=fields,
        plain=False,
        rest="",
        note=note,
        mention=_mention(query, period),
    )


def period_or_mention(query: Query, store: Store, filters: Sequence[Filter]) -> Query:
    """The query, or one for its words if no message is from that time but some mention it.

    A day is usually that of an appointment. So for "2024-03-05", and for keywords that name a day,
    it is the other way round.
    """
    mention = query.mention
    if mention is None:
        return query
    if mention.day and is_day_mentioned(mention, mention.day, store, filters):
        if has_messages(query, store, filters):
            return mention.query._replace(note=note_on_day(mention.day))
        return mention.query
    if mention.is_identifier and is_mentioned(mention, store, filters):
        return mention.query
    if has_messages(query, store, filters):
        return query
    if mention.is_identifier or is_mentioned(mention, store, filters):
        return mention.query
    return query


def period_remark(
    periods: Sequence[Window], now: datetime, times: Iterable[datetime | None]
) -> str:
    """What to say if a question names periods and no hit was written in one of them.

    In the future, and long ago, no messages were written: such a period is what they are about.
    """
    past = [period for period in periods if period.start.year >= _FIRST_YEAR and period.start < now]
    if not past or len(past) < len(periods):
        return ""
    for time in times:
        if time is not None and any(period.start <= time < period.end for period in past):
            return ""
    dates = " or ".join(dict.fromkeys(map(_dates, past)))
    return f"None of the best hits was written in that time ({dates})."


def _mention(query: Query, period: Window) -> Mention:
    """How messages mention the period of a query. A day is mentioned in many formats."""
    intent = classify(query.rest)
    phrases = [without_leading_stop_words(tokens(period.words), query.language)]
    day = period.start.date()
    is_named_day = is_day(period) and names_day(period.words, day)
    if is_named_day:
        digits = day.isoformat()
        if digits[:4] not in period.words:
            digits = f"-{digits[4:]}"  # of any year
        phrases += formats_in(digits)
        if intent == KEYWORDS:
            query = parse_query(digits)._replace(text=query.text, fields=query.fields)
    node = Or(tuple(Word(" ".join(words)) for words in dict.fromkeys(phrases)))
    if intent == IDENTIFIER:
        return Mention(query, node, is_identifier=True)
    note = f"Nothing was written at that time ({_dates(period)})."
    query = query._replace(note=note)
    if is_named_day and intent == KEYWORDS:
        return Mention(query, node, day=day)
    return Mention(query, node)


def note_on_day(day: date) -> str:
    return f"These mention that day. For what was written then, use after:{day} before:{day}."


def without_leading_stop_words(words: Sequence[str], language: Language) -> tuple[str, ...]:
    """Christmas, if the words are "at Christmas"."""
    stop_words = words_without_topic(language)
    start = next((n for n, word in enumerate(words) if word not in stop_words), 0)
    return tuple(words[start:])


def may_ask_for_time(query: Query) -> bool:
    if classify(query.rest) == KEYWORDS:
        return query.language.unspaced or len(query.rest.split()) > 1
    return True


def has_topic(query: Query, period: Window) -> bool:
    """Whether a question has words besides its period that say what it is about."""
    language = query.language
    if language.unspaced:
        topics = " ".join(language.topics_in(query.rest)).replace(period.words, " ")
        return not language.word_set("events").issuperset(_WORD.findall(topics))
    words = tokens(query.rest.replace(period.words, " "))
    words = [word for word in words if len(word) > 1]  # not the "s" of "what's"
    return not words_without_topic(language).issuperset(words)


@cache
def words_without_topic(language: Language) -> frozenset[str]:
    """The words that do not say what a question is about, as they are indexed."""
    return frozenset(tokens(" ".join(language.stop_words | language.word_set("events"))))


def has_messages(period: Query, store: Store, filters: Sequence[Filter]) -> bool:
    """Whether anything was written in a period."""
    return any(store.recent(None, narrow_filter(f, period, store), 1) for f in filters)


def is_mentioned(mention: Mention, store: Store, filters: Sequence[Filter]) -> bool:
    try:
        return any(
            store.has_match(mention.node, narrow_filter(f, mention.query, store)) for f in filters
        )
    except SearchTimeout:
        return False


def is_day_mentioned(mention: Mention, day: date, store: Store, filters: Sequence[Filter]) -> bool:
    """Whether one of the best matches mentions the day."""
    try:
        for filter in filters:
            narrowed = narrow_filter(filter, mention.query, store)
            keys = store.match(mention.node, narrowed, _MESSAGES)
            for message in store.candidates(keys, narrowed):
                if mentions_day(message.content, day) or mentions_day(message.title, day):
                    return True
    except SearchTimeout:
        pass
    return False


def is_day(period: Window) -> bool:
    return period.start.date() == (period.end - _LAST_MOMENT).date()


def _dates(period: Window) -> str:
    last = period.end - _LAST_MOMENT
    if period.start.year == 1:
        return f"up to {last:%Y-%m-%d}"
    if is_day(period):
        return f"{last:%Y-%m-%d}"
    return f"{period.start:%Y-%m-%d} to {last:%Y-%m-%d}"
