"""Finding and reading across every kind of document, in the shapes of contract 3, for every door."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

from recollect.errors import InvalidInput, NotFound
from recollect.importers.items import cues_of, fields_of
from recollect.index.meaning import Meaning
from recollect.knowledge import editing
from recollect.knowledge.results import KINDS, location, result, uri_of
from recollect.knowledge.retrieval import (
    LONGEST_ANSWER,
    Cut,
    Fields,
    Messages,
    Retrieval,
    Stored,
    Taken,
    Units,
    around,
    whole,
)
from recollect.language.chunking import count_tokens
from recollect.language.query import Word, check_size, parse_query, words
from recollect.language.text import bound, identifier, storable, truncate
from recollect.model.audience import Audience
from recollect.model.documents import Document, Json, Summary
from recollect.model.kinds import CHARACTER, CONVERSATION, PROMPT
from recollect.model.search import Filter, SearchOptions
from recollect.search.everything import MATCH_IN, Entry, KindQuery, Results
from recollect.search.snippet import first_match
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.views.audience import visible_store

LONGEST_QUERY = 1_000
PAGE_SIZE = 50
LARGEST_PAGE = 200
_FILTERS: Mapping[str, frozenset[str]] = {
    "notes": frozenset(("keywords",)),
    "media": frozenset(("media_types", "date_from", "date_to", "order_by")),
    "chats": frozenset(("by", "character_id", "sender")),
    "characters": frozenset(),
    "prompts": frozenset(("fields",)),
}
PROMPT_FIELDS = ("name", "details", "system_prompt", "user_prompt", "author", "keywords")
_SINGULAR = {
    "notes": "Note",
    "media": "Media",
    "chats": "Conversation",
    "characters": "Character",
    "prompts": "Prompt",
}


class Memory(Protocol):
    """What a session remembers of the results that it was given."""

    def unseen(self, uris: Iterable[str]) -> list[str]: ...

    def forget(self, uris: Iterable[str]) -> None: ...

    def returned(self, uris: Iterable[str]) -> None: ...


class _Place(NamedTuple):
    """Where in a document to look, and for what."""

    unit: int = 0
    offset: int = 0
    score: float = 1.0
    words: Sequence[Word] = ()
    found: bool = False


class Knowledge:
    """A library's notes, media, conversations, characters and prompts as one."""

    def __init__(self, store: Store, meaning: Meaning, written: Callable[[], None]) -> None:
        self._store = store
        self._meaning = meaning
        self._written = written
        """Told after every change, so that what is new is indexed."""

    # -- finding ---

    def search(
        self,
        query: str,
        *,
        sources: Sequence[str] = (),
        limit: int = 20,
        offset: int = 0,
        snippet_length: int = 300,
        order_by: str = "relevance",
        filters: Mapping[str, Mapping[str, Any]] | None = None,
        mode: str = "both",
        audience: Audience = Audience.PERSON,
        memory: Memory | None = None,
        recent_queries: Sequence[str] = (),
    ) -> dict[str, Json]:
        """A page of the one list of everything that matches. `offset` is a place in that list.

        With a `memory`, what it was given before is passed over; where nothing else is left, it starts over. What the
        person asked before decides where a snippet lies in a text that has none of the words.
        """
        query = _checked(query)
        limit, offset = max(1, min(limit, 100)), max(0, min(offset, LIMITS.page_offset))
        chosen = _sources(sources)
        results = Results(
            visible_store(self._store, audience),
            self._meaning,
            query,
            _asked(chosen, filters or {}),
            SearchOptions(mode),
            order_by,
        )
        page, following, more = _page(results, limit, offset, memory)
        total, _ = results.total()
        shown = self._shown(results, page, snippet_length, audience, recent_queries)
        if memory is not None:
            memory.returned(uri for uri, _ in shown)
        answer: dict[str, Json] = {
            "results": [result for _, result in shown],
            "has_more": more,
            "next_offset": following if more else None,
            "total_estimated": max(total, offset + len(page)),
        }
        if results.note:
            answer["note"] = results.note
        return answer

    def _shown(
        self,
        results: Results,
        page: Sequence[Entry],
        length: int,
        audience: Audience,
        recent_queries: Sequence[str],
    ) -> list[tuple[str, dict[str, Json]]]:
        """Results with their addresses; without what was deleted meanwhile."""
        about = self._summaries({entry.candidate.document for entry in page})
        passages = self._store.passages_by_key([entry.candidate.key for entry in page])
        earlier = [
            w
            for text in reversed(recent_queries)
            if (node := parse_query(text).node) is not None
            for w in words(node)
        ]
        score_type = "fts" if results.mode == "text" else "hybrid"
        shown = []
        for entry in page:
            c = entry.candidate
            if c.key not in passages or c.document not in about:
                continue
            passage = passages[c.key][1]
            looked_for = (
                results.words
                if not earlier or first_match(passage.content, results.words) is not None
                else earlier
            )
            shape = result(
                about[c.document],
                passage,
                looked_for,
                length,
                score=entry.score,
                score_type=score_type,
                message=c.kind == CONVERSATION and not entry.by_title,
                title=entry.by_title,
                audience=audience,
            )
            shown.append((_address(entry), shape))
        return shown

    def _summaries(self, ids: Iterable[str]) -> dict[str, Summary]:
        wanted = tuple(map(identifier, ids))
        found: dict[str, Summary] = {}
        if wanted:
            listed, _ = self._store.summaries(
                Filter(conversations=wanted, hidden=True), "", len(wanted), 0
            )
            found = {identifier(summary.id): summary for summary in listed}
        return found

    # -- reading ---

    def get(
        self,
        source: str,
        id: str | int,
        wanted: Retrieval | None = None,
        *,
        audience: Audience = Audience.PERSON,
        page: int = 1,
        page_size: int = PAGE_SIZE,
    ) -> dict[str, Json]:
        """A document, and as much of it as is wanted: by default all of it. Raises NotFound."""
        about = self.find(source, id)
        wanted = wanted or Retrieval(mode="full")
        page, page_size = max(1, page), max(1, min(page_size, LARGEST_PAGE))
        units = self._units(about, wanted, audience)
        place = self._anchor(about, units, wanted, audience)
        if place is None and about.kind == CONVERSATION:
            place = _Place(max(0, min((page - 1) * page_size, len(units) - 1)))
        place = place or _Place()
        passage = units.passage(place.unit) if len(units) else None
        meta = result(
            about,
            passage,
            place.words,
            wanted.snippet_length,
            score=place.score,
            score_type="fts",
            message=about.kind == CONVERSATION and place.found,
            audience=audience,
        )
        answer: dict[str, Json] = {
            "meta": meta,
            "content": meta["snippet"] or "",
            "attachments": None,
        }
        if wanted.mode == "full":
            return answer | self._whole(units, wanted, page, page_size)
        if wanted.mode != "snippet" and len(units):
            taken = around(units, place.unit, place.offset, wanted)
            answer |= {"content": taken.text, "attachments": taken.units}
        return answer

    def find(self, source: str, id: str | int) -> Summary:
        """The document of this id; of prompts and characters also of this name. Raises NotFound."""
        kind = _kind(source)
        try:
            found = self._store.summary(str(id))
            if found.kind == kind:
                return found
        except NotFound:
            pass
        if kind in (PROMPT, CHARACTER) and (named := self._named(kind, str(id))) is not None:
            return named
        raise NotFound(f"{_SINGULAR[source]} not found: {truncate(str(id), 80)}")

    def _named(self, kind: str, name: str) -> Summary | None:
        """The one of this name that changed last; any number of others may have the name in theirs."""
        wanted, start, total = storable(name), 0, 1
        while wanted.strip() and start < total:
            listed, total = self._store.summaries(
                Filter(kinds=(kind,)), wanted, LIMITS.page_size, start
            )
            for summary in listed:
                if summary.title.casefold() == name.casefold():
                    return summary
            start += LIMITS.page_size
        return None

    def _units(self, about: Summary, wanted: Retrieval, audience: Audience) -> Units:
        if about.kind == CONVERSATION:
            named = wanted.loc.get("message_id")
            return Messages(
                self._store, about.id, named if isinstance(named, str) and named else None, audience
            )
        if about.kind in (PROMPT, CHARACTER):
            return Fields(self._store, about.id, about.message_count, audience)
        stored = Stored(self._store, about.id, about.message_count, audience)
        on_the_fly = (
            wanted.mode in ("chunk", "chunk_with_siblings") and not wanted.prefer_prechunked
        )
        return Cut(stored, wanted) if on_the_fly else stored

    def _anchor(
        self, about: Summary, units: Units, wanted: Retrieval, audience: Audience
    ) -> _Place | None:
        """Where to look: as told, else where a light search finds what is looked for; None where nothing says."""
        if wanted.loc and (found := units.find(wanted.loc)) is not None:
            query_words = _words(wanted.query)
            place = _at_words(units, found, query_words)
            return _Place(*place, words=query_words, found=True)
        if not wanted.query.strip() or not len(units):
            return None
        filter_ = Filter(conversations=(identifier(about.id),), kinds=(about.kind,))
        results = Results(
            visible_store(self._store, audience),
            self._meaning,
            _checked(wanted.query),
            [KindQuery(filter_, "message")],
            SearchOptions(),
        )
        for entry in islice(results.entries(), 1):
            for _, passage in self._store.passages_by_key([entry.candidate.key]).values():
                if (found := units.find(location(about, passage, results.words))) is not None:
                    place = _at_words(units, found, results.words)
                    return _Place(*place, entry.score, results.words, True)
        return None

    def _whole(self, units: Units, wanted: Retrieval, page: int, page_size: int) -> dict[str, Json]:
        room = (
            LONGEST_ANSWER
            if wanted.max_tokens is None
            else min(LONGEST_ANSWER, int(wanted.max_tokens * wanted.chars_per_token))
        )
        if isinstance(units, Messages):
            return _page_of_messages(units, room, page, page_size)
        assert isinstance(units, Stored)
        if isinstance(units, Fields) and not wanted.offset and wanted.max_tokens is None:
            fields = fields_of(units.every())
            if sum(map(len, fields.values())) <= LONGEST_ANSWER:
                return {"content": fields}
        text, total = whole(units, wanted.offset, room)
        end = wanted.offset + len(text)
        return {
            "content": text,
            "page": {
                "offset": wanted.offset,
                "total": total,
                "total_tokens": count_tokens(total, wanted.chars_per_token),
                "next_offset": end if end < total else None,
            },
        }

    # -- writing ---

    def create(self, source: str, fields: Mapping[str, Any]) -> Summary:
        """A new note, media item, character or prompt. Raises InvalidInput."""
        (saved,) = self._store.save([editing.new_document(_kind(source), fields)])
        self._written()
        return self._store.summary(saved.id)

    def edit(
        self, source: str, id: str | int, fields: Mapping[str, Any], version: int | None = None
    ) -> Summary:
        """Change what is given and nothing else. Raises NotFound, InvalidInput, and Conflict where it is not the
        `version` any more that the change was made for."""
        document = self._store.document(self.find(source, id).id)
        expected = document.version if version is None else version
        self._store.rewrite(document.id, editing.edit_document(document, fields), expected)
        self._written()
        return self._store.summary(document.id)

    def delete(self, source: str, id: str | int) -> Document:
        """Remove it for good; what is returned is the only copy. Raises NotFound."""
        deleted = self._store.pop(self.find(source, id).id)
        self._written()
        return deleted

    def export(self, source: str, id: str | int, format: str) -> editing.Export:
        """As a file; see `editing.FORMATS`. Raises NotFound, InvalidInput."""
        return editing.export(self._store.document(self.find(source, id).id), format)

    # -- media ---

    def media_types(self) -> list[tuple[str, int]]:
        """The types of the library's media, with how many there are of each; most first."""
        return self._store.media_types()

    def transcript(
        self,
        id: str | int,
        format: str = "text",
        timestamps: bool = False,
        audience: Audience = Audience.PERSON,
    ) -> Json:
        """What is said in a recording: as text, SRT, VTT, or a list of cues. Raises NotFound, InvalidInput."""
        from recollect.language import transcript

        about = self.find("media", id)
        passages = list(Stored(self._store, about.id, about.message_count, audience).every())
        cues = list(cues_of(passages))
        if format not in transcript.FORMATS:
            raise InvalidInput(
                f"format: {truncate(format, 80)!r} is not one of {', '.join(transcript.FORMATS)}."
            )
        if not cues and format == "text" and not timestamps:
            return "".join(passage.content for passage in passages)
        if not cues:
            raise InvalidInput(
                f"Media {truncate(str(id), 80)} has no times, so it can be had as text alone."
            )
        return transcript.write(cues, format, timestamps=timestamps)

    # -- listing ---

    def list(
        self,
        source: str,
        *,
        search: str = "",
        tags: Sequence[str] = (),
        media_types: Sequence[str] = (),
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[Summary], int]:
        """What there is of a kind, last changed first, and how many in all."""
        filter_ = Filter(
            kinds=(_kind(source),),
            tags=_texts({"tags": tags}, "tags"),
            media_types=_texts({"m": media_types}, "m"),
        )
        limit, offset = (
            max(1, min(limit, LIMITS.page_size)),
            max(0, min(offset, LIMITS.page_offset)),
        )
        return self._store.summaries(filter_, storable(search), limit, offset)


# -- what is asked -------------------------------------------------------------


def _checked(query: str) -> str:
    query = storable(query)
    if not query.strip() or len(query) > LONGEST_QUERY:
        raise InvalidInput(f"query: give 1 to {LONGEST_QUERY} characters.")
    check_size(query)
    return query


def _kind(source: str) -> str:
    if source not in KINDS:
        raise InvalidInput(
            f"source: {truncate(str(source), 80)!r} is not one of {', '.join(KINDS)}."
        )
    return KINDS[source]


def _sources(given: Sequence[str]) -> list[str]:
    for source in given:
        _kind(source)
    return list(dict.fromkeys(given)) or list(KINDS)


def _asked(sources: Sequence[str], filters: Mapping[str, Mapping[str, Any]]) -> list[KindQuery]:
    if unknown := sorted(filters.keys() - KINDS.keys()):
        raise InvalidInput(
            f"filters: {truncate(unknown[0], 80)!r} is not one of {', '.join(KINDS)}."
        )
    for name, given in filters.items():
        if not isinstance(given, Mapping):
            raise InvalidInput(f"filters.{name} must be an object.")
        if unknown := sorted(given.keys() - _FILTERS[name]):
            raise InvalidInput(f"filters.{name}: there is no {truncate(unknown[0], 80)!r}.")
    return [_asked_of(source, filters.get(source, {})) for source in sources]


def _asked_of(source: str, given: Mapping[str, Any]) -> KindQuery:
    by = given.get("by") or "both"
    if by not in MATCH_IN:
        raise InvalidInput(f"by: {truncate(str(by), 80)!r} is not one of {', '.join(MATCH_IN)}.")
    fields = _texts(given, "fields")
    if wrong := [name for name in fields if name not in PROMPT_FIELDS]:
        raise InvalidInput(
            f"fields: {truncate(wrong[0], 80)!r} is not one of {', '.join(PROMPT_FIELDS)}."
        )
    return KindQuery(
        Filter(
            kinds=(KINDS[source],),
            tags=_texts(given, "keywords"),
            media_types=_texts(given, "media_types"),
            after=_date(given, "date_from"),
            before=_date(given, "date_to", end=True),
            characters=_texts(given, "character_id"),
            senders=_texts(given, "sender"),
            roles=fields,
        ),
        by,
    )


def _texts(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = given.get(name)
    if value is None or value == "":
        return ()
    values = value if isinstance(value, (list, tuple)) else [value]
    if len(values) > 100 or any(
        isinstance(v, bool) or not isinstance(v, (str, int)) for v in values
    ):
        raise InvalidInput(f"{name}: give up to 100 texts.")
    return tuple(storable(str(v)) for v in values)


def _date(given: Mapping[str, Any], name: str, *, end: bool = False) -> datetime | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    try:
        return bound(value, end=end)
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"{name}: {truncate(repr(value), 80)} is not a date. Use ISO 8601, such as 2026-01-31."
        ) from error


# -- pages -----------------------------------------------------------------------


def _page(
    results: Results, limit: int, offset: int, memory: Memory | None
) -> tuple[list[Entry], int, bool]:
    """The results of a page, the place after the last of them, and whether something follows."""
    rest = islice(results.entries(), offset, None)
    if memory is None:
        page = list(islice(rest, limit))
        return page, offset + len(page), next(rest, None) is not None
    page, walked, place = [], [], offset
    for entry in rest:
        if len(page) == limit:
            return page, place, True
        walked.append(entry)
        if memory.unseen([_address(entry)]):
            page.append(entry)
            place = offset + len(walked)
    if not page and walked:
        memory.forget(map(_address, walked))
        page, place = walked[:limit], offset + len(walked[:limit])
    return page, place, place < offset + len(walked)


def _address(entry: Entry) -> str:
    return uri_of(entry.candidate.kind, *entry.identity)


def _words(query: str) -> list[Word]:
    node = parse_query(query).node if query.strip() else None
    return [] if node is None else list(words(node))


def _at_words(units: Units, place: tuple[int, int], words: Sequence[Word]) -> tuple[int, int]:
    """The place of the words in a unit, where the location names only the unit: a message."""
    unit, offset = place
    if offset == 0 and words:
        offset = first_match(units.text(unit), words) or 0
    return unit, offset


def _page_of_messages(units: Messages, room: int, page: int, size: int) -> dict[str, Json]:
    start = min((page - 1) * size, len(units))
    end = min(start + size, len(units))
    taken = (
        Taken(units.render(start, end - 1), units.about(start, end - 1))
        if start < end
        else Taken("", [])
    )
    following = end < len(units)
    return {
        "content": taken.text[:room],
        "attachments": [unit for unit in taken.units if unit["start"] < room],
        "page": {
            "page": page,
            "page_size": size,
            "total": len(units),
            "next_page": page + 1 if following else None,
            "truncated": len(taken.text) > room,
        },
    }
