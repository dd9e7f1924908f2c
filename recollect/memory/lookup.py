"""What is stored under a name: observations by key, id or message, and projects by short name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from recollect.errors import InvalidInput, NotFound
from recollect.knowledge.listing import passages_with_summaries
from recollect.language.text import fold, identifier, storable, truncate
from recollect.memory.formats import conversation_path, successor_id
from recollect.memory.observe import forgotten_ids, from_passage
from recollect.memory.results import ObservationHit, parse_texts
from recollect.model.documents import Passage
from recollect.model.kinds import OBSERVATION, OBSERVATIONS
from recollect.model.names import is_folder, project_name
from recollect.model.search import Filter
from recollect.store.base import Store


def observations_by_key(store: Store, keys: Iterable[int]) -> dict[int, ObservationHit]:
    """The observations with these keys, without those that were deleted in the meantime."""
    keys = list(keys)
    if not keys:
        return {}
    hits = {}
    for key, (summary, passage) in passages_with_summaries(store, keys).items():
        observation = from_passage(passage, summary.project)
        path = conversation_path(summary.project, summary.source_id)
        hits[key] = ObservationHit(observation, path)
    return hits


def observations_by_id(store: Store, ids: Sequence[str]) -> dict[str, ObservationHit]:
    """The observations with these ids, or their successors if they are no longer made.

    Raises InvalidInput with all ids that do not exist.
    """
    hits = stored_observations(store, ids)
    former = {id_: successor_id(id_) for id_ in ids if id_ not in hits}
    successors = stored_observations(store, list(former.values()))
    for id_, successor in former.items():
        hit = successors.get(successor)
        if hit is not None and not is_forgotten(store, hit.observation.conversation, id_):
            hits[id_] = hit
    unknown = [id_ for id_ in dict.fromkeys(ids) if id_ not in hits]
    if unknown:
        names = ", ".join(truncate(storable(id_), 80) for id_ in unknown)
        raise InvalidInput(f"Invalid observation ID: {names}")
    return {id_: hits[id_] for id_ in ids}


def stored_observations(store: Store, ids: Sequence[str]) -> dict[str, ObservationHit]:
    documents = {
        passage: document
        for document, passage in store.documents_containing(OBSERVATIONS, list(ids))
    }
    keys: dict[str, int] = {}
    for id_ in dict.fromkeys(ids):
        with suppress(KeyError, NotFound):
            keys[id_] = store.passage_key(documents[identifier(id_)], id_)
    hits = observations_by_key(store, keys.values())
    return {id_: hits[key] for id_, key in keys.items() if key in hits}


def is_forgotten(store: Store, conversation: str, id_: str) -> bool:
    return id_ in forgotten_ids(store.document(conversation, with_passages=False).metadata)


def full_names(store: Store, projects: Sequence[str]) -> tuple[str, ...]:
    """The projects of these names; if there is none, those whose folder has the name."""
    names = parse_texts(projects, "projects")
    if all(map(is_folder, names)):  # unambiguous, and listing all projects takes time
        return names
    stored_names = [name for name, _ in store.facet_names("projects")]
    full: dict[str, None] = {}
    for name in names:
        matching: list[str] = []
        if name not in stored_names:
            matching = [n for n in stored_names if fold(project_name(n)) == fold(name)]
        full |= dict.fromkeys(matching or [name])
    return tuple(full)


class Coverage:
    """The observations that messages belong to, of those within the dates of a filter."""

    def __init__(self, store: Store, filter_: Filter) -> None:
        self._store = store
        self._after = filter_.after
        self._before = filter_.before
        self._conversations: set[str] = set()
        self._ids_by_message: dict[tuple[str, str], list[str]] = {}
        self._passages: dict[str, tuple[str, Passage]] = {}
        """The project and the passage of each observation, by its id."""

    def is_loaded(self, conversation: str) -> bool:
        return conversation in self._conversations

    def load(self, conversations: Iterable[str]) -> None:
        """Read the observations of these conversations, all at once."""
        ids = set(conversations) - self._conversations
        if not ids:
            return
        self._conversations |= ids
        documents = self._store.documents([f"{OBSERVATIONS}:{id_}" for id_ in sorted(ids)])
        observations: dict[str, tuple[str, Passage]] = {}
        for document in documents.values():
            if document.kind == OBSERVATION:
                within = filter(self._is_within_dates, document.passages)
                observations |= {passage.id: (document.project, passage) for passage in within}
        self._passages |= observations
        self._index(observations)

    def _is_within_dates(self, passage: Passage) -> bool:
        time = passage.created_at
        if time is None:
            return self._after is None and self._before is None
        is_late_enough = self._after is None or time >= self._after
        return is_late_enough and (self._before is None or time <= self._before)

    def _index(self, ids: Iterable[str]) -> None:
        """Add observations to the index of messages, the most specific ones first."""
        messages: dict[str, list[str]] = {}
        for id_ in ids:
            messages[id_] = self._passages[id_][1].metadata.get("passages") or []
        for id_ in sorted(messages, key=lambda each: (len(messages[each]), each)):
            conversation = str(self._passages[id_][1].metadata.get("conversation"))
            for message in messages[id_]:
                self._ids_by_message.setdefault((conversation, message), []).append(id_)

    def ids(self, conversation: str, message: str) -> list[str]:
        """The ids of the observations that a message belongs to, the most specific ones first."""
        return self._ids_by_message.get((conversation, message), [])

    def observation(self, id_: str) -> ObservationHit:
        """One of the observations that `ids` returned."""
        project, passage = self._passages[id_]
        observation = from_passage(passage, project)
        return ObservationHit(observation, conversation_path(project, observation.conversation))
