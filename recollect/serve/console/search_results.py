"""Searches: one page of results over conversations and items, and what to try if there are none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Query

from recollect.errors import InvalidInput, SearchTimeout
from recollect.knowledge.options import KnowledgeOptions
from recollect.language.queries.query import parse_query
from recollect.language.queries.query_tokens import Fields
from recollect.language.queries.query_tree import words
from recollect.language.text import moment, storable, tokens
from recollect.language.words import as_written, join_pairs
from recollect.library import Library
from recollect.model.audience import is_human_only
from recollect.model.documents import Json
from recollect.model.search import Hit, Page, SearchOptions
from recollect.search.deadline import NOTE as INCOMPLETE
from recollect.search.evidence import UNRELATED
from recollect.search.queries.query_reading import BY_TIME, as_period
from recollect.search.snippets import snippet
from recollect.serve import links
from recollect.serve.console.forms import FIELD_LABELS
from recollect.serve.console.lists import ListFilters
from recollect.serve.console.markup.snippets import plain_snippet
from recollect.serve.console.tabs import (
    ALL_KINDS,
    CONVERSATIONS,
    ITEM_KINDS,
    MEDIA,
    NOTES,
    TABS,
    TABS_BY_SOURCE,
    Tab,
    count_items,
    document_url,
)
from recollect.serve.console.text_windows import WINDOW_PASSAGES, format_clock
from recollect.serve.http.access import Access
from recollect.serve.identity.principal import KNOWLEDGE, READ
from recollect.serve.masking import mask_hit

_RESULTS_PER_PAGE = 15
_MAX_TERMS = 6
_ABSENCE = re.compile(r"(?:Nothing|No [a-z ]+) mentions “[^”]*”(?: or “[^”]*”)*\.")
"""The remark on words that occur nowhere."""
_CORRECTION = re.compile("Searched for “[^”]*” instead of “[^”]*”\\. ?")
_DATE_FIELD = re.compile(r"(?<!\S)(?:before|after):\S+\s*", re.IGNORECASE)
_FIELD = re.compile(
    r'(?<!\S)-?(?:role|from|in|project|source|tag|title):(?:"[^"]*"|\S+)\s*', re.IGNORECASE
)
_ITEM_EXPLANATIONS = {
    "fts": "Contains words of the search.",
    "vector": "Similar in meaning.",
    "hybrid": "Contains words of the search, and is similar in meaning.",
}


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search, as the address of the results page describes it."""

    q: str = ""
    mode: str = "both"
    offset: Annotated[int, Query(ge=0)] = 0
    kind: str = ""
    """What to search: a kind, `all`, or empty to let the console choose."""
    typing: bool = False
    """The person is still typing, so the last word may be unfinished."""
    correct: bool = True
    """Correct misspelled words."""

    @property
    def query(self) -> str:
        """The text of the search box; nothing if it consists of blanks."""
        return "" if self.q.isspace() else self.q

    def options(self) -> SearchOptions:
        return SearchOptions(
            self.mode or "both",
            "conversation",
            _RESULTS_PER_PAGE,
            self.offset,
            typing=self.typing,
            correct=self.correct,
        )

    def template_values(self) -> dict[str, Any]:
        return {
            "q": self.query,
            "mode": self.mode or "both",
            "typing": self.typing,
            "correct": self.correct,
        }

    def searched_kind(self, access: Access, library: Library, filters: ListFilters) -> str:
        """What to search if the person did not choose: everything.

        With filters, which belong to conversations, only conversations.
        """
        if self.kind in (*TABS, ALL_KINDS):
            return self.kind
        if count_items(access, library) and not filters.count:
            return ALL_KINDS
        return CONVERSATIONS


Search = Annotated[SearchRequest, Depends()]


class ResultLine(NamedTuple):
    """A message that matches, or the matching part of an item."""

    url: str
    preview_url: str
    author: str
    snippet: str
    marks: Sequence[tuple[int, int]]
    explanation: str = ""
    """How it was found, in a sentence."""
    role: str = "none"
    labels: Sequence[str] = ()
    """What is special about it: a tool call, another branch."""
    is_human_only: bool = False


class Result(NamedTuple):
    """A conversation or item with its best lines."""

    id: str
    tab: Tab
    title: str
    time: datetime | None
    score: float
    lines: Sequence[ResultLine]
    source: str = ""
    project: str = ""
    details: Sequence[str] = ()
    tags: Sequence[str] = ()
    open_in: links.OpenIn | None = None


def search(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters
) -> dict[str, Any]:
    """One page of results. Conversations and items have pages of their own, which are merged."""
    kind = request.searched_kind(access, library, filters)
    searches = []
    if kind in (CONVERSATIONS, ALL_KINDS):
        searches.append(partial(search_conversations, access, library, request, filters))
    if kind != CONVERSATIONS:
        access.require(READ, KNOWLEDGE)
        searches.append(partial(search_items, access, library, request, filters, kind))
    parts: list[dict[str, Any]] = []
    timeout: SearchTimeout | None = None
    for run in searches:
        try:
            parts.append(run())
        except SearchTimeout as error:  # the other part may have results
            timeout = error
    if timeout is not None:
        if not any(part["results"] for part in parts):
            raise timeout
        parts = [part | {"note": f"{part['note']} {INCOMPLETE}".strip()} for part in parts]
    results, nearest = (
        sorted((each for part in parts for each in part[name]), key=lambda each: -each.score)
        for name in ("results", "nearest")
    )
    corrections = {k: v for part in reversed(parts) for k, v in part["corrections"].items()}
    texts = [text for each in results for text in (each.title, *(x.snippet for x in each.lines))]
    note, verb = note_on_all(parts), matching_verb(request.query, request.options().now)
    values: dict[str, Any] = {
        "results": results,
        "nearest": nearest[:3],
        "has_more": any(part["has_more"] for part in parts),
        "uses_filters": kind == CONVERSATIONS and bool(filters.count),
        "corrected_query": corrected_query(request.query, corrections, texts),
        "verb": verb,
        "note": note,
        "next_offset": request.offset + _RESULTS_PER_PAGE,
        "suggestions": [],
        "advice": "",
    }
    if not results:
        values["suggestions"] = suggest(request, filters, kind)
        values["advice"] = advice(request.query, is_empty=not library.size())
        if verb == "mentions":  # the heading says so
            values["note"] = _ABSENCE.sub("", note).strip()
    return {"is_first_page": request.offset == 0, "search_kind": kind, "results": values}


def note_on_all(parts: list[dict[str, Any]]) -> str:
    """What is true of all parts.

    A word that only notes have is in no message, but it is found. If the messages are probably
    unrelated, the notes need not be. A project that no message is in may be one of notes.
    """
    note: str = parts[0]["note"]
    if len(parts) == 1:
        return note
    conversations, items = parts
    if items["results"] and not conversations["results"]:
        note = items["note"]
    absent = [word for word in conversations["missing"] if f"“{word}”" in items["note"]]
    remarks = [_ABSENCE.sub("", note).replace(UNRELATED, "").replace(INCOMPLETE, "").strip()]
    if absent:
        quoted = [f"“{word}”" for word in absent]
        remarks.append(f"Nothing mentions {' or '.join(quoted)}.")
    results = [part for part in parts if part["results"]]
    if results and all(part["is_weak"] for part in results):
        remarks.append(UNRELATED)
    if any(part["is_partial"] for part in parts):
        remarks.append(INCOMPLETE)
    return " ".join(filter(None, remarks))


def without_corrections(note: str, corrections: Mapping[str, str]) -> str:
    """The note without the sentence about corrections, which the page shows with a button.

    The words of the note have their accents, those of the corrections have none.
    """
    return _CORRECTION.sub("", note, count=len(corrections)).strip() if corrections else note


# -- conversations ---


def search_conversations(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters
) -> dict[str, Any]:
    options, audience = request.options(), access.principal.audience
    page = library.search(request.query, filters.message_filter(), options, audience=audience)

    def result(hit: Hit) -> Result:
        """A hit stands for a conversation, with the next best messages."""
        return Result(
            hit.conversation_id,
            TABS[CONVERSATIONS],
            library.label(hit.conversation_id, hit.title),
            hit.created_at,
            hit.score,
            [_line(mask_hit(line, audience), page) for line in (hit, *hit.also)],
            hit.source,
            hit.project,
            open_in=links.open_in(hit.source, hit.conversation_id, hit.conversation_id),
        )

    is_last = page.exact and page.offset + len(page.hits) >= page.total
    return {
        "results": list(map(result, page.hits)),
        "nearest": list(map(result, page.nearest)),
        "note": without_corrections(page.note, page.corrections),
        "missing": page.missing,
        "is_weak": page.weak,
        "is_partial": page.partial,
        "corrections": page.corrections,
        # Conversations beyond the ranked ones are counted only as far as they are shown.
        "has_more": len(page.hits) == options.limit and not is_last,
    }


def _line(hit: Hit, page: Page) -> ResultLine:
    text, marks = plain_snippet(hit.snippet, hit.marks)
    labels = [] if hit.type == "message" else [hit.type.replace("_", " ")]
    if not hit.canonical:
        labels.append("other branch")
    query = {"id": hit.conversation_id, "m": hit.message_id}
    return ResultLine(
        links.conversation_url(hit.conversation_id, m=hit.message_id),
        f"/console/preview?{links.query(query)}",
        hit.author or hit.role or "unknown",
        text,
        marks,
        explain(hit, page),
        hit.role or "none",
        labels,
        is_human_only(hit),
    )


def explain(hit: Hit, page: Page) -> str:
    """How a hit was found, in sentences."""
    names = [
        f"“{as_written(term.removesuffix('*'), [hit.snippet])}”"
        for term in join_pairs(hit.terms, hit.snippet)
    ][:_MAX_TERMS]
    found = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    by_words, by_meaning = "text" in hit.arms, "vector" in hit.arms
    text = ""
    if not hit.arms or page.nearest:  # the nearest are not similar
        text = ""
    elif page.matched == "literal" and not by_meaning and not found:
        text = "Contains this text."
    elif not found and by_words and hit.parts.get("title"):
        text = "The title contains words of the search."
    elif not by_meaning:
        text = f"Contains {found or 'words of the search'}."
    elif not found:
        text = "Similar in meaning, in other words."
    elif by_words:
        text = f"Contains {found}, and is similar in meaning."
    else:
        text = f"Similar in meaning, and contains {found}."
    if hit.copies:
        more = "One more message has" if hit.copies == 1 else f"{hit.copies:,} more messages have"
        text += f" {more} the same text."
    return text.strip()


# -- items ---


def search_items(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters, kind: str
) -> dict[str, Any]:
    kind_filters: dict[str, dict[str, Any]] = {
        NOTES: {"keywords": list(filters.tag)} if kind == NOTES and filters.tag else {},
        MEDIA: {"media_types": list(filters.type)} if kind == MEDIA and filters.type else {},
    }
    kinds = ITEM_KINDS if kind == ALL_KINDS else (kind,)
    options = KnowledgeOptions(
        sources=[TABS[name].source for name in kinds],
        limit=_RESULTS_PER_PAGE,
        offset=request.offset,
        mode=request.mode or "both",
        filters=kind_filters,
        typing=request.typing,
        correct=request.correct,
    )
    audience = access.principal.audience
    response = library.knowledge.search(request.query, options, audience=audience)
    note, corrections = response.get("note", ""), response.get("corrections", {})
    # For fields or a time alone, items are only listed.
    has_words = parse_query(storable(request.query)).node is not None
    explanations = _ITEM_EXPLANATIONS if has_words and not note.startswith(BY_TIME) else {}
    result = partial(item_result, library, request.query)
    return {
        "results": [result(each, explanations) for each in response["results"]],
        "nearest": [result(each, {}) for each in response.get("nearest", ())],
        "note": without_corrections(note, corrections),
        "is_weak": response.get("weak", False),
        "is_partial": response.get("partial", False),
        "corrections": corrections,
        "has_more": response["has_more"],
    }


def item_result(
    library: Library, query: str, result: Mapping[str, Json], explanations: Mapping[str, str]
) -> Result:
    """A result of the Knowledge API, which may be no match, only near or listed."""
    id, tab, loc = result["id"], TABS_BY_SOURCE[result["source"]], result["loc"] or {}
    text = result["snippet"] or ""
    marks: Sequence[tuple[int, int]] = ()
    with suppress(InvalidInput):
        node = parse_query(storable(query)).node
        text, marks = snippet(text, words(node) if node else [], 4 * len(text) + 8)
    text, marks = plain_snippet(text, marks)
    index, seconds, field = loc.get("chunk_index"), loc.get("seconds"), str(loc.get("field"))
    position = None
    if isinstance(index, int) and index >= WINDOW_PASSAGES and "field" not in loc:
        position = str(index)
    url = document_url(tab.name, id, q=query, p=position)
    place = FIELD_LABELS.get(field, "").lower()
    if seconds is not None:
        url, place = f"{url}#t={int(seconds)}", f"at {format_clock(seconds)}"
    elif field in FIELD_LABELS:
        url = f"{url}#f-{field}"
    if seconds is None and loc.get("page") is not None:
        place = f"page {loc['page']}"
    line = ResultLine(
        url,
        f"/console/preview?{links.query({'id': id, 'kind': tab.name})}",
        result["sender"] or "",
        text,
        marks,
        explanations.get(result["score_type"], ""),
        result["sender"] or "none",
    )
    return Result(
        id,
        tab,
        library.label(id, result["title"] or ""),
        moment(result["last_modified"]),
        result["score"],
        (line,),
        details=[detail for detail in (result["media_type"] or tab.singular, place) if detail],
        tags=(result["tags"] or [])[:3],
    )


# -- what to try if nothing is found, and how a correction is shown ---


class Suggestion(NamedTuple):
    """A button that changes the search."""

    label: str
    query: str
    cleared_filters: str = ""
    """The filters that the button removes, separated by spaces."""
    kind: str = ""
    mode: str = ""


def suggest(request: SearchRequest, filters: ListFilters, kind: str) -> list[Suggestion]:
    query = request.query
    suggestions = []
    if '"' in query:
        suggestions.append(Suggestion("Remove the quotes", query.replace('"', " ").strip()))
    without_dates = _DATE_FIELD.sub("", query).strip()
    if without_dates and (without_dates != query or filters.after or filters.before):
        suggestions.append(Suggestion("Search all time", without_dates, "after before"))
    without_fields = _FIELD.sub("", query).strip()
    if without_fields and without_fields != query:
        suggestions.append(Suggestion("Remove the fields", without_fields))
    if filters.count:
        suggestions.append(Suggestion("Clear all filters", query, "all"))
    if (request.mode or "both") != "both":
        suggestions.append(Suggestion("Search by words and meaning", query, mode="both"))
    if request.kind and kind != ALL_KINDS:
        suggestions.append(Suggestion("Search everything", query, kind=ALL_KINDS))
    return suggestions


def advice(query: str, *, is_empty: bool) -> str:
    """What to do about a query that finds nothing. `is_empty`: so is the library."""
    if is_empty:
        return "Your library is empty. Import something to search in it."
    attempt = "fewer words" if len(query.split()) > 1 else "another word"
    return f"Try {attempt}, or a prefix such as config*."


def matching_verb(query: str, now: datetime) -> str:
    """How a hit relates to the query: it mentions words, or it matches operators, fields or a time.

    Messages may mention all the words of a query with fields, only not there or then.
    """
    parsed = as_period(parse_query(storable(query)), now)
    return "mentions" if parsed.plain and parsed.fields == Fields() else "matches"


def corrected_query(query: str, corrections: Mapping[str, str], texts: Iterable[str]) -> str:
    """The query as it was searched, spelled as in these texts; empty if nothing was corrected."""
    if not corrections:
        return ""
    texts = tuple(texts)
    corrected = []
    for word in query.split():
        correction = corrections.get(" ".join(tokens(word)))
        corrected.append(as_written(correction, texts) if correction else word)
    return " ".join(corrected)
