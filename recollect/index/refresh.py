"""Indexing: seal new messages, then embed them, in small steps that are committed one by one.

It can be interrupted and resumed at any point. Searches and writes continue meanwhile, with what
is indexed so far.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from typing import Any

from recollect.errors import IndexingStopped, RecollectError
from recollect.language.symbols import without_terminal_codes
from recollect.models import embeddings
from recollect.models.stopping import Stop, never_stop, require_running
from recollect.progress import Progress, ignore_progress
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Findings, Space, Unembedded
from recollect.store.values import Progress as StoreProgress

_BATCH_PASSAGES = 1_000
# Indexing can be stopped between two calls of the model. After each, the vectors are committed.
_TEXTS_AT_ONCE = 1_000
_TEXTS_OF_SLOW_MODELS = 250
_BATCHES_PER_COPY = 10  # then vectors are moved into files; more would leave more free pages

OnWait = Callable[[], None]
"""Called once if the lock is not free, before waiting for it."""

# Seconds between two attempts. Waiting on the database server would block the locks of other users.
_POLL_INTERVAL = 0.2


@contextmanager
def index_lock(store: Store, on_wait: OnWait | None = None) -> Iterator[bool]:
    """Hold the lock for the block, and yield whether it is held.

    If the lock is not free, wait for it if `on_wait` is given; otherwise yield False.
    """
    has_waited = False
    while True:
        with store.indexing_lock() as is_held:
            if is_held or on_wait is None:
                yield is_held
                return
        if not has_waited:
            on_wait()
        has_waited = True
        time.sleep(_POLL_INTERVAL)


def refresh(
    store: Store,
    setting: str,
    progress: Progress | None = None,
    stop: Stop = never_stop,
    on_wait: OnWait | None = None,
) -> bool:
    """Seal and embed everything new, with the model that the setting names.

    If another process is indexing, waits for it if `on_wait` is given; otherwise returns False.
    """
    with index_lock(store, on_wait) as is_held:
        if is_held:
            with suppress(IndexingStopped):
                _refresh(store, setting, progress or ignore_progress, stop)
        return is_held


def has_work(store: Store, setting: str) -> bool:
    """Whether there is anything to seal or to embed."""
    if store.needs_refresh():
        return True
    if setting == embeddings.OFF or not store.size():
        return False
    spaces = [space for space in store.spaces() if space.name == setting]
    if not spaces or not spaces[-1].ready or embeddings.is_replaced(spaces[-1]):
        return True
    _, unembedded = store.unembedded(spaces[-1], 1)
    return unembedded > 0 or needs_calibration(store, spaces[-1])


def skip_deleted(store: Store, setting: str) -> None:
    """Mark a space as complete if the newest passages were deleted before they were embedded.

    Otherwise searches would say that vectors are missing until the next message is saved.
    """
    for space in store.spaces():
        if space.name == setting and space.ready and space.last_key < store.size():
            store.update_space(space, ready=True)


def missing_vectors(store: Store) -> Iterator[tuple[Space, list[int]]]:
    """The keys of passages that should have a vector but have none and are not queued for one."""
    for space in store.spaces():
        batch, _ = store.unembedded(space, _BATCH_PASSAGES, after=0)
        while batch:
            keys = embeddable(space, batch)
            if keys:
                yield space, keys
            batch, _ = store.unembedded(space, _BATCH_PASSAGES, after=batch[-1].key)


def verify(store: Store) -> Findings:
    """Compare the indexes with the messages. Changes nothing."""
    findings = store.verify()
    if not findings.damaged:
        findings.never_embedded = sum(len(keys) for _, keys in missing_vectors(store))
    return findings


def repair(store: Store, progress: StoreProgress | None) -> None:
    """Rebuild the text index, and queue every message for embedding that has no vector."""
    store.repair(progress)
    for space, keys in missing_vectors(store):
        store.update_space(space, queue=keys)


def _refresh(store: Store, setting: str, progress: Progress, stop: Stop) -> None:
    store.refresh(lambda done, total: progress("Sealing", done, total), stop)
    if setting == embeddings.OFF or stop() or not store.size():
        return
    space = embeddings.ensure_space(store, setting)
    if embed(store, space, progress, stop):
        store.update_space(space, ready=True)
        for other in store.spaces():
            if other.id != space.id:
                store.drop_space(other)
    store.refresh(None, stop)
    if not stop() and needs_calibration(store, space):
        calibrate(store, space, stop)


def embeddable(space: Space, passages: Sequence[Unembedded]) -> list[int]:
    """The keys of passages for which the model makes a vector.

    A server is not asked: it makes a vector for every text that is not blank.
    """
    if not embeddings.is_remote(space.name):
        try:
            model = embeddings.load_model(space.name, space.model_state)
            vectors = _vectors(model, {passage: _texts(passage) for passage in passages})
            return [passage.key for passage, rows in vectors.items() if rows]
        except RecollectError:
            pass  # the model is no longer available
    return [p.key for p in passages if f"{p.title}{p.author or ''}{p.content}".strip()]


def embed(store: Store, space: Space, progress: Progress, stop: Stop) -> bool:
    """Embed what is queued. Returns False if it was stopped before the queue was empty."""
    model: embeddings.Embedder | None = None
    total = 0
    batches = 0
    is_fast = space.name == embeddings.STATIC
    while True:
        batch, remaining = store.unembedded(space, _BATCH_PASSAGES)
        if not batch:
            return True
        if model is None:
            model = embeddings.load_model(space.name, space.model_state)
        total = max(total, remaining)
        count = total - remaining
        for texts in groups(batch, _TEXTS_AT_ONCE if is_fast else _TEXTS_OF_SLOW_MODELS):
            if stop():
                return False
            store.add_vectors(space, _vectors(model, texts, stop))
            count += len(texts)
            progress("Embedding", count, total)
        batches += 1
        if batches % _BATCHES_PER_COPY == 0:
            store.refresh(None, stop)


def groups(passages: Sequence[Unembedded], size: int) -> Iterator[dict[Unembedded, list[str]]]:
    """Passages with their texts to embed, at most `size` texts at a time, or one passage."""
    group: dict[Unembedded, list[str]] = {}
    count = 0
    for passage in passages:
        texts = _texts(passage)
        if group and count + len(texts) > size:
            yield group
            group = {}
            count = 0
        group[passage] = texts
        count += len(texts)
    if group:
        yield group


def _vectors(
    model: embeddings.Embedder, texts: Mapping[Unembedded, list[str]], stop: Stop = never_stop
) -> dict[Unembedded, list[object]]:
    """The vectors of each passage: one per text that has a word the model knows."""
    rows = model.embed([text for parts in texts.values() for text in parts], stop)
    has_words: Any = rows.any(axis=1)
    pairs = zip(rows, has_words.tolist(), strict=True)
    return {
        passage: [row for row, is_known in islice(pairs, len(parts)) if is_known]
        for passage, parts in texts.items()
    }


def _texts(passage: Unembedded) -> list[str]:
    """The parts of a passage to embed, each with its author. The first part has the title."""
    content = passage.content
    if passage.title:
        content = f"{passage.title}\n{content}"
    parts = split_text(without_terminal_codes(content))
    if passage.author:
        parts = [f"{passage.author}: {part}" for part in parts]
    return parts


# -- parts of a text that one vector can represent ---

WORDS = 120
_SHORT = 2 * WORDS  # characters; a text of more words is longer
CHARACTERS = 1_000  # limits scripts without spaces, and very long words
_WORD = re.compile(r"\s*\S{1,1000}\s*")
# The first group is where the words begin, the second one is the last word.
_UP_TO_120_WORDS = re.compile(r"\s*()(\S{1,1000}\s*){1,120}")


def split_text(text: str) -> list[str]:
    """Split a text into at most `embedded_parts` parts of at most 120 words or 1,000 characters."""
    if len(text) <= _SHORT or (len(text) <= CHARACTERS and len(text.split(None, WORDS)) <= WORDS):
        return [text]  # the most frequent case
    return list(islice(parts(text), LIMITS.embedded_parts)) or [""]


def parts(text: str) -> Iterator[str]:
    start, end = 0, end_of_part(text, 0)
    while end > start:
        yield text[start:end]
        start, end = end, end_of_part(text, end)


def end_of_part(text: str, start: int) -> int:
    """The end of the part that begins at `start`; `start` itself if there are no more words."""
    window = text[start : start + CHARACTERS + 1]
    first_words = window.split(None, WORDS)
    if len(first_words) > WORDS:  # the last one is the rest; this is faster than the pattern
        return start + len(window) - len(first_words[-1])
    if first_words and len(window) <= CHARACTERS:  # the rest of the text
        return len(text)
    words = _UP_TO_120_WORDS.match(text, start, start + CHARACTERS + 1)
    if words and words.end() <= start + CHARACTERS:
        return words.end()
    if words and words.start(2) > words.start(1):  # all but the last word fit
        return words.start(2)
    word = _WORD.match(text, start)  # a long word, or much white space around it
    if word is None:
        return start
    return word.end()


# -- the noise floor ---

# The noise floor of a vector space: how similar unrelated words are to something in the library.
# A model gives every word a vector, and in a large library some message is near any vector. Words
# that the library does not contain show how near that is by chance. A message without any word of
# the query counts as a hit only if it is nearer than that.

_PROBES = 512  # the floor of 128 differs by .03 from one choice of words to another
_SMALL_LIBRARY = 1_000  # passages
_FEW_PROBES = 128  # of a small library, which should be indexed at once
_PROBES_AT_ONCE = 128  # it can be stopped in between
_CANDIDATES = 8_192  # a large library contains most of them
_CANDIDATES_AT_ONCE = 1_024  # a small library contains few of them
_PERCENTILE = 0.98
_GROWTH = 1.5  # the floor rises with the size of the library, so it is measured again


def needs_calibration(store: Store, space: Space) -> bool:
    """Whether the noise floor is unknown, or was measured when the library was much smaller."""
    return space.noise_floor is None or store.size() > _GROWTH * space.calibrated_size


def calibrate(store: Store, space: Space, stop: Stop) -> None:
    """Measure the noise floor of a space and store it. Raises IndexingStopped."""
    model = embeddings.load_model(space.name, space.model_state)
    vectors = [vector for vector in model.embed(_probes(store, space), stop) if vector.any()]
    cosines: list[float] = []
    for start in range(0, len(vectors), _PROBES_AT_ONCE):
        require_running(stop)
        cosines += store.highest_cosines(space, vectors[start : start + _PROBES_AT_ONCE])
    cosines.sort()
    floor = cosines[int(_PERCENTILE * (len(cosines) - 1))] if cosines else 0.0
    store.update_space(space, noise_floor=float(floor), size=store.size())


def _probes(store: Store, space: Space) -> list[str]:
    """Words that the model knows and the library does not contain."""
    count = _FEW_PROBES if store.size() < _SMALL_LIBRARY else _PROBES
    probes: list[str] = []
    candidates = iter(_candidates(space.name))
    while len(probes) < count and (words := list(islice(candidates, _CANDIDATES_AT_ONCE))):
        library_words = store.known_words(words)
        probes += [word for word in words if word not in library_words]
    return probes[:count]


@lru_cache(maxsize=4)
def _candidates(space: str) -> list[str]:
    """Words to choose the probes from.

    The same words for every library and every version, because the floor depends on the choice.
    """
    # It imports numpy, which `recollect stats` does not need.
    from recollect.models.static import common_words

    words = common_words()
    return random.Random(space).sample(words, min(_CANDIDATES, len(words)))  # noqa: S311
