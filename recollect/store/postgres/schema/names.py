"""The names and sizes in the schema on PostgreSQL."""

from __future__ import annotations

SCHEMA = "recollect"
APP = "recollect_app"
"""The role of our connections. It sees the rows of the owner that the transaction names."""
SEARCH = "recollect_search"
"""The role that owns the search functions."""
PARTITIONS = 16
LENGTH_BITS = 23
"""For the length of a passage in `search_words`."""
MAX_NEW_PASSAGES = 300
"""After more, all matches of a word are read again."""
TOKENS = 64
"""Commit tokens stored for each user."""
APPEND_ONLY = frozenset({"audit"})
"""Tables whose rows the application may neither change nor delete."""
