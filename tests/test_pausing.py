"""Pausing and resuming the background indexer, in every interface."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_index import background, count_embedded, fill, wait_until_idle

import recollect
from recollect.index import background as background_module
from recollect.index.background import Job, index_job, pausable
from recollect.models.stopping import Stop

__all__ = ["background"]

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_paused_library_is_not_indexed_until_it_is_resumed(
    background: Callable[[], recollect.Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "RETRY", 0.01)
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")
    library = background()
    library.pause_indexing()
    fill(library)
    job = pausable(library._store, index_job(library._store))
    assert not job.run(lambda: False), "a paused job runs again later"
    status = library.index_status()
    assert (status.passages, status.embedded, status.has_work) == (40, 0, True)
    assert status.paused_since is not None
    assert library.search("dog").total, "words are found at once"
    library.pause_indexing(False)
    wait_until_idle(library)
    status = library.index_status()
    assert (status.embedded, status.share, status.has_work) == (40, 1.0, False)
    assert status.paused_since is None
    assert count_embedded(library) == 40


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_another_process_can_pause_a_job_that_is_running(
    library: recollect.Library, place: str
) -> None:
    steps: list[int] = []

    def work(stop: Stop) -> bool:
        while not stop():
            steps.append(len(steps))
            if len(steps) == 3:
                with recollect.open(place) as other:
                    other.pause_indexing()
        return True

    now = iter(range(1_000))
    job = pausable(library._store, Job("Working", work), clock=lambda: float(next(now)))
    assert not job.run(lambda: False)
    assert len(steps) == 3
    library.pause_indexing(False)
    assert pausable(library._store, Job("Working", lambda stop: True)).run(lambda: False)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_deleted_text_is_purged_while_indexing_is_paused(
    background: Callable[[], recollect.Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "RETRY", 0.01)
    library = background()
    fill(library, 4)
    library.pause_indexing()
    library.delete_conversation("c0")
    library.close()
    library = background()
    assert not library.purge_status().reason
    assert library.index_status().paused_since is not None, "the pause survives a restart"


def test_the_command_line_pauses_and_resumes(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("import", str(EXAMPLES / "chatgpt"), "--no-index")
    assert "is paused" in run("index", "--pause")
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    again = run("import", str(EXAMPLES / "claude"))
    assert "paused" in again and "complete" not in again
    assert "--resume" in run()
    result = json.loads(run("index", "--json"))
    assert result["paused"] and result["embedded"], "an explicit command indexes anyway"
    assert json.loads(run("index", "--resume", "--json")) == {"paused": False}
    assert "paused" not in run("index")
