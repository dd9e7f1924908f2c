"""Names in code are found in other formats if no message has them as typed."""

from __future__ import annotations

import pytest

import recollect
from recollect import SearchOptions

TEXTS = {
    "loop": "RuntimeError: the event loop is closed.",
    "snake": "Call get_user_name before the template is rendered.",
    "camel": "The parseConfigFile function reads the settings.",
    "other": "The event was long, the loop short, and the user got a name.",
}


@pytest.mark.both_stores
def test_a_name_is_found_in_its_other_format(library: recollect.Library) -> None:
    for name, text in TEXTS.items():
        library.add_conversation(name, messages=[{"role": "user", "content": text}])
    library.index()
    first_hits = {
        "EventLoop": "loop",
        "why is the EventLoop closed?": "loop",
        "getUserName": "snake",
        "parse_config_file": "camel",
    }
    for query, first in first_hits.items():
        for mode in ("both", "text"):
            page = library.search(query, options=SearchOptions(mode=mode))
            assert (page.hits[0].conversation_id, page.note) == (first, ""), (query, mode)


def test_a_name_is_found_as_typed_if_a_message_has_it(library: recollect.Library) -> None:
    for text in ("Use EventLoop here.", "Use the event loop here."):
        library.add_conversation(messages=[{"role": "user", "content": text}])
    page = library.search("EventLoop", options=SearchOptions(mode="text"))
    assert [hit.snippet for hit in page.hits] == ["Use EventLoop here."]
