"""One table describes every source, and all interfaces use it."""

from __future__ import annotations

import re

import pytest

from recollect.importers.registry import FORMATS
from recollect.model.sources import (
    SOURCES,
    Source,
)


def test_the_source_of_every_format_is_in_the_table() -> None:
    for format_ in FORMATS:
        assert SOURCES[format_.SOURCE.name] is format_.SOURCE
        assert format_.SOURCE.label


@pytest.mark.parametrize(
    "source",
    [source for source in SOURCES.values() if source.assistant],
    ids=[source.name for source in SOURCES.values() if source.assistant],
)
def test_a_source_of_conversations_has_all_that_the_interfaces_show(source: Source) -> None:
    assert re.fullmatch(r"#[0-9a-f]{6}", source.colour)
    link = source.open_url or source.resume_command
    assert link.count("{}") == bool(link)
    assert bool(source.resume_command) == bool(source.transcripts)
