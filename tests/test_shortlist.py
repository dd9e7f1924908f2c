"""Which matches of a question are ranked."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect.model.search import SearchOptions
from recollect.search.candidates.shortlist import shortlist

KEYS = st.lists(st.integers(1, 5_000), max_size=300, unique=True)


@given(st.lists(KEYS, max_size=3), st.integers(1, 400), st.integers(0, 50), st.booleans())
def test_a_shortlist_has_the_first_of_each_arm_and_no_more_than_its_size(
    arms: list[list[int]], size: int, first: int, is_large: bool
) -> None:
    keys = shortlist(arms, size, first, is_large_library=is_large)
    all_keys = {key for arm in arms for key in arm}
    first_keys = {key for arm in arms for key in arm[:first]}
    assert len(keys) == min(size, len(all_keys))
    assert keys <= all_keys
    if len(first_keys) <= size:
        assert first_keys <= keys


@pytest.mark.parametrize("is_large", [False, True])
def test_a_match_near_other_matches_comes_before_a_lonely_one_of_the_same_rank(
    is_large: bool,
) -> None:
    lonely, near = 1_000, 2_000
    others = [2_002, 2_004]
    by_words = [*others, lonely, 3_000]
    by_meaning = [4_000, 5_000, near]
    keys = shortlist([by_words, by_meaning], 5, 0, is_large_library=is_large)
    assert near in keys
    assert lonely not in keys


@pytest.mark.parametrize("is_large", [False, True])
def test_in_a_large_library_a_match_near_others_comes_before_one_of_a_better_rank(
    is_large: bool,
) -> None:
    lonely, near = 1_000, 2_000
    by_words = [2_002, 2_004, lonely, *range(3_000, 6_000, 100), near]
    keys = shortlist([by_words], 3, 0, is_large_library=is_large)
    assert (near in keys, lonely in keys) == (is_large, not is_large)


def test_every_match_is_a_hit_on_some_page_although_only_some_are_ranked(tmp_path: Path) -> None:
    with recollect.open(tmp_path, background=False) as library:
        for number in range(30):
            texts = [f"My dentist has the number {number * 12 + place}." for place in range(12)]
            messages = [{"role": "user", "content": text} for text in texts]
            library.add_conversation(f"conversation {number}", messages=messages)
        library.index()
        ids: list[str] = []
        for offset in range(0, 400, 100):
            options = SearchOptions(limit=100, offset=offset)
            page = library.search("Which dentist did I go to?", options=options)
            ids += [hit.message_id for hit in page.hits]
    assert len(ids) == len(set(ids)) == page.total == 360
