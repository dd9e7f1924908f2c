"""Notes: Markdown and plain text, as single files, in folders or in Obsidian vaults.

Each file is a note, identified by its location. The text is stored as it is. Front matter, #tags
and [[links]] become metadata. Hidden folders are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from recollect.importers.entries import UNREADABLE, Entry, Unreadable
from recollect.importers.items import item_id, with_text
from recollect.importers.knowledge import frontmatter
from recollect.importers.records import (
    Text,
    as_texts,
    contain_errors,
    decode_text,
    failure,
    parse_tags,
    read_text,
    unique,
)
from recollect.language.text import moment
from recollect.model.documents import Document, Json
from recollect.model.kinds import NOTE
from recollect.model.receipts import Problem
from recollect.model.sources import NOTES
from recollect.settings import LIMITS

SOURCE = NOTES
DESCRIPTION = "Notes (Markdown or plain text: a file, a folder, an Obsidian vault)"

_MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
_PLAIN_TEXT = frozenset({".txt", ".text", ".org", ".rst"})
_ON_REQUEST = frozenset({"", ".adoc", ".asciidoc", ".log", ".tex", ".textile", ".wiki"})
"""Suffixes of files that are notes only if the user says so."""

_TITLE = ("title",)
_TAGS = ("tags", "tag", "keywords", "keyword", "filetags")
_ALIASES = ("aliases", "alias")
_CREATED = ("created", "created_at", "date created", "creation_date", "date")
_UPDATED = ("updated", "updated_at", "modified", "date modified", "last_modified", "lastmod")

_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"``[^\n]*?``|`[^`\n]*`")
_TAG = re.compile(r"#(?<![^\s(\[{,;*_\"'“]#)(?<!\]\(#)(?<!\[\[#)(?=[\d_/-]*[^\W\d_])([\w/-]+)")
_LINK = re.compile(r"\[\[([^\[\]\n]{1,500})\]\]")
_HEADING = re.compile(r"\s*#[ \t]+([^\n]*)")
_UNDERLINED_HEADING = re.compile(r"\s*(?:={3,}\n)?[ ]?(\S[^\n]*)\n={3,}[ \t]*(?:\n|\Z)")
_ORG_SETTING = re.compile(
    r"^#\+(title|filetags|date):[ \t]*([^\n]*)$", re.IGNORECASE | re.MULTILINE
)


def claims(entry: Entry) -> bool:
    return _suffix(entry) in _MARKDOWN | _PLAIN_TEXT and not is_hidden(entry)


def accepts(entry: Entry) -> bool:
    if is_hidden(entry) or _suffix(entry) not in _ON_REQUEST:
        return claims(entry)
    try:
        decode_text(entry.head()[:-8])  # the last character may be incomplete
    except (Unreadable, *UNREADABLE):
        return False
    return True


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    try:
        text = read_text(entry, LIMITS.note_bytes)
    except Unreadable as error:
        yield failure(str(error), entry.name)
        return
    parts = frontmatter.split(text.text)
    if parts.problem:
        yield Problem(f"{parts.problem}; it is imported as text", parts.where or entry.name)
    yield note(entry, text, parts.values, parts.body)


def note(entry: Entry, text: Text, values: Mapping[str, Json], body: str) -> Document:
    suffix = _suffix(entry)
    settings = org_settings(body) if suffix == ".org" else {}
    front_matter = _FrontMatterValues({**settings, **values})
    title = front_matter.take_text(_TITLE) or _heading(body, suffix)
    title = title or entry.basename[: len(entry.basename) - len(suffix)]
    tags = front_matter.take_tags(_TAGS)
    aliases = front_matter.take_names(_ALIASES)
    created_at = front_matter.take_time(_CREATED)
    updated_at = front_matter.take_time(_UPDATED) or entry.modified_at
    prose = "" if suffix == ".rst" else without_code(body)
    metadata: dict[str, Json] = {
        "tags": unique([*tags, *_TAG.findall(prose)]),
        "links": unique(link_targets(prose)),
        "aliases": aliases,
        "front_matter": front_matter.remaining,
        "file": entry.basename,
        "encoding": text.encoding,
    }
    document = Document(
        source=SOURCE.name,
        source_id=entry.place,
        title=title,
        kind=NOTE,
        created_at=created_at or updated_at,
        updated_at=updated_at or created_at,
        metadata={key: value for key, value in metadata.items() if value},
        id=item_id(entry),
    )
    return with_text(document, body)


# -- front matter ------------------------------------------------------------


class _FrontMatterValues:
    """The values of front matter, whose keys differ from program to program.

    Values that nothing takes stay in `remaining`.
    """

    def __init__(self, values: dict[str, Json]) -> None:
        self.remaining = values
        self._keys = {key.lower(): key for key in reversed(values)}

    def _take(self, names: Iterable[str]) -> Iterator[Json]:
        for name in names:
            if name in self._keys:
                yield self.remaining.pop(self._keys.pop(name))

    def take_text(self, names: Iterable[str]) -> str:
        for value in self._take(names):
            if isinstance(value, (str, int, float)):
                return str(value).strip()
        return ""

    def take_tags(self, names: Iterable[str]) -> list[str]:
        return unique(tag for value in self._take(names) for tag in parse_tags(value))

    def take_names(self, names: Iterable[str]) -> list[str]:
        parts_of_lists: list[str] = []
        for value in self._take(names):
            parts = value.split(",") if isinstance(value, str) else as_texts(value)
            parts_of_lists += [str(part).strip() for part in parts]
        return unique(name for name in parts_of_lists if name)

    def take_time(self, names: Iterable[str]) -> datetime | None:
        """The first value that is a time. Values that are not remain."""
        for name in names:
            key = self._keys.get(name)
            value = None if key is None else self.remaining.get(key)
            if key is None or not isinstance(value, str):
                continue
            time = moment(value.replace("/", "-"))
            if time is not None:
                del self.remaining[key], self._keys[name]
                return time
        return None


def org_settings(body: str) -> dict[str, Json]:
    """The settings in an Org file, under the names of front matter."""
    settings: dict[str, Json] = {
        match[1].lower(): match[2].strip() for match in _ORG_SETTING.finditer(body)
    }
    if "filetags" in settings:
        settings["filetags"] = settings["filetags"].replace(":", " ")
    if "date" in settings:
        settings["date"] = settings["date"].strip("<>[]")[:10]
    return settings


# -- text --------------------------------------------------------------------


def _heading(body: str, suffix: str) -> str:
    """The heading that a text begins with."""
    heading = _HEADING.match(body) if suffix in _MARKDOWN else None
    if heading:
        return heading[1].rstrip(" \t").rstrip("#").rstrip(" \t")
    underlined = _UNDERLINED_HEADING.match(body) if suffix in {*_MARKDOWN, ".rst"} else None
    return underlined[1] if underlined else ""


def without_code(body: str) -> str:
    lines: list[str] = []
    fence = ""
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark and "`" not in line[mark.end() :]:
            fence = mark[1]
        else:
            lines.append(_CODE.sub(" ", line))
    return "\n".join(lines)


def links(body: str) -> list[str]:
    """The names of the notes that a text links to."""
    return unique(link_targets(without_code(body)))


def link_targets(prose: str) -> Iterator[str]:
    for link in _LINK.findall(prose):
        target = re.split(r"\\?\||#|\^", link, maxsplit=1)[0].strip()
        if target:
            yield target


# -- files -------------------------------------------------------------------


def _suffix(entry: Entry) -> str:
    dot = entry.basename.rfind(".")
    return entry.basename[dot:].lower() if dot > 0 else ""


def is_hidden(entry: Entry) -> bool:
    return any(part.startswith(".") for part in entry.name.replace("\\", "/").split("/"))
