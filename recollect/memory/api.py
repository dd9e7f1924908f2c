"""The Memory API: observations of past work, their details, and the conversations behind them.

The three layers let a reader load as little as possible. Conversations are addressed by a path (see
`names.conversation_path`) and by the lines of the text that `Memory.read` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import NamedTuple

from recollect.errors import InvalidInput, NotFound
from recollect.index.meaning import Meaning
from recollect.language.queries.query_tree import Word
from recollect.memory.forgetting import Forgetting, Selection
from recollect.memory.formats import TOOL_OPTIONS, OptionNames, current_zone
from recollect.memory.lookup import Coverage, full_names, observations_by_id
from recollect.memory.reading import (
    ConversationTexts,
    ReadOptions,
    read_conversation,
    with_lines,
)
from recollect.memory.request_filters import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MemoryFilter,
    parse_day,
    parse_query,
    parse_texts,
    parse_types,
)
from recollect.memory.results import Deletion, MemoryResults, ObservationHit
from recollect.memory.search import search_concept, search_conversations, search_observations
from recollect.memory.superseding import find_successors, promote
from recollect.memory.timeline import Timeline
from recollect.model.audience import Audience
from recollect.model.observations import Observation
from recollect.model.search import Filter, Hit, SearchOptions
from recollect.search.results.hits import make_hit
from recollect.store.base import Store
from recollect.store.views.labelled import visible_store
from recollect.store.views.observed import ObservationStore

MAX_IDS = 20
DEFAULT_NEIGHBORS = 5
MAX_NEIGHBORS = 50


class _Attributes(NamedTuple):
    """Attributes that only observations have."""

    types: tuple[str, ...]
    concepts: tuple[str, ...]
    files: tuple[str, ...]

    @staticmethod
    def parse(filters: MemoryFilter) -> _Attributes:
        return _Attributes(
            types=parse_types(filters.types),
            concepts=parse_texts(filters.concepts, "concepts"),
            files=parse_texts(filters.files, "files"),
        )


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
        """Find what was said of one concept, or conversations that contain two to five concepts.

        One concept finds observations, and exchanges that no observation was made of. Filters on
        types, concepts or files find observations only. The best come first. Days are those of this
        computer's time zone, or of the zone of `now`. Raises InvalidInput.
        """
        filters = filters or MemoryFilter()
        options = SearchOptions(
            mode,
            limit=max(1, min(limit, MAX_LIMIT)),
            now=now or datetime.now().astimezone(current_zone()),
        )
        self._catch_up()
        with self._store.snapshot():
            return self._search(query, filters, options, audience, now.tzinfo if now else None)

    def _search(
        self,
        query: str | Sequence[str],
        filters: MemoryFilter,
        options: SearchOptions,
        audience: Audience,
        zone: tzinfo | None,
    ) -> MemoryResults:
        concept = parse_query(query)
        filter_ = self._filter(filters, zone)
        attributes = _Attributes.parse(filters)
        if not isinstance(concept, str) and any(attributes):
            raise InvalidInput(
                "types, concepts and files filter observations: "
                "to use them, query must be a string."
            )
        if not self._store.size():  # there are no vectors either, but that is no error
            return MemoryResults("observations" if isinstance(concept, str) else "conversations")
        if not isinstance(concept, str):
            return search_conversations(
                self._store, self._meaning, concept, filter_, options, audience
            )
        if any(attributes):
            store = ObservationStore(self._store, attributes.concepts, attributes.files)
            filter_ = replace(filter_, roles=attributes.types)
            results = search_observations(store, self._meaning, concept, filter_, options)
        else:
            results = search_concept(
                self._store, self._meaning, concept, filter_, options, audience
            )
        is_filtered = any(attributes) or bool(filter_.after or filter_.before)
        return self._with_successors(results, options.limit, insert=not is_filtered)

    def _filter(self, filters: MemoryFilter, zone: tzinfo | None) -> Filter:
        return Filter(
            projects=full_names(self._store, filters.projects),
            after=parse_day(filters.after, "after", zone=zone),
            before=parse_day(filters.before, "before", end=True, zone=zone),
        )

    def _with_successors(
        self, results: MemoryResults, limit: int, *, insert: bool
    ) -> MemoryResults:
        """The results with later decisions before those that they supersede."""
        observations = [hit.observation for hit in results.observations]
        successors = find_successors(self._store, observations)
        if not successors:
            return results
        hits = tuple(promote(results.hits, successors, insert=insert))
        return replace(results, hits=hits[:limit], total=max(results.total, len(hits)))

    def successors(self, messages: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Observation]:
        """The later decisions that supersede what messages say.

        Messages are given by the ids of their conversations and their own.
        """
        coverage = Coverage(self._store, Filter())
        coverage.load(conversation for conversation, _ in messages)
        ids = {key: id_ for key in messages for id_ in coverage.ids(*key)[:1]}
        observations = {id_: coverage.observation(id_).observation for id_ in ids.values()}
        successors = find_successors(self._store, observations.values())
        return {key: successors[id_] for key, id_ in ids.items() if id_ in successors}

    def later_first(
        self, hits: Sequence[Hit], filter_: Filter, audience: Audience = Audience.PERSON
    ) -> tuple[Hit, ...]:
        """Hits by conversation in their order, but later decisions before those they supersede.

        A later decision that was not found itself is added, if it passes the filter, so that nobody
        reads only the superseded one.
        """
        successors = self.successors([(hit.conversation_id, hit.message_id) for hit in hits])
        by_conversation = {hit.conversation_id: hit for hit in hits}
        order: dict[str, Hit] = {}
        for hit in hits:
            later = successors.get((hit.conversation_id, hit.message_id))
            if later is not None and later.conversation not in order:
                later_hit = by_conversation.get(later.conversation)
                if later_hit is None:
                    later_hit = self._hit_of(later, hit, filter_, audience)
                if later_hit is not None:
                    order[later.conversation] = later_hit
            order.setdefault(hit.conversation_id, hit)
        return tuple(order.values())

    def _hit_of(
        self, observation: Observation, earlier: Hit, filter_: Filter, audience: Audience
    ) -> Hit | None:
        """The message that an observation begins with, with the score of another hit."""
        store = visible_store(self._store, audience)
        try:
            key = store.passage_key(observation.conversation, observation.passages[0])
        except NotFound:
            return None
        words = [Word(term) for term in earlier.terms]
        for candidate in store.candidates([key], filter_):
            return replace(make_hit(candidate, words, earlier.score), arms=earlier.arms)
        return None

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
        successors = find_successors(self._store, [hit.observation for hit in hits.values()])
        return [
            with_lines(hit, texts)._replace(successor=successors.get(hit.observation.id))
            for hit in map(hits.__getitem__, ids)
        ]

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
        return Timeline(self._store, projects).around(anchor, before, after)

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
        selection = Selection(ids, path, project, after, before, conversations)
        return Forgetting(self._store, self._delete, self._catch_up).forget(selection, confirm)
