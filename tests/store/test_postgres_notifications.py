"""Signals of changes with LISTEN and NOTIFY."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

import recollect
from recollect.places import change_signals
from recollect.store.postgres import notifications
from recollect.store.postgres.notifications import (
    CHANNEL,
    ChangeListener,
    topic_of,
)

PATIENCE = 30.0


@pytest.fixture
def listener(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangeListener]:
    monkeypatch.setattr(notifications, "_SLICE_SECONDS", 0.05)
    monkeypatch.setattr(notifications, "_RETRY_SECONDS", 0.05)
    signals = change_signals(database)
    assert isinstance(signals, ChangeListener)
    with closing(signals):
        yield signals


class Subscription:
    """Waits for signals of one user."""

    def __init__(self, listener: ChangeListener, user: str) -> None:
        self._signal = threading.Event()
        self.end = listener.subscribe(user, self._signal.set)

    def wait(self) -> None:
        assert self._signal.wait(PATIENCE)
        self._signal.clear()

    @property
    def is_signalled(self) -> bool:
        return self._signal.is_set()


def test_a_write_of_any_process_is_signalled_to_its_user_only(
    listener: ChangeListener, database: str, user: str
) -> None:
    mine, other = Subscription(listener, user), Subscription(listener, "somebody else")
    mine.wait()  # signals arrive now
    other.wait()
    assert listener.are_live
    with recollect.open(database, user, background=False) as library:
        library.add_conversation("c1", "Trams")
        mine.wait()
    assert not other.is_signalled
    mine.end()
    other.end()


def test_after_a_lost_connection_the_listener_falls_back_and_connects_again(
    listener: ChangeListener, database: str, user: str
) -> None:
    subscription = Subscription(listener, user)
    subscription.wait()
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'recollect changes' and datname = current_database()"
        )
        subscription.wait()  # they cease
        while not listener.are_live:
            subscription.wait()  # they begin again
        db.execute("select pg_notify(%s, %s)", [CHANNEL, topic_of(user)])
    subscription.wait()
    subscription.end()


def test_without_notifications_the_listener_does_not_claim_to_be_live(
    listener: ChangeListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler that gives each transaction another connection."""
    monkeypatch.setattr(notifications, "_PROBE_SECONDS", 0.0)
    monkeypatch.setattr(notifications, "notify", lambda *_: None)
    subscription = Subscription(listener, "ann")
    assert listener._thread is not None
    listener._thread.join(0.3)
    assert not listener.are_live
    assert not subscription.is_signalled
    subscription.end()


def test_the_payload_does_not_contain_the_name(database: str, user: str) -> None:
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(f"listen {CHANNEL}")
        with recollect.open(database, user, background=False) as library:
            library.add_conversation("c1", "Trams")
        payloads = [notice.payload for notice in db.notifies(timeout=PATIENCE, stop_after=1)]
    assert payloads[0] == topic_of(user)
    assert user not in payloads[0]
