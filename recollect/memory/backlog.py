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
from recollect.index.refresh import OnWait, index_lock
from recollect.language.text import truncate
from recollect.memory.observe import MAKER, as_document, forgotten_ids, observe
from recollect.memory.observe.model import ModelObserver, ObserverResult
from recollect.model.documents import Document
from recollect.models.openai_client import ChatModel
from recollect.models.stopping import Stop, never_stop
from recollect.progress import Progress, ignore_progress
from recollect.settings import LIMITS, OBSERVER
from recollect.store.base import Store

log = logging.getLogger(__name__)

_BATCH = 100
# Each observation that is in no volume makes searches slower: 5,000 of them by half.
_MAX_UNSEALED = 5_000
_OBSERVER_MARKER = "observer"
_RETRY_DAY_MARKER = "observer_tried"
_SPENT_DAY_MARKER, _SPENT_MARKER = "observer_day", "observer_spent"


class Observer(NamedTuple):
    maker: str
    """Its name and version. When it changes, everything is observed again."""
    observe: Callable[[Document, Stop], ObserverResult]


def configured_observer(store: Store) -> Observer | None:
    name = OBSERVER.get()
    if name == "off":
        return None
    if name == "rules":
        return Observer(MAKER, lambda document, stop: ObserverResult(observe(document, stop)))
    chat = ChatModel.from_settings()
    if chat is None:
        raise InvalidInput(
            "RECOLLECT_OBSERVER is model, but RECOLLECT_MODEL names none (https://host/v1#model)."
        )
    by_model = ModelObserver(chat, chat.model, lambda characters: spend(store, characters))
    return Observer(by_model.maker, lambda document, _: by_model.observe(document))


def spend(store: Store, characters: int) -> bool:
    """Reserve characters of what may be sent to a model today. False if there are not so many.

    Only the program that holds the index lock calls this.
    """
    day = today()
    spent = store.get_marker(_SPENT_MARKER) if store.get_marker(_SPENT_DAY_MARKER) == day else 0
    total = (spent or 0) + characters
    if total > LIMITS.observer_characters_each_day:
        return False
    store.set_marker(_SPENT_DAY_MARKER, day)
    store.set_marker(_SPENT_MARKER, total)
    return True


def today() -> int:
    return datetime.now(UTC).date().toordinal()


def has_backlog(store: Store) -> bool:
    """Whether there is anything to observe."""
    observer = configured_observer(store)
    if observer is None:
        return False
    if store.get_marker(_OBSERVER_MARKER) != _checksum(observer.maker):
        return True
    conversations, _ = store.unobserved(1)
    return bool(conversations)


def catch_up(
    store: Store,
    progress: Progress = ignore_progress,
    stop: Stop = never_stop,
    on_wait: OnWait | None = None,
) -> int:
    """Observe all conversations that have changed since they were observed; return their number.

    Does nothing if another process is indexing. With `on_wait`, waits for it.
    """
    observer = configured_observer(store)
    if observer is None:
        return 0
    # A conversation that somebody is writing to would be observed again and again: next time.
    handled_ids: set[str] = set()
    unsealed = 0
    with index_lock(store, on_wait) as acquired:
        if not acquired:
            return 0
        reset_if_outdated(store, observer)
        while not stop():
            changed, backlog = store.unobserved(_BATCH + len(handled_ids))
            batch = [each for each in changed if each[0] not in handled_ids]
            if not batch:
                break
            for conversation, version in batch:
                if stop():
                    break
                try:
                    unsealed += observe_one(store, observer, conversation, version, stop)
                except IndexingStopped:
                    break
                handled_ids.add(conversation)
                count = len(handled_ids)
                progress("Observing", count, max(count, backlog + count - 1))
                if unsealed >= _MAX_UNSEALED:
                    store.refresh(None, stop)
                    unsealed = 0
    return len(handled_ids)


def reset_if_outdated(store: Store, observer: Observer) -> None:
    checksum = _checksum(observer.maker)
    if store.get_marker(_OBSERVER_MARKER) != checksum:
        store.reset_observations()
        store.set_marker(_OBSERVER_MARKER, checksum)
    # A model may have run out of budget, or its server may have failed: retry once a day.
    if store.get_marker(_RETRY_DAY_MARKER) != today():
        store.reset_observations(incomplete_only=True)
        store.set_marker(_RETRY_DAY_MARKER, today())


def observe_one(
    store: Store, observer: Observer, conversation: str, version: int, stop: Stop
) -> int:
    """Observe a conversation, and return the number of observations. Raises IndexingStopped."""
    try:
        document = store.document(conversation)
    except NotFound:
        return 0
    try:
        result = observer.observe(document, stop)
    except RecollectError:
        raise
    except Exception:  # one odd conversation must not block the others
        log.exception("Conversation %s could not be observed", truncate(conversation, 80))
        result = ObserverResult((), complete=False)
    if result.note:
        log.warning("Conversation %s: %s", truncate(conversation, 80), result.note)
    excluded_ids = forgotten_ids(document.metadata)
    observations = [each for each in result.observations if each.id not in excluded_ids]
    # Saved for the version that was listed: if the conversation has changed since, it is observed
    # once more.
    stored = as_document(document, observations) if observations else None
    store.save_observations(conversation, version, stored, complete=result.complete)
    return len(observations)


def _checksum(maker: str) -> int:
    return zlib.crc32(maker.encode()) >> 1  # 31 bits, an integer in every database
