"""The store on PostgreSQL."""

from recollect.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
