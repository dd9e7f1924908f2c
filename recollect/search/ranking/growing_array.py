"""An array to which values are appended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_FIRST_SPACE = 1 << 10


class GrowingArray:
    """An array with space for more values."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._size = 0
        self.space: NDArray[Any] = np.zeros(_FIRST_SPACE, dtype)
        """The values, and zeros after them."""

    def __len__(self) -> int:
        return self._size

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        size = self._size + len(values)
        if size > len(self.space):
            space = np.zeros(2 * size, self.space.dtype)
            space[: self._size] = self.values
            self.space = space
        self.space[self._size : size] = values
        self._size = size

    @property
    def values(self) -> NDArray[Any]:
        return self.space[: self._size]
