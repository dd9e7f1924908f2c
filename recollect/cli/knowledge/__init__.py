"""`recollect knowledge`: find, read and change notes, media, characters and prompts."""

from __future__ import annotations

import argparse

from recollect.cli.common import define_group
from recollect.cli.knowledge import (
    knowledge_editing,
    knowledge_listing,
    knowledge_reading,
    knowledge_search,
)

_EXAMPLES = """\
  recollect knowledge search 'how to prune roses'      conversations and all other kinds in one list
  recollect knowledge list notes --tag garden
  recollect knowledge read notes NOTE
  recollect knowledge add notes 'Roses' --text 'Prune them in late winter.' --tag garden
  recollect knowledge edit notes NOTE --file roses.md
  recollect knowledge export characters NAME --format png --output card.png
  recollect knowledge transcript MEDIA --format srt
  recollect knowledge delete notes NOTE --keep note.json

To import files, use `recollect import`. Every action has its own --help.
"""


def define_knowledge(group: argparse.ArgumentParser) -> None:
    actions = define_group(group, _EXAMPLES)
    knowledge_search.add_search(actions)
    knowledge_listing.add_list(actions)
    knowledge_reading.add_read(actions)
    knowledge_reading.add_transcript(actions)
    knowledge_listing.add_types(actions)
    knowledge_editing.register(actions)
