"""Search by meaning: the vector of a query in the vector space of a library."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from recollect.models import embeddings
from recollect.store.base import Store
from recollect.store.values import Space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Meaning:
    """Embeds queries for one library. The model is loaded on first use and kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._models: dict[int, embeddings.Embedder] = {}
        self._lock = threading.Lock()

    def space(self) -> Space | None:
        """The vector space to search; None if there are no vectors or they are turned off."""
        if embeddings.embedding_setting() == embeddings.OFF:
            return None
        return embeddings.space_to_search(self._store.spaces())

    def knows(self, word: str) -> bool:
        """Whether a model knows this word as a whole.

        Models split words they do not know into fragments, whose vectors mean nothing. All models
        are judged by the vocabulary of the built-in one, which has 30,000 English word pieces.
        """
        from recollect.models.static import is_word

        return is_word(word)

    def vector(self, space: Space, text: str) -> NDArray[np.float32] | None:
        """The vector of a query; None if the model knows none of its words.

        Raises RecollectError if the model is not available or was replaced.
        """
        with self._lock:
            if space.id not in self._models:
                self._models = {space.id: embeddings.load_space_model(space)}
            model = self._models[space.id]
        vector = model.embed_query(text)
        if len(vector) != space.dimensions:
            raise embeddings.replaced_error(space)
        if not vector.any():
            return None
        return vector
