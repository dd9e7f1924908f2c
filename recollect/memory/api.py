"""The Memory API: observations of past work, their details, and the conversations behind them.

The three layers let a reader load as little as possible. Conversations are addressed by a path (see
`formats.conversation_path`) and by the lines of the text that `Memory.read` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.text import identifier, truncate
from recollect.memory.formats import TOOL_OPTIONS, OptionNames, current_zone, is_observation_id
from recollect.memory.lookup import (
    full_names,
    observations_by_id,
    observations_by_key,
)
from recollect.memory.observe import FORGOTTEN_IDS, forgotten_ids
from recollect.memory.reading import (
    ConversationTexts,
    ReadOptions,
    find_conversation,
    read_conversation,
    with_lines,
)
from recollect.memory.results import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Deletion,
    MemoryFilter,
    MemoryResults,
    ObservationHit,
    parse_anchor_date,
    parse_day,
    parse_query,
    parse_texts,
    parse_types,
)
from recollect.memory.search import search_concept, search_conversations
from recollect.model.arguments import with_arguments
from recollect.model.audience import Audience
from recollect.model.documents import Summary
from recollect.model.kinds import CONVERSATION, OBSERVATION, OBSERVATIONS
from recollect.model.search import Filter, SearchOptions
from recollect.model.undo import Edit
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.observed import ObservationStore
from recollect.store.values import LIST_START, ListPosition

MAX_IDS = 20
DEFAULT_NEIGHBORS = 5
MAX_NEIGHBORS = 50
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
        """`catch_up` updates the index; `delete` deletes a conversation."""
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
        **conditions: Any,
    ) -> MemoryResults:
        """Find what was said of one concept, or conversations that contain two to five concepts.

        One concept finds observations, and exchanges that no observation was made of. Filters on
        types, concepts or files find observations only. The best come first. Days are those of this
        computer's time zone, or of the zone of `now`. The other arguments are those of
        MemoryFilter: `search("tokens", types=["decision"])`. Raises InvalidInput.
        """
        filters = with_arguments(filters or MemoryFilter(), conditions)
        options = SearchOptions(
            mode,
            limit=max(1, min(limit, MAX_LIMIT)),
            now=now or datetime.now().astimezone(current_zone()),
        )
        zone = now.tzinfo if now else None
        self._catch_up()
        with self._store.snapshot():
            concept = parse_query(query)
            filter_ = Filter(
                projects=full_names(self._store, filters.projects),
                after=parse_day(filters.after, "after", zone=zone),
                before=parse_day(filters.before, "before", end=True, zone=zone),
            )
            types = parse_types(filters.types)
            concepts = parse_texts(filters.concepts, "concepts")
            files = parse_texts(filters.files, "files")
            of_observations = bool(types or concepts or files)
            if not isinstance(concept, str) and of_observations:
                raise InvalidInput(
                    "types, concepts and files filter observations: "
                    "to use them, query must be a string."
                )
            if not self._store.size():  # there are no vectors either, but that is no error
                return MemoryResults(
                    "observations" if isinstance(concept, str) else "conversations"
                )
            if not isinstance(concept, str):
                return search_conversations(
                    self._store, self._meaning, concept, filter_, options, audience
                )
            observations = None
            if of_observations:
                observations = ObservationStore(self._store, concepts, files)
                filter_ = replace(filter_, roles=types)
            return search_concept(
                self._store, self._meaning, concept, filter_, options, audience, observations
            )

    # -- reading ---

    def get(
        self, ids: Sequence[str], *, audience: Audience = Audience.PERSON
    ) -> list[ObservationHit]:
        """Observations by their ids, in the same order. An id stays valid while a session grows.

        Raises InvalidInput with all ids that do not exist.
        """
        if not ids:
            raise InvalidInput("Must provide at least 1 observation ID")
        if len(ids) > MAX_IDS:
            raise InvalidInput("Cannot get more than 20 observations at once")
        hits = observations_by_id(self._store, ids)
        texts = ConversationTexts(self._store, audience)
        return [with_lines(hits[id_], texts) for id_ in ids]

    def read(
        self,
        path: str,
        start: int | None = None,
        end: int | None = None,
        *,
        audience: Audience = Audience.PERSON,
        tool_results: bool = False,
        max_tokens: int | None = None,
        names: OptionNames = TOOL_OPTIONS,
    ) -> str:
        """A conversation as Markdown, or some lines of it. See `reading.read_conversation`.

        `path` may be the id of an observation: then its lines are read, unless others are given.
        The text ends with notes on what is missing, which mention options by these `names`.
        Raises NotFound, InvalidInput.
        """
        options = ReadOptions(start, end, tool_results, max_tokens, names)
        return read_conversation(self._store, path, options, audience)

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
        projects = full_names(self._store, projects)
        filter_ = Filter(hidden=True, kinds=(OBSERVATION,), projects=projects)
        if not is_observation_id(anchor):
            at = parse_anchor_date(anchor)
            entries = self._around(at, before, after, filter_)
            index = sum(1 for time, _, _ in entries if time < at)
            return [hit for _, _, hit in entries[max(0, index - before) : index + after]], None
        anchor_hit = observations_by_id(self._store, [anchor])[anchor]
        anchor, time = anchor_hit.observation.id, anchor_hit.observation.created_at
        if time is None:
            raise InvalidInput(
                f"The observation {truncate(anchor, 80)} has no date. Give a date as the anchor."
            )
        entries = self._around(time, before, after, filter_)
        if all(hit.observation.id != anchor for _, _, hit in entries):  # of another project
            entries.append((time, -1, anchor_hit))
            entries.sort(key=lambda entry: entry[:2])
        hits = [hit for _, _, hit in entries]
        index = [hit.observation.id for hit in hits].index(anchor)
        start = max(0, index - before)
        return hits[start : index + after + 1], index - start

    def _around(
        self, at: datetime, before: int, after: int, filter_: Filter
    ) -> list[tuple[datetime, int, ObservationHit]]:
        """Observations around a moment with their times and keys, at least as many as are needed.

        The keys order those of one moment.
        """
        store = self._store
        simultaneous = store.newest(replace(filter_, after=at, before=at), 1).total
        simultaneous = min(simultaneous, _MAX_SIMULTANEOUS)
        until = replace(filter_, before=at)
        earlier = store.newest(until, before + simultaneous, counted=False).candidates
        needed = after + simultaneous
        since = replace(filter_, after=at)
        total = store.newest(since, 1).total
        later = store.newest(since, needed, max(0, total - needed)).candidates
        candidates = {candidate.key: candidate for candidate in (*earlier, *later)}
        hits = observations_by_key(store, candidates)
        entries = [(candidates[key].created_at or at, key, hit) for key, hit in hits.items()]
        return sorted(entries, key=lambda entry: entry[:2])

    def digest(self, projects: Sequence[str], tokens: int, *, without: str | None = None) -> str:
        """A digest of recent work in these projects, of at most `tokens` tokens.

        `without` is the id of a conversation to leave out.
        """
        from recollect.memory.digest import digest

        return digest(self._store, projects, tokens, without=without)

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
            hits = observations_by_id(self._store, ids)
            former = [id_ for id_, hit in hits.items() if hit.observation.id != id_]
            if former:  # what replaced an observation is not deleted in its place
                raise InvalidInput(f"Invalid observation ID: {', '.join(former)}")
            if not conversations:
                if confirm:
                    self._forget_observations(hits.values())
                return Deletion((), tuple(hits.values()), 0, 0)
            ids = list(dict.fromkeys(hit.observation.conversation for hit in hits.values()))
            summaries = [self._store.summary(id_) for id_ in ids]
        elif path:
            summaries = [find_conversation(self._store, path)]
        else:
            summaries = self._conversations_within(
                project, parse_day(after, "after"), parse_day(before, "before", end=True)
            )
        messages = sum(summary.message_count for summary in summaries)
        deletion = Deletion(tuple(summaries), (), messages, self._observation_count(summaries))
        if confirm:
            for summary in summaries:
                self._delete(summary.id)
        return deletion

    def _forget_observations(self, hits: Iterable[ObservationHit]) -> None:
        by_conversation: dict[str, set[str]] = {}
        for hit in hits:
            ids = by_conversation.setdefault(hit.observation.conversation, set())
            ids.add(hit.observation.id)
        store = self._store
        for conversation, ids in by_conversation.items():
            ids |= forgotten_ids(store.document(conversation, with_passages=False).metadata)
            store.edit(conversation, Edit(metadata={FORGOTTEN_IDS: sorted(ids)}))
            version = store.document(conversation, with_passages=False).version
            document_id = store.find_id(OBSERVATIONS, conversation)
            if document_id is None:
                continue
            document = store.document(document_id)
            passages = tuple(passage for passage in document.passages if passage.id not in ids)
            remainder = replace(document, passages=passages) if passages else None
            # Saved for the version just written. An observer that is still working on an earlier
            # version will observe the conversation again.
            store.save_observations(conversation, version, remainder)
        self._catch_up()

    def _observation_count(self, conversations: Sequence[Summary]) -> int:
        """The number of observations of these conversations, which are looked up many at once."""
        ids = [identifier(f"{OBSERVATIONS}:{summary.id}") for summary in conversations]
        count = 0
        for start in range(0, len(ids), LIMITS.page_size):
            page = tuple(ids[start : start + LIMITS.page_size])
            filter_ = Filter(kinds=(OBSERVATION,), conversations=page, hidden=True)
            documents, _ = self._store.summaries(filter_, "", len(page), 0)
            count += sum(document.message_count for document in documents)
        return count

    def _conversations_within(
        self, project: str, first: datetime | None, last: datetime | None
    ) -> list[Summary]:
        """The conversations of a project that lie entirely within these days."""
        store = self._store
        projects = full_names(store, [project] if project.strip() else [])
        filter_ = Filter(
            projects=projects, kinds=(CONVERSATION,), after=first, before=last, hidden=True
        )

        def are_within(times: Iterable[datetime | None]) -> bool:
            return all(
                time is not None and not (first and time < first) and not (last and time > last)
                for time in times
            )

        def is_within(summary: Summary) -> bool:
            if not (first or last) or are_within((summary.created_at, summary.updated_at)):
                return True
            passages = store.document(summary.id).passages
            times = [passage.created_at for passage in passages if passage.created_at is not None]
            return bool(times) and are_within(times)

        summaries: list[Summary] = []
        position: ListPosition | None = LIST_START
        while position is not None:
            page, position = store.summaries_after(
                filter_, "", LIMITS.page_size, "updated", position
            )
            summaries += filter(is_within, page)
        return summaries
