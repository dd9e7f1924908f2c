"""Which model makes the vectors: the setting, and the models that it can name."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from recollect import settings
from recollect.errors import InvalidInput
from recollect.settings import home
from recollect.store.base import Store
from recollect.store.values import Space

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

STATIC = "static"
OFF = "off"
_SAMPLE = 10_000  # messages that are counted
_GREW = 4  # how many times larger a library must be for its words to be counted again


class Embedder(Protocol):
    """A model: texts in, unit vectors out. Vectors of two versions are never compared."""

    @property
    def version(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...
    def embed_query(self, text: str) -> NDArray[np.float32]: ...


def embedding_setting() -> str:
    """What RECOLLECT_EMBEDDINGS says."""
    return settings.EMBEDDINGS.get()


def model_folder(name: str) -> Path:
    """Where a model that was fetched lies."""
    return home() / "models" / name


def is_remote(name: str) -> bool:
    """Whether the setting names a server."""
    return name.startswith(("http://", "https://"))


def load_model(name: str, state: bytes | None) -> Embedder:
    """The model that the setting names. `state` is what it learned from the library."""
    if name == STATIC:
        from recollect.models.static import Counts, StaticModel

        return StaticModel(Counts.from_bytes(state[8:]) if state else None)
    if is_remote(name):
        from recollect.models.remote import RemoteModel

        address, _, model = name.partition("#")
        return RemoteModel(address, model or "default", key=settings.EMBEDDINGS_KEY.get() or None)
    from recollect.models.onnx import OnnxModel

    folder = model_folder(name) if name in DOWNLOADABLE else Path(name).expanduser()
    if not folder.is_dir():
        if name in DOWNLOADABLE:
            raise InvalidInput(
                f"The model {name} is not here yet. `recollect model fetch {name}` downloads it."
            )
        raise InvalidInput(
            f"RECOLLECT_EMBEDDINGS is {name!r}: that is neither static, off, {', '.join(DOWNLOADABLE)}, a folder with a "
            "model, nor an http(s) address."
        )
    return OnnxModel(folder)


DOWNLOADABLE = ("gte-small",)


def ensure_space(store: Store, name: str) -> Space:
    """The space of the model that the setting names, made where there is none; for a model that
    learns, made anew when the library has outgrown what it learned."""
    if name != STATIC:
        model = load_model(name, None)
        return store.add_space(name, model.version, model.dimensions, None)
    size = store.size()
    mine = [s for s in store.spaces() if s.name == STATIC]
    if mine and _learned_from(mine[-1]) * _GREW >= size and _same_table(mine[-1]):
        return mine[-1]
    from recollect.models.static import Counts, StaticModel

    counts = Counts.of(store.sample(_SAMPLE))
    model = StaticModel(counts)
    return store.add_space(
        STATIC, model.version, model.dimensions, struct.pack("<Q", size) + counts.to_bytes()
    )


def _learned_from(space: Space) -> int:
    """How large the library was when its words were counted."""
    return int(struct.unpack_from("<Q", space.model_state)[0]) if space.model_state else 0


def _same_table(space: Space) -> bool:
    from recollect.models.static import default_table

    return space.version.split("-")[0] == default_table()[0].version


def space_to_search(spaces: list[Space]) -> Space | None:
    """The space to search in: the newest that is complete, or else the newest that is begun."""
    ready: list[Any] = [s for s in spaces if s.ready]
    begun = [s for s in spaces if s.last_key]
    return (ready or begun or [None])[-1]
