"""The full-text index of a library on PostgreSQL, and the queries that use it."""

from recollect.store.postgres.text.best_matches import best
from recollect.store.postgres.text.counts import count, frequencies, size
from recollect.store.postgres.text.index_writer import VERSION, IndexWriter
from recollect.store.postgres.text.listing import (
    candidates,
    candidates_by_id,
    find_substring,
    newest,
    previous_passages,
    recent,
    sample,
    scores,
)
from recollect.store.postgres.text.vocabulary import (
    Vocabulary,
    known_words,
    variants,
    words_containing,
)

__all__ = [
    "VERSION",
    "IndexWriter",
    "Vocabulary",
    "best",
    "candidates",
    "candidates_by_id",
    "count",
    "find_substring",
    "frequencies",
    "known_words",
    "newest",
    "previous_passages",
    "recent",
    "sample",
    "scores",
    "size",
    "variants",
    "words_containing",
]
