"""Jobs: work that any server or worker of an installation can do.

A job is a row. Whoever claims it holds a lease and renews it while the job runs. If the process
dies, the lease expires, and another process claims the job. Each claim has a token of its own, so a
process that has lost its lease can no longer change anything. Jobs of one user and kind run one
after the other, so a slow file delays only its owner, and users take turns.

This is our own SQL because the queue must work the same in SQLite homes. The libraries for it
(Procrastinate, PgQueuer, Celery) need PostgreSQL or another server, and know no order per user. It
is one statement to claim a job, with `for update skip locked` in PostgreSQL.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from recollect.language.text import from_micros, micros
from recollect.store.shared.database import SharedDatabase, Tables, Transaction

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"

LEASE_SECONDS = 15.0
"""How long a job waits after its process died. Leases are renewed three times as often."""
_KEPT_SECONDS = 7 * 86_400
"""Finished jobs can be asked for this long."""
_ABANDONED_SECONDS = 86_400
"""A job that only one machine can run fails if that machine does not run it for so long."""
_MICROS = 1_000_000
_COLUMNS = (
    'id, kind, "user", host, state, payload, progress, attempts, token, result, error, '
    "created_at, finished_at"
)

TABLES = Tables(
    "job",
    (
        """create table job (
          id text primary key,
          kind text not null,
          "user" text not null,
          host text not null,
          state text not null,
          payload text not null,
          progress text not null,
          attempts bigint not null,
          token text not null,
          lease_until bigint not null,
          due_at bigint not null,
          created_at bigint not null,
          started_at bigint,
          finished_at bigint,
          result text,
          error text not null,
          once bigint not null
        )""",
        'create index job_of on job (kind, "user", host, created_at)',
        "create index job_state on job (state, kind, due_at)",
        """create unique index job_once on job (kind, "user", host)
          where once = 1 and state = 'queued'""",
    ),
)

# A running job whose lease has expired is claimed like a waiting one. Of one user's jobs only the
# first can be claimed, and the row lock lets only one process have it.
_CLAIM = """
update job set state = 'running', token = ?, attempts = attempts + 1,
  lease_until = {now} + ?, started_at = {now}
where id = (
  select j.id from job j
  where j.kind in ({kinds}) and j.host in ({hosts})
    and (j.state = 'queued' and j.due_at <= {now}
      or j.state = 'running' and j.lease_until < {now})
    and not exists (
      select 1 from job o
      where o.kind = j.kind and o."user" = j."user" and o.host = j.host and o.id <> j.id
        and (o.state = 'running' or o.state = 'queued' and
          (o.created_at < j.created_at or o.created_at = j.created_at and o.id < j.id)))
  order by (
      select coalesce(max(s.started_at), 0) from job s
      where s.kind = j.kind and s."user" = j."user" and s.host = j.host),
    j.created_at, j.id
  limit 1 {skip_locked})
returning {columns}
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was when it was read. The id cannot be guessed."""

    id: str
    kind: str
    user: str
    host: str = ""
    """The machine that must run it; empty if any can."""
    state: str = QUEUED
    payload: Mapping[str, Any] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    """How many runs were begun, without those that were stopped by a shutdown."""
    token: str = ""
    """Proves that a process holds the lease."""
    result: Any = None
    error: str = ""
    created_at: datetime | None = None
    """None until it is stored."""
    finished_at: datetime | None = None

    @property
    def is_finished(self) -> bool:
        return self.state in (DONE, FAILED)


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The jobs of one kind."""

    waiting: int = 0
    running: int = 0
    failed: int = 0
    """In the last seven days."""
    oldest_seconds: float = 0.0
    """How long the oldest waiting job has been due."""


class Jobs:
    """The queue. Thread-safe."""

    def __init__(self, database: SharedDatabase, lease_seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self.lease_seconds = lease_seconds
        self._listeners: list[Callable[[], None]] = []

    def listen(self, on_added: Callable[[], None]) -> None:
        """Call a function whenever this process has added a job.

        Other processes are signalled: see `ChangeSignals.subscribe_to_tables`.
        """
        self._listeners.append(on_added)

    # -- adding ---

    def add(
        self,
        kind: str,
        user: str,
        payload: Mapping[str, Any] | None = None,
        *,
        id: str = "",
        host: str = "",
    ) -> Job:
        """Queue a job."""
        job = Job(id or new_id(), kind, user, host, payload=payload or {})
        with self._database.transaction(TABLES) as db:
            insert(db, job, is_single=False)
            rows = db.rows(f"select {_COLUMNS} from job where id = ?", (job.id,))
        self._notify()
        return decode(rows[0])

    def add_once(
        self,
        kind: str,
        user: str,
        *,
        host: str = "",
        even_if_running: bool = False,
        delay_seconds: float = 0.0,
    ) -> bool:
        """Queue a job, unless one waits, and forget the last one that has ended.

        Returns whether it was queued. `even_if_running` is for work that a running job may no
        longer see.
        """
        states = [QUEUED] if even_if_running else [QUEUED, RUNNING]
        delay = int(delay_seconds * _MICROS)
        with self._database.transaction(TABLES) as db:
            members, value = db.in_list(states)
            waiting = db.get(
                'select id from job where kind = ? and "user" = ? and host = ? '
                f"and state in ({members}) limit 1",
                (kind, user, host, value),
            )
            if waiting is not None:
                db.run(
                    f"update job set due_at = {db.now} + ? "
                    f"where id = ? and state = 'queued' and due_at > {db.now} + ?",
                    (delay, waiting, delay),
                )
                return False
            db.run(
                'delete from job where kind = ? and "user" = ? and host = ? and once = 1 '
                "and state in ('done', 'failed')",
                (kind, user, host),
            )
            job = Job(new_id(), kind, user, host)
            insert(db, job, is_single=True, delay_seconds=delay_seconds)
        self._notify()
        return True

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
        self._database.announce(TABLES)

    # -- lookup ---

    def get(self, id: str) -> Job | None:
        rows = self._database.execute(TABLES, f"select {_COLUMNS} from job where id = ?", (id,))
        return decode(rows[0]) if rows else None

    def list_for(self, kind: str, user: str, limit: int = 100) -> list[Job]:
        """A user's jobs of a kind, newest first."""
        rows = self._database.execute(
            TABLES,
            f'select {_COLUMNS} from job where kind = ? and "user" = ? '
            "order by created_at desc, id limit ?",
            (kind, user, limit),
        )
        return [decode(row) for row in rows]

    def unfinished(self, kind: str, user: str) -> int:
        """How many jobs of a kind wait or run for a user."""
        ((count,),) = self._database.execute(
            TABLES,
            'select count(*) from job where kind = ? and "user" = ? '
            "and state in ('queued', 'running')",
            (kind, user),
        )
        return int(count)

    def unfinished_ids(self, kind: str) -> set[str]:
        rows = self._database.execute(
            TABLES, "select id from job where kind = ? and state in ('queued', 'running')", (kind,)
        )
        return {id_ for (id_,) in rows}

    def counts(self) -> dict[str, JobCounts]:
        """How many jobs of each kind wait, run, and have failed."""
        rows = self._database.execute(
            TABLES,
            f"""select kind,
              sum(case when state = 'queued' then 1 else 0 end),
              sum(case when state = 'running' then 1 else 0 end),
              sum(case when state = 'failed' then 1 else 0 end),
              max(case when state = 'queued' then {self._database.now} - due_at else 0 end)
            from job group by kind""",
        )
        return {
            kind: JobCounts(
                int(waiting), int(running), int(failed), max(0.0, int(oldest) / _MICROS)
            )
            for kind, waiting, running, failed, oldest in rows
        }

    # -- running ---

    def seconds_until_due(self, kinds: Sequence[str], hosts: Sequence[str] = ("",)) -> float | None:
        """How long until `claim` may find a job, if none is added; None if none waits or runs."""
        members = ", ".join("?" * len(kinds))
        host_members = ", ".join("?" * len(hosts))
        ((micros_left,),) = self._database.execute(
            TABLES,
            f"""select min(case when state = 'queued' then due_at else lease_until end)
              - {self._database.now}
            from job where kind in ({members}) and host in ({host_members})
              and state in ('queued', 'running')""",
            (*kinds, *hosts),
        )
        return None if micros_left is None else max(0.0, int(micros_left) / _MICROS)

    def claim(self, kinds: Sequence[str], hosts: Sequence[str] = ("",)) -> Job | None:
        """Take the next job of these kinds that one of the hosts may run; None if none is due."""
        with self._database.transaction(TABLES) as db:
            kind_members, kind_values = db.in_list(list(kinds))
            host_members, host_values = db.in_list(list(hosts))
            statement = _CLAIM.format(
                now=db.now,
                kinds=kind_members,
                hosts=host_members,
                skip_locked=db.skip_locked,
                columns=_COLUMNS,
            )
            rows = db.rows(statement, (new_id(), self._lease, kind_values, host_values))
        return decode(rows[0]) if rows else None

    def renew(self, job: Job, progress: Mapping[str, Any] | None = None) -> bool:
        """Keep a lease, and store the progress. False if another process has claimed the job."""
        assignments = f"lease_until = {self._database.now} + ?, progress = ?"
        return self._update(job, assignments, (self._lease, json.dumps(progress or job.progress)))

    def put_back(self, job: Job, delay_seconds: float = 0.0) -> bool:
        """Return a job to the queue, without counting the attempt.

        If a job that exists only once waits already, that one is enough.
        """
        with self._database.transaction(TABLES) as db:
            rows = db.rows(
                "delete from job where id = ? and token = ? and state = 'running' returning once",
                (job.id, job.token),
            )
            if rows:
                waiting = replace(job, attempts=job.attempts - 1)
                insert(db, waiting, bool(rows[0][0]), delay_seconds)
        if rows:
            self._notify()
        return bool(rows)

    def finish(
        self,
        job: Job,
        result: Any = None,
        error: str = "",
        progress: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record how a job ended: it failed if there is an error. False if the lease was lost."""
        state = FAILED if error else DONE
        return self._update(
            job,
            f"state = ?, result = ?, error = ?, progress = ?, finished_at = {self._database.now}",
            (state, json.dumps(result), error, json.dumps(progress or job.progress)),
        )

    def remove(self, job: Job) -> bool:
        """Delete a job that has ended and that nobody will ask for."""
        rows = self._database.execute(
            TABLES,
            "delete from job where id = ? and token = ? and state = 'running' returning id",
            (job.id, job.token),
        )
        return bool(rows)

    def _update(self, job: Job, assignments: str, values: Sequence[Any]) -> bool:
        rows = self._database.execute(
            TABLES,
            f"update job set {assignments} "
            "where id = ? and token = ? and state = 'running' returning id",
            (*values, job.id, job.token),
        )
        return bool(rows)

    @property
    def _lease(self) -> int:
        return int(self.lease_seconds * _MICROS)

    # -- care ---

    def clean_up(self) -> None:
        """Delete old finished jobs. Fail those whose machine does not run them."""
        with self._database.transaction(TABLES) as db:
            db.run(
                f"delete from job where state in ('done', 'failed') and finished_at < {db.now} - ?",
                (_KEPT_SECONDS * _MICROS,),
            )
            db.run(
                f"""update job set state = 'failed', finished_at = {db.now},
                  error = 'No server on ' || host || ' has run this for a day.'
                where host <> '' and state = 'queued' and due_at < {db.now} - ?""",
                (_ABANDONED_SECONDS * _MICROS,),
            )


def new_id() -> str:
    return secrets.token_urlsafe(18)


def insert(db: Transaction, job: Job, is_single: bool, delay_seconds: float = 0.0) -> None:
    created_at = micros(job.created_at)
    if created_at is None:
        # Now, or later than the user's last job: the clock of SQLite counts milliseconds.
        ((now, last),) = db.rows(
            f'select {db.now}, (select max(created_at) from job where kind = ? and "user" = ?)',
            (job.kind, job.user),
        )
        created_at = max(int(now), int(last or 0) + 1)
    db.run(
        f"""insert into job (id, kind, "user", host, state, payload, progress, attempts, token,
          lease_until, due_at, created_at, error, once)
        values (?, ?, ?, ?, 'queued', ?, ?, ?, '', 0, {db.now} + ?, ?, '', ?)
        on conflict do nothing""",
        (
            *(job.id, job.kind, job.user, job.host),
            *(json.dumps(job.payload), json.dumps(job.progress), job.attempts),
            *(int(delay_seconds * _MICROS), created_at, int(is_single)),
        ),
    )


def decode(row: tuple[Any, ...]) -> Job:
    id_, kind, user, host, state, payload, progress, attempts, token, result, error, *times = row
    return Job(
        *(id_, kind, user, host, state),
        json.loads(payload),
        json.loads(progress),
        attempts,
        token,
        json.loads(result or "null"),
        error,
        *map(from_micros, times),
    )
