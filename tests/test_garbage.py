"""Importing and indexing look for garbage less often, also if they overlap."""

from __future__ import annotations

import gc

from recollect.garbage import rare_garbage_collection


def test_the_usual_thresholds_return_after_the_last_use() -> None:
    usual = gc.get_threshold()
    first, second = rare_garbage_collection(), rare_garbage_collection()
    with first:
        second.__enter__()
        rare = gc.get_threshold()
        assert rare[0] > usual[0]
    assert gc.get_threshold() == rare
    second.__exit__(None, None, None)
    assert gc.get_threshold() == usual
