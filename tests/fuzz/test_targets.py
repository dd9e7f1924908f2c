"""A few inputs for every fuzz target: seeds, damaged seeds and arbitrary bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import few
from targets import FUZZED_FORMATS, TARGETS

from recollect.importers.registry import FORMATS

FRAGMENTS = (b"{", b"}", b"[", b'"', b"\\", b"\x00", b"\xff", b"<w:p>", b"---\n", b"null", b"1e999")


@st.composite
def damaged(draw: st.DrawFn, seed: bytes) -> bytes:
    """A seed with a part removed and something else in its place."""
    start = draw(st.integers(0, len(seed)))
    end = draw(st.integers(start, min(len(seed), start + 50)))
    return seed[:start] + draw(st.binary(max_size=8) | st.sampled_from(FRAGMENTS)) + seed[end:]


@pytest.mark.parametrize("name", few(TARGETS, 14))
def test_no_input_raises_anything_but_a_clear_error(name: str) -> None:
    target = TARGETS[name]
    seeds = [path.read_bytes() for path in target.seed_files()]
    for seed in seeds:
        target.run(seed)
    inputs = st.binary(max_size=200)
    if seeds:
        inputs = st.sampled_from(seeds).flatmap(damaged) | inputs

    @settings(max_examples=max(3, settings.default.max_examples // 2))
    @given(inputs)
    def run(data: bytes) -> None:
        target.run(data)

    run()


def test_every_format_is_a_target() -> None:
    assert set(FORMATS) == FUZZED_FORMATS


@pytest.mark.parametrize("query", [b'@@""', b'""'])
def test_inputs_that_failed_once(query: bytes) -> None:
    TARGETS["query"].run(query)
