"""Bringing what is derived up to date: sealing, then embedding, in small steps that are kept.

It may be killed and begun again at any point, and runs beside searches and
writes: those go on with what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from recollect.errors import RecollectError
from recollect.index.chunks import split_text
from recollect.index.lock import OnWait, index_lock
from recollect.models import embeddings as models
from recollect.store.base import Store
from recollect.store.values import Space, Unembedded

Progress = Callable[[str, int, int], None]
"""Called with (what is done, how much is done, how much there is)."""

_BATCH = 1_000
_TEXTS = 250  # given to a model at once; between two of those it can be stopped
_COPY_EVERY = 50  # batches


def refresh(
    store: Store,
    setting: str,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    on_wait: OnWait | None = None,
) -> bool:
    """Seal and embed everything that waits.

    Returns False, with nothing done, if another process is indexing. With `on_wait`, waits for it.
    """
    with index_lock(store, on_wait) as alone:
        if alone:
            _refresh(store, setting, progress or (lambda *_: None), stop or (lambda: False))
        return alone


def _refresh(store: Store, setting: str, report: Progress, stopped: Callable[[], bool]) -> None:
    store.refresh(lambda done, total: report("Sealing", done, total), stopped)
    if setting == models.OFF or stopped() or not store.size():
        return
    space = models.ensure_space(store, setting)
    if _embed(store, space, report, stopped):
        store.mark_space_ready(space)
        for other in store.spaces():
            if other.id != space.id:
                store.drop_space(other)
    store.refresh(None, stopped)


def has_work(store: Store, setting: str) -> bool:
    """Whether there is anything to seal or to embed."""
    if store.needs_refresh():
        return True
    if setting == models.OFF or not store.size():
        return False
    mine = [s for s in store.spaces() if s.name == setting]
    return not mine or not mine[-1].ready or store.unembedded(mine[-1], 1)[1] > 0


def missing_vectors(store: Store) -> Iterator[tuple[Space, list[int]]]:
    """The keys of passages that have no vector, are not queued for one, and should have one."""
    for space in store.spaces():
        batch = store.vectorless(space, 0, _BATCH)
        while batch:
            keys = _embeddable(space, batch)
            if keys:
                yield space, keys
            batch = store.vectorless(space, batch[-1].key, _BATCH)


def _embeddable(space: Space, passages: list[Unembedded]) -> list[int]:
    """The keys of passages for which the model makes a vector.

    A server is not asked: it makes one for every text that is not blank.
    """
    if not models.is_remote(space.name):
        try:
            vectors = _vectors(models.load_model(space.name, space.model_state), passages)
            return [passage.key for passage in passages if vectors[passage]]
        except RecollectError:
            pass  # the model is not here any more
    return [p.key for p in passages if f"{p.title}{p.author or ''}{p.content}".strip()]


def _embed(store: Store, space: Space, report: Progress, stopped: Callable[[], bool]) -> bool:
    """True once nothing waits."""
    model = None
    total = 0
    batches = 0
    while True:
        batch, left = store.unembedded(space, _BATCH)
        if not batch:
            return True
        model = model or models.load_model(space.name, space.model_state)
        total = max(total, left)
        for start in range(0, len(batch), _TEXTS):
            if stopped():
                return False
            some = batch[start : start + _TEXTS]
            store.add_vectors(space, _vectors(model, some))
            report("Embedding", total - left + start + len(some), total)
        batches += 1
        if batches % _COPY_EVERY == 0:
            store.refresh(None, stopped)


def _vectors(model: models.Embedder, passages: list[Unembedded]) -> dict[Unembedded, list[object]]:
    texts: list[str] = []
    owners: list[Unembedded] = []
    for passage in passages:
        for part in split_text(
            f"{passage.title}\n{passage.content}" if passage.title else passage.content
        ):
            texts.append(f"{passage.author}: {part}" if passage.author else part)
            owners.append(passage)
    vectors: dict[Unembedded, list[object]] = {passage: [] for passage in passages}
    for owner, vector in zip(owners, model.embed(texts), strict=True):
        if vector.any():
            vectors[owner].append(vector)
    return vectors
