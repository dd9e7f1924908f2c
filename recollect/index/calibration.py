"""The noise floor of a vector space: how similar unrelated words are to something in the library.

A model gives every word a vector, and in a large library some message is near any vector. Words
that the library does not contain show how near that is by chance. A message without any word of
the query counts as a hit only if it is nearer than that.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import islice

from recollect.models.embeddings import Embedder
from recollect.models.stopping import Stop, never_stop, require_running
from recollect.store.base import Store
from recollect.store.values import Space

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


def calibrate(store: Store, space: Space, model: Embedder, stop: Stop = never_stop) -> None:
    """Measure the noise floor of a space and store it. Raises IndexingStopped."""
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
