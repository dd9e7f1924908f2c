"""Sealed volumes: Tantivy indexes of ranges of passages, for fast ranking.

FTS5 indexes everything and is exact, but takes a microsecond or more to rank a match. Tantivy takes
a few nanoseconds, but commits slowly. So ranges of passages that no longer grow are also written to
volumes. A volume is a folder that never changes. If one of its passages is deleted, the volume is
dropped and written again. Volumes are a cache: the data is in SQLite, and any volume can be
deleted.

A volume finds exactly the passages that FTS5 finds, because its words come from FTS5's tokenizer.
It refuses queries that it cannot answer like FTS5. Hidden passages, such as system prompts, have
their own index beside that of the visible ones, so that leaving them out costs nothing.
"""
