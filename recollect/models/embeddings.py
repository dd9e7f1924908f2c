"""The embedding model that RECOLLECT_EMBEDDINGS names, and the vector space that belongs to it.

The setting is `static` (the default model), `off`, the name of a downloaded model, a folder with
an ONNX model, or the address of a server (`https://host/v1#model`).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from recollect import settings
from recollect.configuration import expand_path
from recollect.errors import InvalidInput, RecollectError
from recollect.home_folder import MODELS
from recollect.models.stopping import Stop, never_stop
from recollect.settings import home
from recollect.store.base import Store
from recollect.store.values import Space

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

STATIC = "static"
OFF = "off"
DOWNLOADABLE = ("gte-small",)
"""Models that `recollect model fetch` downloads."""
_SAMPLE_SIZE = 10_000  # messages whose words are counted for the static model
_GROWTH = 4  # words are counted again when the library is this many times larger
_SIZE = struct.Struct("<Q")
_replaced_models: set[tuple[str, str]] = set()
"""The names and versions of models that this process could not load, only other versions."""


class Embedder(Protocol):
    """A model that makes unit vectors from texts.

    Vectors of different versions must not be compared.
    """

    @property
    def version(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def embed(self, texts: Sequence[str], stop: Stop = never_stop) -> NDArray[np.float32]:
        """The vectors of texts, as rows. Raises IndexingStopped if `stop` says so."""

    def embed_query(self, text: str) -> NDArray[np.float32]: ...


def embedding_setting() -> str:
    """The value of RECOLLECT_EMBEDDINGS."""
    return settings.EMBEDDINGS.get()


def model_folder(name: str) -> Path:
    """The folder of a downloaded model."""
    return home() / MODELS / name


def is_remote(name: str) -> bool:
    """Whether the setting names a server."""
    return name.startswith(("http://", "https://"))


def load_model(name: str, state: bytes | None) -> Embedder:
    """The model that the setting names.

    `state` is what the model learned from the library. Raises InvalidInput if there is no such
    model.
    """
    if name == STATIC:
        return load_static(state)
    if is_remote(name):
        from recollect.models.remote import RemoteModel

        address, _, model = name.partition("#")
        return RemoteModel(address, model or "default", key=settings.EMBEDDINGS_KEY.get() or None)
    from recollect.models.onnx import OnnxModel

    return OnnxModel(onnx_folder(name))


def load_static(state: bytes | None) -> Embedder:
    from recollect.models.static import default_table

    table, _ = default_table()
    return static_model(state, table.version)


@lru_cache(maxsize=4)
def static_model(state: bytes | None, table: str) -> Embedder:
    """The model of a library, for the version of a table. Making it takes 12 ms.

    The background indexer needs it after every change.
    """
    from recollect.models.static import Counts, StaticModel

    if not state:
        return StaticModel(None)
    return StaticModel(Counts.from_bytes(state[_SIZE.size :]))


def onnx_folder(name: str) -> Path:
    folder = model_folder(name) if name in DOWNLOADABLE else expand_path(name)
    if folder.is_dir():
        return folder
    if name in DOWNLOADABLE:
        raise InvalidInput(
            f"The model {name} is not downloaded yet. Run `recollect model fetch {name}`."
        )
    raise InvalidInput(
        f"RECOLLECT_EMBEDDINGS is {name!r}, which is neither static, off, "
        f"{', '.join(DOWNLOADABLE)}, a folder with a model, nor an http(s) address."
    )


# -- vector spaces -------------------------------------------------------------


def ensure_space(store: Store, name: str) -> Space:
    """The vector space of the model that the setting names, created if there is none.

    The static model learns from the library. It gets a new space when the library has outgrown
    what it learned.
    """
    if name == STATIC:
        space = ensure_static_space(store)
    else:
        model = load_model(name, None)
        space = store.add_space(name, model.version, model.dimensions, None)
    _replaced_models.discard((space.name, space.version))
    return space


def ensure_static_space(store: Store) -> Space:
    size = store.size()
    spaces = [space for space in store.spaces() if space.name == STATIC]
    if spaces and spaces[-1].model_state and has_current_table(spaces[-1]):
        (learned_size,) = _SIZE.unpack_from(spaces[-1].model_state)  # when its words were counted
        if learned_size * _GROWTH >= size:
            return spaces[-1]
    from recollect.models.static import Counts

    keys = range(1, size + 1, max(1, size // _SAMPLE_SIZE))
    counts = Counts.of(passage.content for _, passage in store.passages_by_key(keys).values())
    state = _SIZE.pack(size) + counts.to_bytes()
    model = load_static(state)
    return store.add_space(STATIC, model.version, model.dimensions, state)


def space_to_search(spaces: list[Space]) -> Space | None:
    """The newest complete space, or else the newest one that has vectors."""
    ready = [space for space in spaces if space.ready]
    started = [space for space in spaces if space.last_key]
    return next(reversed(ready or started), None)


def load_space_model(space: Space) -> Embedder:
    """The model that made the vectors of a space. Raises RecollectError if it was replaced.

    A server does not tell its version. `Meaning` checks the length of its vectors.
    """
    if is_replaced(space) or (space.name == STATIC and not has_current_table(space)):
        raise replaced_error(space)
    model = load_model(space.name, space.model_state)
    if not is_remote(space.name) and model.version != space.version:
        raise replaced_error(space)
    return model


def replaced_error(space: Space) -> RecollectError:
    """The error that the model of a space was replaced. From now on, `is_replaced` says so."""
    _replaced_models.add((space.name, space.version))
    return RecollectError(
        f"{space.name} is no longer the model that made the vectors of this library. Run "
        "`recollect index` to make them again."
    )


def is_replaced(space: Space) -> bool:
    """Whether this process has found out that the model of a space was replaced.

    To find out, the model must be loaded, which takes long. Searches do that anyway.
    """
    return (space.name, space.version) in _replaced_models


def has_current_table(space: Space) -> bool:
    from recollect.models.static import default_table

    return space.version.split("-")[0] == default_table()[0].version
