"""The Memory API: observations of past work, their details, and the conversations behind them.

The three layers let a reader load as little as possible. Conversations are addressed by a path (see
`names.conversation_path`) and by the lines of the text that `Memory.read` returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from recollect.errors import InvalidInput, NotFound
from recollect.index.meaning import Meaning
from recollect.language import query as query_language
from recollect.language.text import fold, has_token, identifier, storable, truncate
from recollect.memory.names import conversation_id, conversation_path, is_folder, project_name
from recollect.memory.observe import (
    FORGOTTEN_IDS,
    ConversationText,
    conversation_text,
    forgotten_ids,
    from_passage,
)
from recollect.memory.request_filters import (
    MemoryFilter,
    parse_anchor_date,
    parse_day,
    parse_query,
    parse_texts,
    parse_types,
)
from recollect.memory.results import ConversationHit, Deletion, MemoryResults, ObservationHit
from recollect.model.audience import Audience, is_human_only
from recollect.model.documents import Document, Passage, Summary
from recollect.model.kinds import CONVERSATION, OBSERVATION, OBSERVATIONS
from recollect.model.search import Filter, Hit, SearchOptions
from recollect.search import engine
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate
from recollect.store.views.audience import visible_store
from recollect.store.views.observed import ObservationStore

DEFAULT_LIMIT = 10
MAX_LIMIT = 50
MAX_IDS = 20
DEFAULT_NEIGHBORS = 5
MAX_NEIGHBORS = 50
MAX_READ_LENGTH = 100_000
"""How many characters of a conversation one call of `read` returns."""

_OBSERVATION_ID = re.compile(r"obs-\S{1,100}")
_SPANS = tuple(timedelta(days=days) for days in (1, 8, 64, 512))
_MAX_SIMULTANEOUS = 1_000


class Memory:
    """See `Library.memory`. `audience` decides what the reader gets of human-only messages."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        catch_up: Callable[[], None],
        delete: Callable[[str], object],
    ) -> None:
        self._store = store
        self._meaning = meaning
        self._catch_up = catch_up
        self._delete = delete

    # -- search ---

    def search(
        self,
        query: str | Sequence[str],
        filters: MemoryFilter | None = None,
        *,
        mode: str = "both",
        limit: int = DEFAULT_LIMIT,
        audience: Audience = Audience.PERSON,
        now: datetime | None = None,
    ) -> MemoryResults:
        """Find observations of one concept, or conversations that contain two to five concepts.

        The best come first. Raises InvalidInput.
        """
        if filters is None:
            filters = MemoryFilter()
        concept = parse_query(query)
        filter_ = Filter(
            projects=self._full_names(filters.projects),
            after=parse_day(filters.after, "after"),
            before=parse_day(filters.before, "before", end=True),
        )
        types = parse_types(filters.types)
        concepts = parse_texts(filters.concepts, "concepts")
        files = parse_texts(filters.files, "files")
        options = SearchOptions(
            mode, limit=max(1, min(limit, MAX_LIMIT)), now=now or datetime.now(UTC)
        )
        self._catch_up()
        only_observations = bool(types or concepts or files)
        if not isinstance(concept, str):
            if only_observations:
                raise InvalidInput(
                    "types, concepts and files filter observations: "
                    "to use them, query must be a string."
                )
            return self._search_conversations(concept, filter_, options, audience)
        results = self._search_observations(
            concept,
            replace(filter_, roles=types),
            options,
            ObservationStore(self._store, concepts, files),
        )
        if results.observations or only_observations:
            return results
        return self._search_exchanges(concept, filter_, options, audience) or results

    def _search_observations(
        self, text: str, filter_: Filter, options: SearchOptions, store: ObservationStore
    ) -> MemoryResults:
        filter_ = replace(filter_, hidden=True, kinds=(OBSERVATION,))
        if options.mode == "text":
            text = _literal_query(store, text, filter_)
        page = engine.search(store, self._meaning, text, filter_, options)
        keys = [store.keys[hit.conversation_id, hit.message_id] for hit in page.hits]
        by_key = self._observations_by_key(keys)
        hits = []
        for key, hit in zip(keys, page.hits, strict=True):
            if key in by_key:  # otherwise it was deleted during the search
                hits.append(
                    by_key[key]._replace(score=hit.score, snippet=hit.snippet, terms=hit.terms)
                )
        total = max(page.total, len(hits))
        return MemoryResults("observations", tuple(hits), total=total, note=page.note)

    def _search_exchanges(
        self, text: str, filter_: Filter, options: SearchOptions, audience: Audience
    ) -> MemoryResults | None:
        """The exchanges whose messages match, for text of which nothing was observed."""
        filter_ = replace(filter_, kinds=(CONVERSATION,))
        store = self._visible_store(audience)
        if options.mode == "text":
            text = _literal_query(store, text, filter_)
        page = engine.search(store, self._meaning, text, filter_, options)
        exchanges: dict[tuple[str, tuple[int, int] | None], ConversationHit] = {}
        for hit, conversation in self._conversation_hits(page.hits, audience):
            exchanges.setdefault((hit.conversation_id, conversation.lines), conversation)
        if not exchanges:
            return None
        return MemoryResults(
            "exchanges",
            conversations=tuple(exchanges.values()),
            total=page.total,
            note=page.note,
        )

    def _search_conversations(
        self, concepts: list[str], filter_: Filter, options: SearchOptions, audience: Audience
    ) -> MemoryResults:
        page = engine.search_concepts(
            self._visible_store(audience),
            self._meaning,
            concepts,
            replace(filter_, kinds=(CONVERSATION,)),
            replace(options, group="conversation"),
        )
        hits = tuple(
            conversation for _, conversation in self._conversation_hits(page.hits, audience)
        )
        return MemoryResults("conversations", conversations=hits, total=page.total, note=page.note)

    def _conversation_hits(
        self, hits: Iterable[Hit], audience: Audience
    ) -> Iterator[tuple[Hit, ConversationHit]]:
        texts: dict[str, ConversationText | None] = {}
        for hit in hits:
            if hit.conversation_id not in texts:
                texts[hit.conversation_id] = self._text(hit.conversation_id, audience)
            text = texts[hit.conversation_id]
            if text is None:
                continue
            snippets = dict.fromkeys(" ".join(each.snippet.split()) for each in (hit, *hit.also))
            conversation = ConversationHit(
                path=conversation_path(hit.project, hit.conversation_id),
                project=project_name(hit.project),
                title=hit.title,
                created_at=hit.created_at,
                score=hit.score,
                snippets=tuple(snippets),
                lines=_exchange_lines(text, hit.message_id),
            )
            yield hit, conversation

    def _observations_by_key(self, keys: Iterable[int]) -> dict[int, ObservationHit]:
        passages = self._store.passages_by_key(list(keys))
        summaries = self._summaries({document for document, _ in passages.values()})
        hits = {}
        for key, (document, passage) in passages.items():
            summary = summaries.get(identifier(document))
            if summary is not None:
                observation = from_passage(passage, summary.project)
                path = conversation_path(summary.project, summary.source_id)
                hits[key] = ObservationHit(observation, path)
        return hits

    def _summaries(self, documents: Iterable[str]) -> dict[str, Summary]:
        ids = tuple(map(identifier, documents))
        if not ids:
            return {}
        summaries, _ = self._store.summaries(
            Filter(conversations=ids, hidden=True), "", len(ids), 0
        )
        return {identifier(summary.id): summary for summary in summaries}

    def _full_names(self, projects: Sequence[str]) -> tuple[str, ...]:
        """The projects of these names; if there is none, those whose folder has the name."""
        names = parse_texts(projects, "projects")
        if all(map(is_folder, names)):  # unambiguous, and listing all projects takes time
            return names
        stored_names = [name for name, _ in self._store.facets(CONVERSATION)["projects"]]
        full_names: dict[str, None] = {}
        for name in names:
            matching: list[str] = []
            if name not in stored_names:
                matching = [n for n in stored_names if fold(project_name(n)) == fold(name)]
            full_names |= dict.fromkeys(matching or [name])
        return tuple(full_names)

    def _visible_store(self, audience: Audience) -> Store:
        # Snippets of conversations are not masked, so no agent may find human-only messages here.
        return visible_store(self._store, audience, can_mask=False)

    # -- details ---

    def get(
        self, ids: Sequence[str], *, audience: Audience = Audience.PERSON
    ) -> list[ObservationHit]:
        """Observations by their ids, in the same order.

        Raises InvalidInput with all ids that do not exist.
        """
        if not ids:
            raise InvalidInput("Must provide at least 1 observation ID")
        if len(ids) > MAX_IDS:
            raise InvalidInput("Cannot get more than 20 observations at once")
        hits = self._observations_by_id(ids)
        if audience is Audience.AGENT_MASKED:  # the stored lines are those of the masked text
            return [hits[id_] for id_ in ids]
        texts: dict[str, ConversationText | None] = {}
        for hit in hits.values():
            conversation = hit.observation.conversation
            if conversation not in texts:
                texts[conversation] = self._text(conversation, audience)
        return [_with_lines(hits[id_], texts[hits[id_].observation.conversation]) for id_ in ids]

    def _observations_by_id(self, ids: Sequence[str]) -> dict[str, ObservationHit]:
        documents = {
            passage: document
            for document, passage in self._store.documents_containing(OBSERVATIONS, list(ids))
        }
        keys: dict[str, int] = {}
        for id_ in dict.fromkeys(ids):
            try:
                keys[id_] = self._store.passage_key(documents[identifier(id_)], id_)
            except (KeyError, NotFound):
                continue
        hits = self._observations_by_key(keys.values())
        unknown = [id_ for id_ in dict.fromkeys(ids) if keys.get(id_) not in hits]
        if unknown:
            names = ", ".join(truncate(storable(id_), 80) for id_ in unknown)
            raise InvalidInput(f"Invalid observation ID: {names}")
        return {id_: hits[key] for id_, key in keys.items()}

    # -- conversations ---

    def read(
        self,
        path: str,
        start: int = 1,
        end: int | None = None,
        *,
        audience: Audience = Audience.PERSON,
    ) -> str:
        """A conversation as Markdown, or some lines of it. Raises NotFound, InvalidInput."""
        text = self._text(self._conversation(path).id, audience)
        if text is None:
            raise _missing_path(path)
        total = len(text.lines)
        if start < 1:
            raise InvalidInput(
                f"Invalid line range: startLine must be at least 1; there are {total} lines."
            )
        if end is not None and end < start:
            raise InvalidInput(
                "Invalid line range: endLine must not be less than startLine; "
                f"there are {total} lines."
            )
        if start > total:
            raise InvalidInput(
                f"Invalid line range: startLine is {start}, but there are only {total} lines."
            )
        return _excerpt(text.lines, start, min(end or total, total))

    def _conversation(self, path: str) -> Summary:
        id_ = conversation_id(path)
        if id_ is None:
            raise _missing_path(path)
        try:
            summary = self._store.summary(id_)
        except NotFound:
            raise _missing_path(path) from None
        if summary.kind != CONVERSATION:
            raise _missing_path(path)
        return summary

    def _text(self, conversation: str, audience: Audience) -> ConversationText | None:
        try:
            document = self._store.document(conversation)
        except NotFound:
            return None
        return conversation_text(_visible_part(document, audience))

    # -- timeline ---

    def timeline(
        self,
        anchor: str,
        *,
        before: int = DEFAULT_NEIGHBORS,
        after: int = DEFAULT_NEIGHBORS,
        projects: Sequence[str] = (),
    ) -> tuple[list[ObservationHit], int | None]:
        """The observations around an observation or a date, oldest first.

        Also returns the index of the anchor, if it is an observation. A date is the beginning of
        that day. Raises InvalidInput.
        """
        before = max(0, min(before, MAX_NEIGHBORS))
        after = max(0, min(after, MAX_NEIGHBORS))
        filter_ = Filter(hidden=True, kinds=(OBSERVATION,), projects=self._full_names(projects))
        if not _OBSERVATION_ID.fullmatch(anchor):
            at = parse_anchor_date(anchor)
            entries = self._timeline_entries(filter_, at, before, after)
            index = sum(1 for time, _, _ in entries if time < at)
            return [hit for _, _, hit in entries[max(0, index - before) : index + after]], None
        anchor_hit = self._observations_by_id([anchor])[anchor]
        anchor_time = anchor_hit.observation.created_at
        if anchor_time is None:
            raise InvalidInput(
                f"The observation {truncate(anchor, 80)} has no date. Give a date as the anchor."
            )
        entries = self._timeline_entries(filter_, anchor_time, before, after)
        ids = [hit.observation.id for _, _, hit in entries]
        if anchor not in ids:  # because it belongs to another project
            entries = sorted([*entries, (anchor_time, -1, anchor_hit)], key=_entry_order)
            ids = [hit.observation.id for _, _, hit in entries]
        index = ids.index(anchor)
        start = max(0, index - before)
        return [hit for _, _, hit in entries[start : index + after + 1]], index - start

    def _timeline_entries(
        self, filter_: Filter, at: datetime, before: int, after: int
    ) -> list[_TimelineEntry]:
        """Observations around a moment in their order, at least as many as are needed."""
        earlier = self._nearest_in_time(filter_, at, before, later=False)
        later = self._nearest_in_time(filter_, at, after, later=True)
        candidates = {candidate.id: candidate for candidate in (*earlier, *later)}
        hits = self._observations_by_key(candidate.key for candidate in candidates.values())
        entries = [
            (candidate.created_at or at, candidate.key, hits[candidate.key])
            for candidate in candidates.values()
            if candidate.key in hits
        ]
        return sorted(entries, key=_entry_order)

    def _nearest_in_time(
        self, filter_: Filter, at: datetime, count: int, *, later: bool
    ) -> list[Candidate]:
        """The observations of a moment, and `count` more just before or after it.

        The time span grows until it contains enough, because counting all observations is slow.
        """
        _, simultaneous = self._store.newest(replace(filter_, after=at, before=at), 1, 0)
        needed = count + min(simultaneous, _MAX_SIMULTANEOUS)
        for span in _SPANS:
            candidates, total = self._adjacent(filter_, at, span, needed, later=later)
            if total >= needed:
                return candidates
        candidates, _ = self._adjacent(filter_, at, None, needed, later=later)
        return candidates

    def _adjacent(
        self, filter_: Filter, at: datetime, span: timedelta | None, count: int, *, later: bool
    ) -> tuple[list[Candidate], int]:
        """The observations of a span next to a moment that are nearest to it, and their total."""
        if not later:
            edge = _shift(at, -span) if span is not None else None
            return self._store.newest(replace(filter_, after=edge, before=at), count, 0)
        edge = _shift(at, span) if span is not None else None
        filter_ = replace(filter_, after=at, before=edge)
        candidates, total = self._store.newest(filter_, count, 0)
        if total > count:
            candidates, _ = self._store.newest(filter_, count, total - count)
        return candidates, total

    # -- deletion ---

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
    ) -> Deletion:
        """Delete permanently with `confirm`; otherwise only return what would be deleted.

        `ids` deletes observations, which are never made again, and keeps their conversations unless
        `conversations` is set. `path` deletes one conversation. `project` and dates delete all
        conversations of the project that lie entirely within these days. Raises InvalidInput,
        NotFound.
        """
        is_range = bool(project.strip() or after or before)
        if sum((bool(ids), bool(path), is_range)) != 1:
            raise InvalidInput("Say what to forget: ids, or path, or project and dates.")
        if ids:
            if len(ids) > MAX_IDS:
                raise InvalidInput("Cannot forget more than 20 observations at once")
            hits = self._observations_by_id(ids).values()
            if not conversations:
                return self._forget_observations(tuple(hits), confirm)
            conversation_ids = dict.fromkeys(hit.observation.conversation for hit in hits)
            summaries = [self._store.summary(id_) for id_ in conversation_ids]
        elif path:
            summaries = [self._conversation(path)]
        else:
            summaries = self._conversations_within(project, after, before)
        return self._forget_conversations(summaries, confirm)

    def _forget_conversations(self, summaries: Sequence[Summary], confirm: bool) -> Deletion:
        deletion = Deletion(
            conversations=tuple(summaries),
            observations=(),
            message_count=sum(summary.message_count for summary in summaries),
            observation_count=sum(self._observation_count(summary.id) for summary in summaries),
        )
        if confirm:
            for summary in summaries:
                self._delete(summary.id)
        return deletion

    def _forget_observations(self, hits: tuple[ObservationHit, ...], confirm: bool) -> Deletion:
        if confirm:
            by_conversation: dict[str, set[str]] = {}
            for hit in hits:
                ids = by_conversation.setdefault(hit.observation.conversation, set())
                ids.add(hit.observation.id)
            for conversation, ids in by_conversation.items():
                self._forget_observations_of(conversation, ids)
            self._catch_up()
        return Deletion((), hits, 0, 0)

    def _forget_observations_of(self, conversation: str, ids: set[str]) -> None:
        ids = ids | forgotten_ids(self._store.header(conversation).metadata)
        self._store.update(conversation, metadata={FORGOTTEN_IDS: sorted(ids)})
        version = self._store.header(conversation).version
        document_id = self._store.find_id(OBSERVATIONS, conversation)
        if document_id is None:
            return
        document = self._store.document(document_id)
        passages = tuple(passage for passage in document.passages if passage.id not in ids)
        remainder = None
        if passages:
            remainder = replace(document, passages=passages)
        # Saved for the version just written. An observer that is still working on an earlier
        # version will observe the conversation again.
        self._store.save_observations(conversation, version, remainder)

    def _observation_count(self, conversation: str) -> int:
        document = self._store.find_id(OBSERVATIONS, conversation)
        if document is None:
            return 0
        return self._store.summary(document).message_count

    def _conversations_within(
        self, project: str, after: str | None, before: str | None
    ) -> list[Summary]:
        first = parse_day(after, "after")
        last = parse_day(before, "before", end=True)
        projects = [project] if project.strip() else []
        filter_ = Filter(
            projects=self._full_names(projects),
            kinds=(CONVERSATION,),
            after=first,
            before=last,
            hidden=True,
        )
        summaries: list[Summary] = []
        for offset in range(0, LIMITS.page_offset, LIMITS.page_size):
            page, total = self._store.summaries(filter_, "", LIMITS.page_size, offset)
            summaries += [summary for summary in page if self._is_within(summary, first, last)]
            if offset + len(page) >= total or not page:
                break
        return summaries

    def _is_within(self, summary: Summary, first: datetime | None, last: datetime | None) -> bool:
        if first is None and last is None:
            return True
        if _are_within((summary.created_at, summary.updated_at), first, last):
            return True
        passages = self._store.document(summary.id).passages
        times = [passage.created_at for passage in passages if passage.created_at is not None]
        return bool(times) and _are_within(times, first, last)


def _are_within(
    times: Iterable[datetime | None], first: datetime | None, last: datetime | None
) -> bool:
    for time in times:
        if time is None:
            return False
        if first is not None and time < first:
            return False
        if last is not None and time > last:
            return False
    return True


def _missing_path(path: str) -> NotFound:
    return NotFound(f"File not found: {truncate(storable(path), 500)}")


def _literal_query(store: Store, text: str, filter_: Filter) -> str:
    """A query of plain words for the mode "text": the phrase if it occurs, else all its words.

    If no text has all the words either, the search falls back to any of them.
    """
    query = query_language.parse_query(text)
    if not query.plain or query.rest != text or not has_token(text):
        return text
    if store.match(query_language.Word(text), filter_, 1):
        return f'"{text}"'
    return " ".join(f'"{word}"' for word in text.split())


# -- times -------------------------------------------------------------------------

_TimelineEntry = tuple[datetime, int, ObservationHit]
"""The time of an observation, its key, which orders those of one moment, and the observation."""


def _entry_order(entry: _TimelineEntry) -> tuple[datetime, int]:
    time, key, _ = entry
    return time, key


def _shift(at: datetime, span: timedelta) -> datetime:
    try:
        return at + span
    except OverflowError:
        if span > timedelta():
            return datetime.max.replace(tzinfo=UTC)
        return datetime.min.replace(tzinfo=UTC)


# -- lines -------------------------------------------------------------------------


def _visible_part(document: Document, audience: Audience) -> Document:
    """The conversation as this audience reads it. Masks are left to `conversation_text`."""
    if audience is Audience.AGENT_MASKED or not any(map(is_human_only, document.passages)):
        return document
    if audience is Audience.AGENT_HIDDEN:
        visible = [passage for passage in document.passages if not is_human_only(passage)]
    else:
        visible = [_unmasked(passage) for passage in document.passages]
    return replace(document, passages=tuple(visible))


def _unmasked(passage: Passage) -> Passage:
    """The passage without its mark as human-only, so that `conversation_text` does not mask it."""
    if not is_human_only(passage):
        return passage
    return passage._replace(visibility="all", metadata={})


def _with_lines(hit: ObservationHit, text: ConversationText | None) -> ObservationHit:
    """The observation with its lines in this text of the conversation."""
    if text is None:
        return hit
    observation = hit.observation
    question_lines = None
    if observation.passages:
        question_lines = text.passages.get(observation.passages[0])
    lines = text.span(observation.passages)
    return hit._replace(
        observation=replace(observation, lines=lines, question_lines=question_lines)
    )


def _exchange_lines(text: ConversationText, message: str) -> tuple[int, int] | None:
    """The lines of the exchange with this message; None if the message is on another branch."""
    lines = text.passages.get(message)
    if lines is None:
        return None
    for first, last in text.exchanges:
        if first <= lines[0] <= last:
            return first, last
    return lines


def _excerpt(lines: Sequence[str], start: int, end: int) -> str:
    """These lines, up to `MAX_READ_LENGTH` characters, with a note if some are missing."""
    room = MAX_READ_LENGTH
    last = start - 1
    for line in lines[start - 1 : end]:
        room -= len(line) + 1
        if room < 0 and last >= start:
            break
        last += 1
    text = "\n".join(lines[start - 1 : last])[:MAX_READ_LENGTH]
    if last < end:
        text += f"\n\n[Lines {start} to {last} of {len(lines)}. To go on: startLine {last + 1}]"
    return text
