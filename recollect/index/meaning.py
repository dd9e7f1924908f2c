"""Meaning, for searching: the vector of a question, in the space that the library has."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from recollect.errors import RecollectError
from recollect.models import embeddings as models
from recollect.store.base import Store
from recollect.store.values import Space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Meaning:
    """One library's way to vectors. The model is loaded when it is first needed, and kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._models: dict[int, Any] = {}
        self._lock = threading.Lock()

    def space(self) -> Space | None:
        """The space to search in; None while there are no vectors."""
        return (
            None
            if models.embedding_setting() == models.OFF
            else models.space_to_search(self._store.spaces())
        )

    def vector(self, space: Space, text: str) -> NDArray[np.float32] | None:
        """Raises RecollectError when the model cannot be had; None for a text that means nothing to it."""
        with self._lock:
            if space.id not in self._models:
                self._models = {space.id: models.load_model(space.name, space.model_state)}
            model = self._models[space.id]
        vector: NDArray[np.float32] = model.embed_query(text)
        if len(vector) != space.dimensions:
            raise RecollectError(
                f"{space.name} gives vectors of {len(vector)} numbers now, and the library has {space.dimensions}. "
                "`recollect index` makes them anew."
            )
        return vector if vector.any() else None
