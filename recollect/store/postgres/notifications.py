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
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from recollect.store.shared.changes import ChangeSignals
from recollect.store.shared.database import Tables

log = logging.getLogger(__name__)

CHANNEL = "recollect_change"
_BATCH_SECONDS = 0.02
_IDLE_SECONDS = 2.0
_FLUSH_SECONDS = 2.0
_LONGEST_SILENCE = 20.0
"""After this many seconds without a notification, the listener checks its connection."""
_PROBE_SECONDS = 5.0
_SLICE_SECONDS = 1.0
_RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0)
_CONNECTION_OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 5,
    "application_name": "recollect changes",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


def topic_of(user: str) -> str:
    """The name of a user in notifications."""
    return hashlib.blake2b(user.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def topic_of_tables(tables: Tables) -> str:
    """The name of what servers share in notifications. No digest looks like it."""
    return f"shared {tables.name}"


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

    def close(self) -> None:
        """Send what is left, unless the server does not answer."""
        self._closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(_FLUSH_SECONDS)

    def _send_all(self) -> None:
        """Send until there was nothing to send for a while. Then the thread ends."""
        quiet_since = time.monotonic()
        while True:
            self._closing.wait(_BATCH_SECONDS)
            with self._lock:
                topics, self._topics = self._topics, set()
                is_idle = time.monotonic() - quiet_since > _IDLE_SECONDS
                if not topics and (is_idle or self._closing.is_set()):
                    self._disconnect()
                    self._thread = None
                    return
            if topics:
                quiet_since = time.monotonic()
                self._send(list(topics))

    def _send(self, topics: list[str]) -> None:
        if self._connection is not None:
            try:
                notify(self._connection, topics)
                return
            except psycopg.Error:  # it was lost since it was last used
                self._disconnect()
        try:
            self._connection = psycopg.connect(self._url, **_CONNECTION_OPTIONS)
            notify(self._connection, topics)
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
        self._is_live = False
        self._end_sender: socket.socket | None = None
        """Closing it wakes the thread, so that it ends at once."""

    @property
    def are_live(self) -> bool:
        return self._is_live

    def subscribe(self, user: str, callback: Callable[[], None]) -> Callable[[], None]:
        topic = topic_of(user)
        self._subscribe(topic, callback)

        def unsubscribe() -> None:
            with self._lock:
                callbacks = self._callbacks[topic]
                callbacks.remove(callback)
                if not callbacks:
                    del self._callbacks[topic]

        return unsubscribe

    def subscribe_to_tables(self, tables: Tables, callback: Callable[[], None]) -> None:
        self._subscribe(topic_of_tables(tables), callback)

    def _subscribe(self, topic: str, callback: Callable[[], None]) -> None:
        with self._lock:
            self._callbacks.setdefault(topic, []).append(callback)
            if self._thread is None and not self._closing.is_set():
                self._end_sender, end = socket.socketpair()
                self._thread = threading.Thread(
                    target=self._run, args=[end], name="recollect-listen", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            thread = self._thread
            if self._end_sender is not None:
                self._end_sender.close()
        if thread is not None:
            thread.join(_FLUSH_SECONDS)

    def _run(self, end: socket.socket) -> None:
        with end:
            self._listen_until(end)

    def _listen_until(self, end: socket.socket) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                with psycopg.connect(self._url, **_CONNECTION_OPTIONS) as connection:
                    self._listen(connection, end)
                    failures = 0
            except psycopg.Error as error:
                if self._is_live:
                    log.warning("Live updates fall back to polling: %s", type(error).__name__)
            if self._is_live:
                failures = 0
                self._set_live(False)
            self._closing.wait(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
            failures += 1

    def _listen(self, connection: psycopg.Connection[Any], end: socket.socket) -> None:
        """Pass notifications on until the connection is lost, or until `end` is readable."""
        connection.execute(sql.SQL("listen {}").format(sql.Identifier(CHANNEL)))
        # Behind some connection poolers, notifications never arrive. So try it out first.
        probe = f"probe {secrets.token_hex(8)}"
        with psycopg.connect(self._url, **_CONNECTION_OPTIONS) as other:
            notify(other, [probe])
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(end, selectors.EVENT_READ)
            self._pass_on(connection, probe, selector)

    def _pass_on(
        self, connection: psycopg.Connection[Any], probe: str, selector: selectors.BaseSelector
    ) -> None:
        probe_ends = time.monotonic() + _PROBE_SECONDS
        last_sign = time.monotonic()
        while not self._closing.is_set():
            selector.select(_SLICE_SECONDS)
            for notice in connection.notifies(timeout=0):
                last_sign = time.monotonic()
                if notice.payload == probe:
                    self._set_live(True)
                else:
                    self._signal(notice.payload)
            if not self._is_live and time.monotonic() > probe_ends:
                return
            if time.monotonic() - last_sign > _LONGEST_SILENCE:
                connection.execute("select 1")
                last_sign = time.monotonic()

    def _set_live(self, is_live: bool) -> None:
        self._is_live = is_live
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


def notify(connection: psycopg.Connection[Any], payloads: list[str]) -> None:
    """Send a notification for each payload."""
    connection.execute(
        "select pg_notify(%s, payload) from unnest(%s::text[]) payload", [CHANNEL, payloads]
    )
