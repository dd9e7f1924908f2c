"""Notifications of changes, with LISTEN and NOTIFY.

A process notifies the others after its commits, at most every few milliseconds, from a thread.
NOTIFY inside the transaction would need no thread, but PostgreSQL commits such transactions one
after another, flushes to disk included. If the process dies in between, the others notice the
change when they next read the version of the library.

The payload is a digest of the user's name and nothing else: everybody in the database may listen.
For what the servers share, such as jobs, it is the name of the concept.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from recollect.store.postgres.schema import connection_options
from recollect.store.shared.changes import ChangeSignals
from recollect.store.shared.database import Tables

log = logging.getLogger(__name__)

CHANNEL = "recollect_change"
_BATCH_SECONDS = 0.02
_CLOSE_SECONDS = 2.0
_SLICE_SECONDS = 0.5
"""How often the listener looks whether it was closed."""
_LONGEST_SILENCE = 20.0
"""After this many seconds without a notification, the listener checks its connection."""
_PROBE_SECONDS = 5.0
_RETRY_SECONDS = 5.0


def topic_of(user: str) -> str:
    """The name of a user in notifications."""
    return hashlib.blake2b(user.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def topic_of_tables(tables: Tables) -> str:
    """The name of what servers share in notifications. No digest looks like it."""
    return f"shared {tables.name}"


def notify(connection: psycopg.Connection[Any], payloads: list[str]) -> None:
    """Send a notification for each payload."""
    connection.execute(
        "select pg_notify(%s, payload) from unnest(%s::text[]) payload", [CHANNEL, payloads]
    )


class ChangeSender:
    """Notifies others of what this process has committed. Thread-safe.

    It uses a connection of its own, so that libraries need not wait for one.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None
        self._topics: set[str] = set()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._closing = threading.Event()

    def announce(self, user: str) -> None:
        """Tell others soon that a library has changed."""
        with self._lock:
            self._topics.add(topic_of(user))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._send_all, name="recollect-notify", daemon=True
                )
                self._thread.start()
        self._woken.set()

    def close(self) -> None:
        """Send what is left, unless the server does not answer."""
        self._closing.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _send_all(self) -> None:
        while not self._closing.is_set():
            self._woken.wait()
            self._closing.wait(_BATCH_SECONDS)
            self._woken.clear()
            with self._lock:
                topics, self._topics = list(self._topics), set()
            if topics:
                self._send(topics)
        self._disconnect()

    def _send(self, topics: list[str]) -> None:
        for _ in range(2):  # the connection may have been lost since it was last used
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(self._url, **connection_options("changes"))
                notify(self._connection, topics)
                return
            except psycopg.Error as error:
                # The others read the versions of libraries from time to time.
                log.info("A change was not announced: %s", type(error).__name__)
                self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ChangeListener(ChangeSignals):
    """Receives the notifications, with one connection for all users. Thread-safe.

    It connects when somebody subscribes. If the connection is lost, subscribers are told, and it
    connects again.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._callbacks: dict[str, list[Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def subscribe(self, user: str, callback: Callable[[], None]) -> Callable[[], None]:
        return self._subscribe(topic_of(user), callback)

    def subscribe_to_tables(self, tables: Tables, callback: Callable[[], None]) -> None:
        self._subscribe(topic_of_tables(tables), callback)

    def _subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            self._callbacks.setdefault(topic, []).append(callback)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="recollect-listen", daemon=True
                )
                self._thread.start()

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks[topic].remove(callback)
                if not self._callbacks[topic]:
                    del self._callbacks[topic]

        return unsubscribe

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with psycopg.connect(self._url, **connection_options("changes")) as connection:
                    self._listen(connection)
            except psycopg.Error as error:
                if self.are_live:
                    log.warning("Live updates fall back to polling: %s", type(error).__name__)
            if self.are_live:
                self._set_live(False)
                continue
            self._closing.wait(_RETRY_SECONDS)

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        """Pass notifications on until the connection is lost, or this is closed."""
        connection.execute(f"listen {CHANNEL}")
        # Behind some connection poolers, notifications never arrive. So try it out first.
        probe = f"probe {secrets.token_hex(8)}"
        with psycopg.connect(self._url, **connection_options("changes")) as other:
            notify(other, [probe])
        started = last_sign = time.monotonic()
        while not self._closing.is_set():
            for notice in connection.notifies(timeout=_SLICE_SECONDS, stop_after=1):
                last_sign = time.monotonic()
                if notice.payload == probe:
                    self._set_live(True)
                else:
                    self._signal(notice.payload)
            now = time.monotonic()
            if not self.are_live and now > started + _PROBE_SECONDS:
                return
            if now > last_sign + _LONGEST_SILENCE:
                connection.execute("select 1")
                last_sign = now

    def _set_live(self, are_live: bool) -> None:
        self.are_live = are_live
        with self._lock:
            topics = list(self._callbacks)
        for topic in topics:
            self._signal(topic)

    def _signal(self, topic: str) -> None:
        with self._lock:
            callbacks = list(self._callbacks.get(topic, ()))
        for callback in callbacks:
            with suppress(RuntimeError):  # its event loop is closed
                callback()
