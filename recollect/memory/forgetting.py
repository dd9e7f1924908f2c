"""Deleting observations and conversations permanently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from recollect.errors import InvalidInput
from recollect.language.text import identifier
from recollect.memory.lookup import full_names, observations_by_id
from recollect.memory.observe import FORGOTTEN_IDS, forgotten_ids
from recollect.memory.reading import find_conversation
from recollect.memory.request_filters import parse_day
from recollect.memory.results import Deletion, ObservationHit
from recollect.model.documents import Summary
from recollect.model.kinds import CONVERSATION, OBSERVATION, OBSERVATIONS
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import ListPosition, list_start

MAX_IDS = 20


@dataclass(frozen=True, slots=True)
class Selection:
    """What to forget: observations, or a conversation, or those of a project and of some days."""

    ids: Sequence[str] = ()
    path: str = ""
    project: str = ""
    after: str | None = None
    before: str | None = None
    conversations: bool = False
    """With `ids`: their conversations, too."""


class Forgetting:
    """Deletes from one library. `delete` deletes a conversation; `catch_up` updates the index."""

    def __init__(
        self, store: Store, delete: Callable[[str], object], catch_up: Callable[[], None]
    ) -> None:
        self._store = store
        self._delete = delete
        self._catch_up = catch_up

    def forget(self, selection: Selection, confirm: bool) -> Deletion:
        """Delete with `confirm`; otherwise only return what would be deleted."""
        is_range = bool(selection.project.strip() or selection.after or selection.before)
        if sum((bool(selection.ids), bool(selection.path), is_range)) != 1:
            raise InvalidInput("Say what to forget: ids, or path, or project and dates.")
        if selection.ids:
            if len(selection.ids) > MAX_IDS:
                raise InvalidInput("Cannot forget more than 20 observations at once")
            hits_by_id = observations_by_id(self._store, selection.ids)
            former = [id_ for id_, hit in hits_by_id.items() if hit.observation.id != id_]
            if former:  # what replaced an observation is not deleted in its place
                raise InvalidInput(f"Invalid observation ID: {', '.join(former)}")
            hits = hits_by_id.values()
            if not selection.conversations:
                return self._forget_observations(tuple(hits), confirm)
            conversation_ids = dict.fromkeys(hit.observation.conversation for hit in hits)
            summaries = [self._store.summary(id_) for id_ in conversation_ids]
        elif selection.path:
            summaries = [find_conversation(self._store, selection.path)]
        else:
            summaries = self._conversations_within(selection)
        return self._forget_conversations(summaries, confirm)

    def _forget_conversations(self, summaries: Sequence[Summary], confirm: bool) -> Deletion:
        deletion = Deletion(
            conversations=tuple(summaries),
            observations=(),
            message_count=sum(summary.message_count for summary in summaries),
            observation_count=self._observation_count(summaries),
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

    def _conversations_within(self, selection: Selection) -> list[Summary]:
        first = parse_day(selection.after, "after")
        last = parse_day(selection.before, "before", end=True)
        projects = []
        if selection.project.strip():
            projects.append(selection.project)
        filter_ = Filter(
            projects=full_names(self._store, projects),
            kinds=(CONVERSATION,),
            after=first,
            before=last,
            hidden=True,
        )
        summaries: list[Summary] = []
        position: ListPosition | None = list_start(self._store.last_move())
        while position is not None:
            page, position = self._store.summaries_after(
                filter_, "", LIMITS.page_size, "updated", position
            )
            summaries += [summary for summary in page if self._is_within(summary, first, last)]
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
