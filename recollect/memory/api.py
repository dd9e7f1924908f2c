"""What is remembered of past work, in three layers: observations, their details, and the conversations themselves.

Whoever looks takes in as little as will do. What is told of a conversation has
a path, which is a name inside the library and never one of a file, and lines:
those of the conversation as `read` gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from recollect.errors import InvalidInput, NotFound
from recollect.index.meaning import Meaning
from recollect.language.query import Word, check_size
from recollect.language.query import parse_query as read_query
from recollect.language.text import (
    bound,
    fold,
    has_token,
    identifier,
    storable,
    truncate,
)
from recollect.memory.observe import from_passage
from recollect.model.audience import Audience, is_human_only
from recollect.model.documents import Document, Summary
from recollect.model.kinds import CONVERSATION, OBSERVATION, OBSERVATIONS
from recollect.model.observations import Observation
from recollect.model.search import Filter, Hit, SearchOptions
from recollect.search import engine
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate
from recollect.store.views.audience import AudienceStore
from recollect.store.views.observed import ObservationStore

if TYPE_CHECKING:
    from recollect.memory.observe.reading import Reading

RESULTS = 10
MOST_RESULTS = 50
SHORTEST_QUERY = 2
MOST_CONCEPTS = 5
MOST_IDS = 20
AROUND = 5
MOST_AROUND = 50
MOST_READ = 100_000
"""Characters of a conversation that are read at once."""
FORGOTTEN = "forgotten"
"""Where a conversation's metadata says which observations must not be made of it again."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PATH = re.compile(r"/([^/]+)/([^/]+)\.jsonl")
_ABSOLUTE = re.compile(r"[/~]|[A-Za-z]:[\\/]")
_ID = re.compile(r"obs-\S{1,100}")
_SPANS = tuple(timedelta(days=days) for days in (1, 8, 64, 512))
_SAME_TIME = 1_000  # observations of one moment that are told apart
_NOT_IN_PATHS = re.compile(r"[\s%/\\`?#\u2028\u2029]")


class Recalled(NamedTuple):
    """An observation, and where it was made."""

    observation: Observation
    path: str
    score: float = 0.0
    snippet: str = ""
    terms: tuple[str, ...] = ()
    """The words of the query that it has."""


class Talk(NamedTuple):
    """A conversation, or a stretch of it."""

    path: str
    project: str
    title: str
    created_at: datetime | None
    score: float
    snippets: tuple[str, ...]
    lines: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found: observations; or, where there were none, stretches of conversations; or, of several
    concepts, conversations."""

    kind: str
    """"observations", "exchanges" or "conversations"."""
    observations: tuple[Recalled, ...] = ()
    talks: tuple[Talk, ...] = ()
    total: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten, or would be."""

    conversations: tuple[Summary, ...]
    """With all that was said in them."""
    observations: tuple[Recalled, ...]
    """Of conversations that stay."""
    messages: int
    observed: int
    """How many observations went with their conversations."""


class Memory:
    """See `Library.memory`. `audience` says what the reader gets of human-only messages."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        caught_up: Callable[[], None],
        delete: Callable[[str], object],
    ) -> None:
        self._store = store
        self._meaning = meaning
        self._catch_up = caught_up
        self._delete = delete

    # -- finding ---

    def search(
        self,
        query: str | Sequence[str],
        *,
        mode: str = "both",
        limit: int = RESULTS,
        after: str | None = None,
        before: str | None = None,
        projects: Sequence[str] = (),
        types: Sequence[str] = (),
        concepts: Sequence[str] = (),
        files: Sequence[str] = (),
        audience: Audience = Audience.PERSON,
        now: datetime | None = None,
    ) -> Answer:
        """Observations of one thing, best first, or conversations that have two to five things.

        Dates are whole days (UTC), both included. Of several projects, types, concepts or files one is enough;
        each kind of filter that is given must hold. Raises InvalidInput.
        """
        asked = _asked(query)
        filter_ = Filter(
            projects=self._namespaces(projects),
            after=_day(after, "after"),
            before=_day(before, "before", end=True),
        )
        roles, concepts, files = _types(types), _given(concepts, "concepts"), _given(files, "files")
        wish = SearchOptions(
            mode, limit=max(1, min(limit, MOST_RESULTS)), now=now or datetime.now(UTC)
        )
        self._catch_up()
        if not isinstance(asked, str):
            if roles or concepts or files:
                raise InvalidInput(
                    "types, concepts and files are of observations: to use them, query must be a string."
                )
            return self._conversations(
                asked, filter_, replace(wish, group="conversation"), audience
            )
        found = self._observations(
            asked,
            replace(filter_, roles=roles),
            wish,
            ObservationStore(self._store, concepts, files),
        )
        if found.observations or roles or concepts or files:
            return found
        return self._exchanges(asked, filter_, wish, audience) or found

    def _observations(
        self, text: str, filter_: Filter, wish: SearchOptions, observed: ObservationStore
    ) -> Answer:
        filter_ = replace(filter_, hidden=True, kinds=(OBSERVATION,))
        text = _exactly(observed, text, filter_) if wish.mode == "text" else text
        page = engine.search(observed, self._meaning, text, filter_, wish)
        recalled = self._recalled(
            observed.keys[hit.conversation_id, hit.message_id] for hit in page.hits
        )
        shown = []
        for hit in page.hits:
            one = recalled.get(observed.keys[hit.conversation_id, hit.message_id])
            if one is not None:  # else it was deleted meanwhile
                shown.append(one._replace(score=hit.score, snippet=hit.snippet, terms=hit.terms))
        return Answer(
            "observations", tuple(shown), total=max(page.total, len(shown)), note=page.note
        )

    def _exchanges(
        self, text: str, filter_: Filter, wish: SearchOptions, audience: Audience
    ) -> Answer | None:
        """Where nothing was observed: what was said, with the stretch of the conversation that it belongs to."""
        filter_ = replace(filter_, kinds=(CONVERSATION,))
        store = self._seen_through(audience)
        text = _exactly(store, text, filter_) if wish.mode == "text" else text
        page = engine.search(store, self._meaning, text, filter_, wish)
        talks: dict[tuple[str, tuple[int, int] | None], Talk] = {}
        for hit, talk in self._talks(page.hits, audience):
            talks.setdefault((hit.conversation_id, talk.lines), talk)
        return (
            Answer("exchanges", talks=tuple(talks.values()), total=page.total, note=page.note)
            if talks
            else None
        )

    def _conversations(
        self, concepts: list[str], filter_: Filter, wish: SearchOptions, audience: Audience
    ) -> Answer:
        filter_ = replace(filter_, kinds=(CONVERSATION,))
        page = engine.search_concepts(
            self._seen_through(audience), self._meaning, concepts, filter_, wish
        )
        talks = tuple(talk for _, talk in self._talks(page.hits, audience))
        return Answer("conversations", talks=talks, total=page.total, note=page.note)

    def _talks(self, hits: Iterable[Hit], audience: Audience) -> Iterable[tuple[Hit, Talk]]:
        readings: dict[str, Reading | None] = {}
        for hit in hits:
            if hit.conversation_id not in readings:
                readings[hit.conversation_id] = self._reading(hit.conversation_id, audience)
            read = readings[hit.conversation_id]
            if read is None:
                continue
            snippets = dict.fromkeys(" ".join(each.snippet.split()) for each in (hit, *hit.also))
            yield (
                hit,
                Talk(
                    path_of(hit.project, hit.conversation_id),
                    project_of(hit.project),
                    hit.title,
                    hit.created_at,
                    hit.score,
                    tuple(snippets),
                    _stretch(read, hit.message_id),
                ),
            )

    def _recalled(self, keys: Iterable[int]) -> dict[int, Recalled]:
        found = self._store.passages_by_key(list(keys))
        about = self._summaries({document for document, _ in found.values()})
        recalled = {}
        for key, (document, passage) in found.items():
            if (of := about.get(identifier(document))) is not None:
                observation = from_passage(passage, of.project)
                recalled[key] = Recalled(observation, path_of(of.project, of.source_id))
        return recalled

    def _summaries(self, documents: Iterable[str]) -> dict[str, Summary]:
        wanted = tuple(map(identifier, documents))
        if not wanted:
            return {}
        listed, _ = self._store.summaries(
            Filter(conversations=wanted, hidden=True), "", len(wanted), 0
        )
        return {identifier(summary.id): summary for summary in listed}

    def _namespaces(self, projects: Sequence[str]) -> tuple[str, ...]:
        """The namespaces of projects: those of this name, else those that are folders of this name."""
        if not (given := _given(projects, "projects")):
            return ()
        if all(
            map(_ABSOLUTE.match, given)
        ):  # nothing else can be meant, and knowing all names takes time
            return given
        known = [name for name, _ in self._store.facets(CONVERSATION)["projects"]]
        meant: dict[str, None] = {}
        for project in given:
            short = (
                []
                if project in known
                else [n for n in known if fold(project_of(n)) == fold(project)]
            )
            meant |= dict.fromkeys(short or [project])
        return tuple(meant)

    def _seen_through(self, audience: Audience) -> Store:
        """What agents may not see they do not find either."""
        return self._store if audience is Audience.PERSON else AudienceStore(self._store)

    # -- details ---

    def get(self, ids: Sequence[str], *, audience: Audience = Audience.PERSON) -> list[Recalled]:
        """Observations by their ids, in the order given. Raises InvalidInput that names all that do not exist."""
        if not ids:
            raise InvalidInput("Must provide at least 1 observation ID")
        if len(ids) > MOST_IDS:
            raise InvalidInput("Cannot get more than 20 observations at once")
        found = self._by_id(ids)
        readings: dict[str, Reading | None] = {}
        told = []
        for id_ in ids:
            one = found[id_]
            # The lines that are kept are of the conversation with masks.
            if audience is not Audience.AGENT_MASKED:
                of = one.observation.conversation
                readings[of] = read = (
                    readings[of] if of in readings else self._reading(of, audience)
                )
                if read is not None:
                    span, first = read.span(one.observation.passages), one.observation.passages[:1]
                    asked = read.passages.get(first[0]) if first else None
                    one = one._replace(
                        observation=replace(one.observation, lines=span, asked=asked)
                    )
            told.append(one)
        return told

    def _by_id(self, ids: Sequence[str]) -> dict[str, Recalled]:
        holding = {
            passage: document
            for document, passage in self._store.documents_containing(OBSERVATIONS, list(ids))
        }
        keys: dict[str, int] = {}
        for id_ in dict.fromkeys(ids):
            try:
                keys[id_] = self._store.passage_key(holding[identifier(id_)], id_)
            except (KeyError, NotFound):
                continue
        recalled = self._recalled(keys.values())
        unknown = [id_ for id_ in dict.fromkeys(ids) if keys.get(id_) not in recalled]
        if unknown:
            raise InvalidInput(
                f"Invalid observation ID: {', '.join(truncate(storable(id_), 80) for id_ in unknown)}"
            )
        return {id_: recalled[key] for id_, key in keys.items()}

    # -- reading ---

    def read(
        self,
        path: str,
        start: int = 1,
        end: int | None = None,
        *,
        audience: Audience = Audience.PERSON,
    ) -> str:
        """A conversation as Markdown, or these lines of it. Raises NotFound, InvalidInput."""
        about = self._named(path)
        read = self._reading(about.id, audience)
        if read is None:
            raise NotFound(f"File not found: {truncate(storable(path), 500)}")
        total = len(read.lines)
        if start < 1:
            raise InvalidInput(
                f"Invalid line range: startLine must be at least 1; there are {total} lines."
            )
        if end is not None and end < start:
            raise InvalidInput(
                f"Invalid line range: endLine must not be less than startLine; there are {total} lines."
            )
        if start > total:
            raise InvalidInput(
                f"Invalid line range: startLine is {start}, but there are only {total} lines."
            )
        return _cut(read.lines, start, min(end or total, total))

    def _named(self, path: str) -> Summary:
        """The conversation of a path. What it says of the project is for people: that may change."""
        match = _PATH.fullmatch(storable(path).strip())
        try:
            if (
                match is not None
                and (about := self._store.summary(unquote(match[2]))).kind == CONVERSATION
            ):
                return about
        except NotFound:
            pass
        raise NotFound(f"File not found: {truncate(storable(path), 500)}")

    def _reading(self, conversation: str, audience: Audience) -> Reading | None:
        from recollect.memory.observe.reading import (
            reading,  # here, as below, so that a first search does not wait for it
        )

        try:
            return reading(_as_seen(self._store.document(conversation), audience))
        except NotFound:
            return None

    # -- around a time ---

    def timeline(
        self,
        anchor: str,
        *,
        before: int = AROUND,
        after: int = AROUND,
        projects: Sequence[str] = (),
    ) -> tuple[list[Recalled], int | None]:
        """What was observed around an observation or a date, oldest first; and which of it is the anchor.

        A bare date is the beginning of that day. Raises InvalidInput.
        """
        before, after = max(0, min(before, MOST_AROUND)), max(0, min(after, MOST_AROUND))
        filter_ = Filter(hidden=True, kinds=(OBSERVATION,), projects=self._namespaces(projects))
        middle = None
        if _ID.fullmatch(anchor):
            middle = self._by_id([anchor])[anchor]
            at = middle.observation.created_at
            if at is None:
                raise InvalidInput(f"Nobody knows when {truncate(anchor, 80)} was: it has no date.")
        else:
            at = _moment(anchor)
        earlier = self._near(filter_, at, before, later=False)
        later = self._near(filter_, at, after, later=True)
        told = {c.id: c for c in (*earlier, *later)}
        known = self._recalled(c.key for c in told.values())
        line = [(c.created_at or at, c.key, known[c.key]) for c in told.values() if c.key in known]
        if middle is not None and anchor not in told:  # as it is not of these projects
            line.append((at, -1, middle))
        line.sort(key=lambda each: each[:2])
        place = next((n for n, each in enumerate(line) if each[2].observation.id == anchor), None)
        if middle is None:
            first = sum(1 for when, _, _ in line if when < at)
            return [one for _, _, one in line[max(0, first - before) : first + after]], None
        assert place is not None
        start = max(0, place - before)
        return [one for _, _, one in line[start : place + after + 1]], place - start

    def _near(self, filter_: Filter, at: datetime, count: int, *, later: bool) -> list[Candidate]:
        """So many observations just before a moment or just after it, and those of the moment itself.

        The span that is looked at grows until there are enough in it: counting everything takes long.
        """
        same = min(self._store.newest(replace(filter_, after=at, before=at), 1, 0)[1], _SAME_TIME)
        wanted = count + same
        for span in (*_SPANS, None):
            edge = None if span is None else _moved(at, span if later else -span)
            within = (
                replace(filter_, after=at, before=edge)
                if later
                else replace(filter_, after=edge, before=at)
            )
            found, total = self._store.newest(within, wanted, 0)
            if total >= wanted or span is None:
                if later and total > wanted:
                    found, _ = self._store.newest(within, wanted, total - wanted)
                return found
        return []

    # -- forgetting ---

    def forget(
        self,
        ids: Sequence[str] = (),
        *,
        path: str = "",
        project: str = "",
        after: str | None = None,
        before: str | None = None,
        conversations: bool = False,
        confirm: bool = False,
    ) -> Forgotten:
        """Delete for good, with `confirm`; else only say what would be deleted. Raises InvalidInput, NotFound.

        Observations by `ids` go alone, never to be made again, and what was said stays; or with their
        `conversations`. A `path` is one conversation. A `project`, or dates, are all conversations there that lie
        wholly in these days.
        """
        range_ = bool(project.strip() or after or before)
        if sum((bool(ids), bool(path), range_)) != 1:
            raise InvalidInput("Say what to forget: ids, or path, or project and dates.")
        recalled: list[Recalled] = []
        if ids:
            if len(ids) > MOST_IDS:
                raise InvalidInput("Cannot forget more than 20 observations at once")
            recalled = list(self._by_id(ids).values())
        if ids and not conversations:
            if confirm:
                self._forget_observations(recalled)
                self._catch_up()
            return Forgotten((), tuple(recalled), 0, 0)
        if ids:
            named = dict.fromkeys(one.observation.conversation for one in recalled)
            doomed = [self._store.summary(id_) for id_ in named]
        else:
            doomed = [self._named(path)] if path else self._lying_in(project, after, before)
        observed = sum(map(self._observed, doomed))
        if confirm:
            for about in doomed:
                self._delete(about.id)
        return Forgotten(tuple(doomed), (), sum(about.message_count for about in doomed), observed)

    def _forget_observations(self, recalled: Iterable[Recalled]) -> None:
        by_conversation: dict[str, set[str]] = {}
        for one in recalled:
            by_conversation.setdefault(one.observation.conversation, set()).add(one.observation.id)
        for conversation, ids in by_conversation.items():
            known = self._store.header(conversation).metadata.get(FORGOTTEN)
            forgotten = {*map(str, known if isinstance(known, list) else ()), *ids}
            self._store.update(conversation, metadata={FORGOTTEN: sorted(forgotten)})
            version = self._store.header(conversation).version
            document = self._store.find_id(OBSERVATIONS, conversation)
            if document is not None:
                whole = self._store.document(document)
                left = tuple(p for p in whole.passages if p.id not in forgotten)
                # Of the version just made; whoever observed an earlier one meanwhile observes it again.
                self._store.save_observations(
                    conversation, version, replace(whole, passages=left) if left else None
                )

    def _observed(self, about: Summary) -> int:
        document = self._store.find_id(OBSERVATIONS, about.id)
        return 0 if document is None else self._store.summary(document).message_count

    def _lying_in(self, project: str, after: str | None, before: str | None) -> list[Summary]:
        first, last = _day(after, "after"), _day(before, "before", end=True)
        filter_ = Filter(
            projects=self._namespaces([project] if project.strip() else ()),
            kinds=(CONVERSATION,),
            after=first,
            before=last,
            hidden=True,
        )
        found: list[Summary] = []
        for offset in range(0, LIMITS.page_offset, LIMITS.page_size):
            page, total = self._store.summaries(filter_, "", LIMITS.page_size, offset)
            found += [about for about in page if self._is_within(about, first, last)]
            if offset + len(page) >= total or not page:
                break
        return found

    def _is_within(self, about: Summary, first: datetime | None, last: datetime | None) -> bool:
        def within(times: Iterable[datetime | None]) -> bool:
            return all(
                t is not None and (not first or t >= first) and (not last or t <= last)
                for t in times
            )

        if not (first or last) or within((about.created_at, about.updated_at)):
            return True
        times = [
            p.created_at
            for p in self._store.document(about.id).passages
            if p.created_at is not None
        ]
        return bool(times) and within(times)


# -- names -----------------------------------------------------------------------


def project_of(project: str) -> str:
    """A project's name for people: of a folder, its last part."""
    if not _ABSOLUTE.match(project):
        return project
    return re.split(r"[/\\]", project.rstrip("/\\"))[-1] or project


def path_of(project: str, conversation: str) -> str:
    """What `read` takes for a conversation."""
    return f"/{_written(project_of(project)) or '-'}/{_written(conversation)}.jsonl"


def _written(name: str) -> str:
    """A name as a part of a path: what would end it, or be seen by nobody, is percent-encoded."""
    return "".join(
        quote(char, safe="") if _NOT_IN_PATHS.match(char) or not char.isprintable() else char
        for char in storable(name)
    )


def file_of(path: str, project: str) -> str:
    """A file's name for people: below its project's folder, without it."""
    inside = path.removeprefix(project.rstrip("/\\"))
    return (
        inside.lstrip("/\\")
        if inside != path and _ABSOLUTE.match(project) and inside[:1] in "/\\"
        else path
    )


# -- what is asked -----------------------------------------------------------------


def _asked(query: object) -> str | list[str]:
    if isinstance(query, str):
        return _concept(query)
    if not isinstance(query, (list, tuple)) or not all(isinstance(each, str) for each in query):
        raise InvalidInput("Query must be string or array")
    if len(query) < 2:
        raise InvalidInput(
            "Query array must have 2-5 items. Must provide at least 2 concepts for multi-concept search"
        )
    if len(query) > MOST_CONCEPTS:
        raise InvalidInput(
            "Query array must have 2-5 items. Cannot search more than 5 concepts at once"
        )
    return [_concept(each) for each in query]


def _concept(text: str) -> str:
    text = storable(text).strip()
    if len(text) < SHORTEST_QUERY:
        raise InvalidInput("Query must be at least 2 characters")
    check_size(text)
    return text


def _exactly(store: Store, text: str, filter_: Filter) -> str:
    """A query of plain words for a search by words alone: as a phrase if there is one, else all of its words.
    Where nothing has them all either, the search itself goes on to any of them."""
    query = read_query(text)
    if not query.plain or query.rest != text or not has_token(text):
        return text
    if store.match(Word(text), filter_, 1):
        return f'"{text}"'
    return " ".join(f'"{word}"' for word in text.split())


def _given(values: Sequence[str], name: str) -> tuple[str, ...]:
    values = [values] if isinstance(values, str) else values
    if len(values) > 100 or not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{name}: give up to 100 texts.")
    return tuple(storable(value).strip() for value in values if value.strip())


def _types(given: Sequence[str]) -> tuple[str, ...]:
    if not given:
        return ()
    from recollect.memory.observe.kinds import TYPES, type_of

    types = {name: type_of(name) for name in _given(given, "types")}
    if unknown := [name for name, type_ in types.items() if type_ is None]:
        raise InvalidInput(
            f"Unknown type: {truncate(unknown[0], 80)!r}. Types: {', '.join(TYPES)}."
        )
    return tuple(dict.fromkeys(type_ for type_ in types.values() if type_ is not None))


def _day(value: str | None, name: str, *, end: bool = False) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        if not isinstance(value, str) or not _DAY.fullmatch(value.strip()):
            raise ValueError(value)
        return bound(date.fromisoformat(value.strip()).isoformat(), end=end)
    except ValueError as error:
        raise InvalidInput(
            f"Invalid date format: {name} is {truncate(repr(value), 80)}. Use YYYY-MM-DD"
        ) from error


def _moment(anchor: str) -> datetime:
    try:
        return bound(anchor, end=False)
    except (ValueError, AttributeError) as error:
        raise InvalidInput(
            f"Invalid anchor: {truncate(repr(anchor), 80)} is neither an observation ID nor a date. Use YYYY-MM-DD"
        ) from error


def _moved(at: datetime, by: timedelta) -> datetime:
    try:
        return at + by
    except OverflowError:
        return (
            datetime.max.replace(tzinfo=UTC)
            if by > timedelta()
            else datetime.min.replace(tzinfo=UTC)
        )


# -- lines -------------------------------------------------------------------------


def _as_seen(document: Document, audience: Audience) -> Document:
    """The conversation with what only people may see shown or left out; `reading` masks it."""
    if audience is Audience.AGENT_MASKED or not any(map(is_human_only, document.passages)):
        return document
    if audience is Audience.AGENT_HIDDEN:
        return replace(
            document, passages=tuple(p for p in document.passages if not is_human_only(p))
        )
    shown = (
        p._replace(visibility="all", metadata={}) if is_human_only(p) else p
        for p in document.passages
    )
    return replace(document, passages=tuple(shown))


def _stretch(read: Reading, message: str) -> tuple[int, int] | None:
    """The lines of the exchange that a message belongs to; None where it is not on the way through the conversation."""
    lines = read.passages.get(message)
    if lines is None:
        return None
    return next((span for span in read.exchanges if span[0] <= lines[0] <= span[1]), lines)


def _cut(lines: Sequence[str], start: int, end: int) -> str:
    """These lines, as many of them as are read at once."""
    room, last = MOST_READ, start - 1
    for line in lines[start - 1 : end]:
        room -= len(line) + 1
        if room < 0 and last >= start:
            break
        last += 1
    text = "\n".join(lines[start - 1 : last])[:MOST_READ]
    if last < end:
        text += f"\n\n[Lines {start} to {last} of {len(lines)}. To go on: startLine {last + 1}]"
    return text
