"""Which libraries each server has open, so that their index is completed if the server dies.

A server queues a job to index after it has stored a message. If it dies in between, nobody knows
about the message. So it registers a user's library before it writes to it, and holds a lease. When
the lease of a server expires, the libraries that it had open are indexed.
"""

from __future__ import annotations

from recollect.store.shared.database import SharedDatabase, Tables

_LEASE_SECONDS = 30
RENEWAL_SECONDS = 10.0
_MICROS = 1_000_000

TABLES = Tables(
    "open_library",
    (
        "create table server_lease (server text primary key, lease_until bigint not null)",
        """create table open_library (
          server text not null,
          "user" text not null,
          primary key (server, "user")
        )""",
    ),
)


class OpenLibraries:
    """The open libraries of all servers. Thread-safe."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = database

    def add(self, server: str, user: str) -> None:
        with self._database.transaction(TABLES) as db:
            db.run(
                f"insert into server_lease (server, lease_until) values (?, {db.now} + ?) "
                "on conflict (server) do update set lease_until = excluded.lease_until",
                (server, _LEASE_SECONDS * _MICROS),
            )
            db.run(
                'insert into open_library (server, "user") values (?, ?) on conflict do nothing',
                (server, user),
            )

    def remove(self, server: str, user: str) -> None:
        self._database.execute(
            TABLES, 'delete from open_library where server = ? and "user" = ?', (server, user)
        )

    def renew(self, server: str) -> None:
        self._database.execute(
            TABLES,
            f"update server_lease set lease_until = {self._database.now} + ? where server = ?",
            (_LEASE_SECONDS * _MICROS, server),
        )

    def end(self, server: str) -> None:
        """A server has queued everything, and ends."""
        with self._database.transaction(TABLES) as db:
            db.run("delete from open_library where server = ?", (server,))
            db.run("delete from server_lease where server = ?", (server,))

    def lost_users(self) -> list[tuple[str, str]]:
        """The servers whose lease has expired, each with a user whose library it had open."""
        rows = self._database.execute(
            TABLES,
            f"""select o.server, o."user" from open_library o
              left join server_lease s on s.server = o.server
            where s.server is null or s.lease_until < {self._database.now}""",
        )
        return [(server, user) for server, user in rows]

    def forget_expired(self) -> None:
        """Remove the servers that have no open libraries and no lease."""
        self._database.execute(
            TABLES,
            f"""delete from server_lease where lease_until < {self._database.now}
              and not exists (select 1 from open_library o where o.server = server_lease.server)""",
        )
