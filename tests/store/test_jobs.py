"""The queue of jobs: who gets which job, leases, and what survives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recollect.errors import NotFound
from recollect.places import shared_database
from recollect.settings import place as library_place
from recollect.store.shared.database import SharedDatabase
from recollect.store.shared.jobs import DONE, FAILED, QUEUED, RUNNING, TABLES, Job, Jobs
from recollect.store.shared.uploads import CHUNK_BYTES, UploadFolder, UploadTable

pytestmark = pytest.mark.both_stores


@pytest.fixture
def shared(place: str) -> Iterator[SharedDatabase]:
    shared = shared_database(library_place(place))
    yield shared
    shared.execute(TABLES, "delete from job")
    shared.close()


@pytest.fixture
def jobs(shared: SharedDatabase) -> Jobs:
    jobs = Jobs(shared)
    shared.execute(TABLES, "delete from job")
    return jobs


def claim(jobs: Jobs, *kinds: str) -> Job:
    job = jobs.claim(kinds or ("import",))
    assert job is not None
    return job


def expire(shared: SharedDatabase, job: Job) -> None:
    shared.execute(TABLES, "update job set lease_until = 0 where id = ?", (job.id,))


def test_a_job_is_claimed_once_and_its_end_is_recorded(jobs: Jobs) -> None:
    added = jobs.add("import", "ann", {"name": "a.zip"})
    job = claim(jobs)
    assert (job.id, job.state, job.attempts, job.payload) == (
        added.id,
        RUNNING,
        1,
        {"name": "a.zip"},
    )
    assert jobs.claim(["import"]) is None
    assert jobs.renew(job, {"done": 3})
    assert jobs.finish(job, {"receipt": 1}, progress={"done": 4})
    finished = jobs.get(job.id)
    assert finished is not None
    assert (finished.state, finished.result, finished.progress) == (
        DONE,
        {"receipt": 1},
        {"done": 4},
    )
    assert finished.finished_at is not None
    assert not jobs.finish(job, error="again"), "it has ended"


def test_jobs_of_one_user_run_one_after_the_other_and_users_take_turns(jobs: Jobs) -> None:
    first, second = jobs.add("import", "ann"), jobs.add("import", "ann")
    third = jobs.add("import", "bob")
    # In any order: both may have been added in the same millisecond.
    running = {job.id: job for job in (claim(jobs), claim(jobs))}
    assert running.keys() == {first.id, third.id}
    assert jobs.claim(["import"]) is None, "Ann's second job waits for her first"
    assert jobs.finish(running[third.id])
    later = jobs.add("import", "cem")
    assert claim(jobs).id == later.id
    first_run = jobs.get(first.id)
    assert first_run is not None and jobs.finish(first_run)
    assert claim(jobs).id == second.id
    jobs.add("index", "ann")
    assert claim(jobs, "index").user == "ann", "other kinds do not wait"


def test_a_job_of_a_dead_process_is_claimed_again_and_the_old_process_can_change_nothing(
    jobs: Jobs, shared: SharedDatabase
) -> None:
    jobs.add("import", "ann")
    old = claim(jobs)
    expire(shared, old)
    new = claim(jobs)
    assert (new.id, new.attempts) == (old.id, 2)
    assert not jobs.renew(old)
    assert not jobs.put_back(old)
    assert not jobs.finish(old, error="too late")
    assert jobs.renew(new) and jobs.finish(new)


def test_a_job_that_is_put_back_keeps_its_place_and_does_not_count_as_an_attempt(
    jobs: Jobs,
) -> None:
    first = jobs.add("import", "ann", {"name": "a"})
    jobs.add("import", "ann", {"name": "b"})
    job = claim(jobs)
    jobs.put_back(job)
    again = claim(jobs)
    assert (again.id, again.attempts, again.payload) == (first.id, 1, {"name": "a"})
    assert again.created_at == first.created_at
    jobs.put_back(again, delay_seconds=60)
    assert jobs.claim(["import"]) is None, "it is not due, and the next one waits for it"


def test_a_job_for_one_machine_is_run_there_only(jobs: Jobs, shared: SharedDatabase) -> None:
    job = jobs.add("backup", "", host="alpha")
    assert jobs.claim(["backup"], ["", "beta"]) is None
    assert jobs.seconds_until_due(["backup"], ["", "beta"]) is None
    assert jobs.seconds_until_due(["backup"], ["alpha"]) == 0
    shared.execute(TABLES, "update job set due_at = 0")
    jobs.clean_up()
    failed = jobs.get(job.id)
    assert failed is not None
    assert (failed.state, failed.error) == (FAILED, "No server on alpha has run this for a day.")


def test_a_request_to_index_waits_at_most_once(jobs: Jobs) -> None:
    assert jobs.add_once("index", "ann", even_if_running=True)
    assert not jobs.add_once("index", "ann", even_if_running=True)
    running = claim(jobs, "index")
    assert not jobs.add_once("index", "ann")
    assert jobs.add_once("index", "ann", even_if_running=True), "it may not see the last message"
    assert jobs.put_back(running, 60)
    (waiting,) = jobs.list_for("index", "ann")
    assert waiting.state == QUEUED and waiting.id != running.id
    assert claim(jobs, "index").id == waiting.id, "it is due at once"


def test_many_processes_claim_each_job_once(jobs: Jobs) -> None:
    users = [f"user {number}" for number in range(8)]
    for user in users * 3:
        jobs.add("import", user)
    running: dict[str, int] = dict.fromkeys(users, 0)
    claimed: list[str] = []
    lock = threading.Lock()

    def work(_: int) -> None:
        while len(claimed) < 24:
            job = jobs.claim(["import"])
            if job is None:
                continue
            with lock:
                claimed.append(job.id)
                running[job.user] += 1
                assert running[job.user] == 1
            with lock:
                running[job.user] -= 1
            assert jobs.finish(job)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(set(claimed)) == len(claimed) == 24


def test_the_counts_show_what_waits(jobs: Jobs, shared: SharedDatabase) -> None:
    jobs.add("import", "ann")
    jobs.add("import", "ann")
    jobs.finish(claim(jobs), error="broken")
    claim(jobs)
    jobs.add("index", "bob")
    shared.execute(TABLES, f"update job set due_at = {shared.now} - 5000000")
    counts = jobs.counts()
    assert (counts["import"].waiting, counts["import"].running, counts["import"].failed) == (
        0,
        1,
        1,
    )
    assert counts["index"].waiting == 1 and counts["index"].oldest_seconds >= 5


def test_old_jobs_are_forgotten(jobs: Jobs, shared: SharedDatabase) -> None:
    jobs.add("import", "ann")
    job = claim(jobs)
    jobs.finish(job)
    jobs.clean_up()
    assert jobs.get(job.id) is not None
    shared.execute(TABLES, "update job set finished_at = 0")
    jobs.clean_up()
    assert jobs.get(job.id) is None


# -- uploads ---


@pytest.fixture
def uploads(shared: SharedDatabase, tmp_path: Path) -> UploadFolder:
    if shared.engine == "sqlite":
        return UploadFolder(tmp_path / "uploads")
    return UploadTable(shared, tmp_path / "uploads")


def test_an_upload_is_returned_byte_by_byte_until_it_is_removed(uploads: UploadFolder) -> None:
    data = bytes(range(256)) * (CHUNK_BYTES // 100)
    writer = uploads.create("job", "a.bin")
    for start in range(0, len(data), 700_000):
        writer.write(data[start : start + 700_000])
    writer.finish()
    writer.close()
    with uploads.open("job", "a.bin") as folder:
        assert (folder / "a.bin").read_bytes() == data
    uploads.remove("job")
    with pytest.raises(NotFound), uploads.open("job", "a.bin"):
        pass


def test_an_upload_that_was_not_finished_is_removed(uploads: UploadFolder) -> None:
    writer = uploads.create("job", "a.bin")
    writer.write(b"x" * (2 * CHUNK_BYTES))
    writer.close()
    with pytest.raises(NotFound), uploads.open("job", "a.bin"):
        pass
