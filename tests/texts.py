"""Conversations of one message each."""

from __future__ import annotations

from collections.abc import Mapping

import recollect


def add_texts(library: recollect.Library, texts: Mapping[str, str]) -> recollect.Library:
    """Add a conversation with a message of the user for each text, under its name."""
    for name, text in texts.items():
        library.add_conversation(name, messages=[{"role": "user", "content": text}])
    return library
