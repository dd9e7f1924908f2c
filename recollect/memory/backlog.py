"""Observing what is new: conversations in, observations kept beside them, in small steps that may be broken off.

Observations are derived, like vectors: a conversation that changes is observed
again, and so is every one when the observer changes.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.index.lock import OnWait, index_lock
from recollect.language.text import truncate
from recollect.memory.observe import MAKER, as_document, observe
from recollect.memory.observe.model import Budget, Made, ModelObserver
from recollect.model.documents import Document
from recollect.models.chat import ChatModel
from recollect.settings import OBSERVER, home
from recollect.store.base import Store

Progress = Callable[[str, int, int], None]
"""Called with (what is done, how much is done, how much there is)."""

log = logging.getLogger(__name__)

_BATCH = 100
_OBSERVER, _TRIED = "observer", "observer_tried"


def catch_up(
    store: Store,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    on_wait: OnWait | None = None,
) -> int:
    """Observe every conversation that has changed since it was observed, and return how many there were.

    Does nothing if another process is indexing. With `on_wait`, waits for it.
    """
    if (observer := _configured()) is None:
        return 0
    with index_lock(store, on_wait) as alone:
        if not alone:
            return 0
        return _observe(store, observer, progress or (lambda *_: None), stop or (lambda: False))


def waiting(store: Store) -> bool:
    """Whether there is anything to observe."""
    observer = _configured()
    if observer is None:
        return False
    return store.get_marker(_OBSERVER) != _number(observer.maker) or bool(store.unobserved(1)[0])


class Observer(NamedTuple):
    maker: str
    """What it is called, and its version: others would observe otherwise."""
    observe: Callable[[Document], Made]


def _configured() -> Observer | None:
    observer = OBSERVER.get()
    if observer == "off":
        return None
    if observer == "rules":
        return Observer(MAKER, lambda document: Made(tuple(observe(document))))
    chat = ChatModel.from_settings()
    if chat is None:
        raise InvalidInput(
            "RECOLLECT_OBSERVER is model, but RECOLLECT_MODEL names none (https://host/v1#model)."
        )
    by_model = ModelObserver(chat, chat.model, Budget(home() / "observer.json"))
    return Observer(by_model.maker, by_model.observe)


def _observe(
    store: Store, observer: Observer, report: Progress, stopped: Callable[[], bool]
) -> int:
    if store.get_marker(_OBSERVER) != _number(observer.maker):
        store.reset_observations()
        store.set_marker(_OBSERVER, _number(observer.maker))
    today = datetime.now(UTC).date().toordinal()
    if (
        store.get_marker(_TRIED) != today
    ):  # what a model could not do, because of its budget or its server, it may do now
        store.reset_observations(incomplete_only=True)
        store.set_marker(_TRIED, today)
    done = 0
    while not stopped():
        some, left = store.unobserved(_BATCH)
        if not some:
            break
        for conversation, version in some:
            if stopped():
                break
            _observe_one(store, observer, conversation, version)
            done += 1
            report("Observing", done, max(done, left + done - 1))
    return done


def _observe_one(store: Store, observer: Observer, conversation: str, version: int) -> None:
    try:
        document = store.document(conversation)
    except NotFound:
        return
    try:
        made = observer.observe(document)
    except RecollectError:
        raise
    except Exception:  # a conversation like no other must not keep the rest from being observed
        log.exception("Conversation %s could not be observed", truncate(conversation, 80))
        made = Made((), complete=False)
    if made.note:
        log.warning("Conversation %s: %s", truncate(conversation, 80), made.note)
    forgotten = document.metadata.get("forgotten")
    left_out = set(forgotten) if isinstance(forgotten, list) else set()
    kept = [observation for observation in made.observations if observation.id not in left_out]
    # Of the version that was listed: if it has changed since, it is observed once more.
    store.save_observations(
        conversation, version, as_document(document, kept) if kept else None, complete=made.complete
    )


def _number(maker: str) -> int:
    return zlib.crc32(maker.encode()) >> 1  # what every database takes for an integer
