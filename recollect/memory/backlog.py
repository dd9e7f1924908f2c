"""Observe the conversations that are new or changed, in small steps that can be interrupted.

Observations are derived data, like vectors: a conversation that changes is observed again, and all
are when the observer changes.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from recollect.errors import IndexingStopped, InvalidInput, NotFound, RecollectError
from recollect.home_folder import OBSERVER_BUDGET
from recollect.index.refresh import OnWait, index_lock
from recollect.language.text import truncate
from recollect.memory.observe import MAKER, as_document, forgotten_ids, observe
from recollect.memory.observe.model import Budget, FileBudget, ModelObserver, ObserverResult
from recollect.model.documents import Document
from recollect.models.openai_client import ChatModel
from recollect.models.stopping import Stop, never_stop
from recollect.progress import Progress, ignore_progress
from recollect.settings import OBSERVER, home
from recollect.store.base import Store

log = logging.getLogger(__name__)

_BATCH = 100
# Each observation that is in no volume makes searches slower: 5,000 of them by half.
_MAX_UNSEALED = 5_000
_OBSERVER_MARKER = "observer"
_RETRY_DAY_MARKER = "observer_tried"


def catch_up(
    store: Store,
    progress: Progress | None = None,
    stop: Stop | None = None,
    on_wait: OnWait | None = None,
    budget: Budget | None = None,
) -> int:
    """Observe all conversations that have changed since they were observed; return their number.

    Does nothing if another process is indexing. With `on_wait`, waits for it.
    """
    observer = configured_observer(budget)
    if observer is None:
        return 0
    with index_lock(store, on_wait) as acquired:
        if not acquired:
            return 0
        return observe_all(store, observer, progress or ignore_progress, stop or never_stop)


def has_backlog(store: Store) -> bool:
    """Whether there is anything to observe."""
    observer = configured_observer()
    if observer is None:
        return False
    if store.get_marker(_OBSERVER_MARKER) != _checksum(observer.maker):
        return True
    conversations, _ = store.unobserved(1)
    return bool(conversations)


class Observer(NamedTuple):
    maker: str
    """Its name and version. When it changes, everything is observed again."""
    observe: Callable[[Document, Stop], ObserverResult]


def configured_observer(budget: Budget | None = None) -> Observer | None:
    name = OBSERVER.get()
    if name == "off":
        return None
    if name == "rules":
        return Observer(MAKER, observe_by_rules)
    chat = ChatModel.from_settings()
    if chat is None:
        raise InvalidInput(
            "RECOLLECT_OBSERVER is model, but RECOLLECT_MODEL names none (https://host/v1#model)."
        )
    if budget is None:
        budget = FileBudget(home() / OBSERVER_BUDGET)
    model_observer = ModelObserver(chat, chat.model, budget)
    return Observer(model_observer.maker, lambda document, _: model_observer.observe(document))


def observe_by_rules(document: Document, stop: Stop) -> ObserverResult:
    return ObserverResult(tuple(observe(document, stop)))


def observe_all(store: Store, observer: Observer, progress: Progress, should_stop: Stop) -> int:
    reset_if_outdated(store, observer)
    # A conversation that somebody is writing to would be observed again and again: next time.
    handled_ids: set[str] = set()
    unsealed = 0
    while not should_stop():
        changed, backlog = store.unobserved(_BATCH + len(handled_ids))
        batch = [each for each in changed if each[0] not in handled_ids]
        if not batch:
            break
        for conversation, version in batch:
            if should_stop():
                break
            try:
                unsealed += observe_one(store, observer, conversation, version, should_stop)
            except IndexingStopped:
                break
            handled_ids.add(conversation)
            count = len(handled_ids)
            progress("Observing", count, max(count, backlog + count - 1))
            if unsealed >= _MAX_UNSEALED:
                store.refresh(None, should_stop)
                unsealed = 0
    return len(handled_ids)


def reset_if_outdated(store: Store, observer: Observer) -> None:
    checksum = _checksum(observer.maker)
    if store.get_marker(_OBSERVER_MARKER) != checksum:
        store.reset_observations()
        store.set_marker(_OBSERVER_MARKER, checksum)
    # A model may have run out of budget, or its server may have failed: retry once a day.
    today = datetime.now(UTC).date().toordinal()
    if store.get_marker(_RETRY_DAY_MARKER) != today:
        store.reset_observations(incomplete_only=True)
        store.set_marker(_RETRY_DAY_MARKER, today)


def observe_one(
    store: Store, observer: Observer, conversation: str, version: int, should_stop: Stop
) -> int:
    """Observe a conversation, and return the number of observations. Raises IndexingStopped."""
    try:
        document = store.document(conversation)
    except NotFound:
        return 0
    try:
        result = observer.observe(document, should_stop)
    except RecollectError:
        raise
    except Exception:  # one odd conversation must not block the others
        log.exception("Conversation %s could not be observed", truncate(conversation, 80))
        result = ObserverResult((), complete=False)
    if result.note:
        log.warning("Conversation %s: %s", truncate(conversation, 80), result.note)
    excluded_ids = forgotten_ids(document.metadata)
    observations = [each for each in result.observations if each.id not in excluded_ids]
    observation_document = None
    if observations:
        observation_document = as_document(document, observations)
    # Saved for the version that was listed: if the conversation has changed since, it is observed
    # once more.
    store.save_observations(conversation, version, observation_document, complete=result.complete)
    return len(observations)


def _checksum(maker: str) -> int:
    return zlib.crc32(maker.encode()) >> 1  # 31 bits, an integer in every database
