"""Words of the library that belong to the same family as a word of the query.

A question about "replicas" is answered by a message about "replication". Names have no family:
"Baker" does not bake.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from recollect.language.languages import Language
from recollect.language.words.derivation import possible_relatives
from recollect.store.base import Store


@lru_cache(1_000)
def word_family(word: str, language: Language) -> frozenset[str]:
    """The words that may belong to the family of a word, without stop words."""
    return frozenset(possible_relatives(word, language) - language.stop_words)


def relatives_in_library(
    words: Sequence[str], store: Store, language: Language
) -> dict[str, tuple[str, ...]]:
    """The words of each family that the library contains, for each word that has any."""
    families = {word: word_family(word, language) for word in words}
    candidates = frozenset().union(*families.values())
    if not candidates:
        return {}
    library_words = store.known_words(sorted(candidates))
    relatives = {word: tuple(sorted(family & library_words)) for word, family in families.items()}
    return {word: family for word, family in relatives.items() if family}
