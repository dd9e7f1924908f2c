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
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from itertools import dropwhile, pairwise

from recollect.errors import SearchTimeout
from recollect.language.languages import Language
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, classify
from recollect.language.queries.query import Mention, Query, literal_words, parse_query
from recollect.language.queries.query_tokens import Token, query_tokens
from recollect.language.queries.query_tree import Node, Or, Word, all_of
from recollect.language.text import has_token, tokens
from recollect.language.when import Window, formats_in, mentions_day, names_day, windows
from recollect.model.search import Filter, SearchOptions
from recollect.search.queries.long_queries import parse_any_length
from recollect.search.queries.query_filter import narrow_filter
from recollect.store.base import Store
from recollect.store.values import Candidate

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
    if not query.plain and query.node is not None:
        query = with_operators_as_text(query, store, filters)
    if query.mention is None:
        return query
    return period_or_mention(query, query.mention, store, filters)


# -- operators ---


def with_operators_as_text(query: Query, store: Store, filters: Sequence[Filter]) -> Query:
    """The query. If messages contain its exclusions, all its operators are text."""
    for text, node, pattern in exclusions(list(query_tokens(query.rest, fields=True))):
        narrowed = [narrow_filter(filter, query, store) for filter in filters]
        if any(re.search(pattern, m.content) for m in best_matches(node, store, narrowed)):
            note = f"Searched as text, because a message contains “{text}”."
            literal = literal_words(query.rest)
            return query._replace(node=literal, plain=True, literal=True, note=note)
    return query


def best_matches(node: Node, store: Store, filters: Sequence[Filter]) -> Iterator[Candidate]:
    """Some of the messages that match a query best."""
    with suppress(SearchTimeout):
        for filter in filters:
            yield from store.candidates(store.match(node, filter, _MESSAGES), filter)


def exclusions(all_tokens: Sequence[Token]) -> Iterator[tuple[str, Node, str]]:
    """The exclusions that may be text, as typed, with the words around them.

    Each with a query that messages with the text match, among others, and a pattern of the text.
    """
    for number, (token, following) in enumerate(pairwise(all_tokens)):
        if following.kind != "word":
            continue
        if token.kind == "-":
            # An option of a command, in a message with the word before it, else one after it. At
            # the beginning of a line, a minus may be a bullet.
            others = [*reversed(all_tokens[:number]), *all_tokens[number + 2 :]]
            words = [t.word for t in others if t.word is not None and has_token(t.word.text)]
            node = all_of([*words[:1], Word(following.text)])
            pattern = rf"(?:\S[ \t]+|[`'\"(])-{re.escape(following.text)}(?!\w)"
            yield f"-{following.text}", node, pattern
        elif token.kind == "NOT":
            # NOT and the words around it, in SQL: IF NOT EXISTS.
            before = [t for t in all_tokens[max(number - 1, 0) : number] if t.kind == "word"]
            if any(each.text.isupper() for each in (*before, following)):
                text = "".join(each.text for each in (*before, token, following)).strip()
                node = Word(" ".join(tokens(text)))
                yield text, node, rf"(?<!\w){re.escape(text)}(?!\w)"


# -- times ---


def as_period(query: Query, now: datetime) -> Query:
    """The query; with fields instead of words if it asks about nothing but a time."""
    is_word = not query.language.unspaced and len(query.rest.split()) < 2
    if not query.plain or query.note or (is_word and classify(query.rest) == KEYWORDS):
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


def period_or_mention(
    query: Query, mention: Mention, store: Store, filters: Sequence[Filter]
) -> Query:
    """The query, or one for its words if no message is from that time but some mention it.

    A day is usually that of an appointment. So for "2024-03-05", and for keywords that name a day,
    it is the other way round.
    """
    is_written = has_messages(query, store, filters)
    if mention.day is None and not mention.is_identifier:
        is_meant = not is_written and is_mentioned(mention, store, filters)
    else:
        is_meant = is_mentioned(mention, store, filters) or (
            mention.is_identifier and not is_written
        )
    if not is_meant:
        return query
    note = mention.query.note
    if mention.day and is_written:
        note = (
            "These mention that day. For what was written then, use "
            f"after:{mention.day} before:{mention.day}."
        )
    return mention.query._replace(note=note)


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
    stop_words = words_without_topic(query.language)
    # Christmas, if the words are "at Christmas".
    phrases = [tuple(dropwhile(stop_words.__contains__, tokens(period.words)))]
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
    narrow = (narrow_filter(filter, period, store) for filter in filters)
    return any(store.newest(filter, 1, counted=False).candidates for filter in narrow)


def is_mentioned(mention: Mention, store: Store, filters: Sequence[Filter]) -> bool:
    """Whether a message has the words for a time; for a day, one of the best matches."""
    filters = [narrow_filter(filter, mention.query, store) for filter in filters]
    if mention.day:
        return any(
            mentions_day(f"{message.title}\n{message.content}", mention.day)
            for message in best_matches(mention.node, store, filters)
        )
    with suppress(SearchTimeout):
        return any(store.has_match(mention.node, filter) for filter in filters)
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
