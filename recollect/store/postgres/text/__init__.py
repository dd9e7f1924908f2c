"""The full-text index of a library on PostgreSQL, and the queries that use it."""

from recollect.store.postgres.text.best_matches import best
from recollect.store.postgres.text.counts import Counts, count, frequencies, size
from recollect.store.postgres.text.index_writer import VERSION, IndexWriter
from recollect.store.postgres.text.listing import (
    candidates,
    find_substring,
    newest,
    previous_passages,
    recent,
    sample,
    scores,
)
from recollect.store.postgres.text.term_lookups import lookups, receive_terms
from recollect.store.postgres.text.vocabulary import (
    Vocabulary,
    known_words,
    similar_words,
    variants,
    words_containing,
)

__all__ = [
    "VERSION",
    "Counts",
    "IndexWriter",
    "Vocabulary",
    "best",
    "candidates",
    "count",
    "find_substring",
    "frequencies",
    "known_words",
    "lookups",
    "newest",
    "previous_passages",
    "receive_terms",
    "recent",
    "sample",
    "scores",
    "similar_words",
    "size",
    "variants",
    "words_containing",
]
