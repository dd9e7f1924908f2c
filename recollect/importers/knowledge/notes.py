"""Notes: Markdown and plain text, alone, in folders, in Obsidian vaults.

A file is a note, known by where it lies. Its text is kept as it is; front matter,
#tags and [[links]] are read for what they say of it. Templates are notes like
others; what lies in hidden folders is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from recollect.importers.entries import Entry
from recollect.importers.items import with_text
from recollect.importers.jsonstream import UNREADABLE
from recollect.importers.knowledge import frontmatter
from recollect.importers.texts import Text, Unreadable, decoded, read_text
from recollect.language.text import fold, moment
from recollect.model.documents import Document, Json
from recollect.model.kinds import NOTE
from recollect.model.receipts import Problem
from recollect.model.sources import NOTES
from recollect.settings import LIMITS

SOURCE = NOTES
DESCRIPTION = "Notes (Markdown or plain text: a file, a folder, an Obsidian vault)"

_MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
_PLAIN = frozenset({".txt", ".text", ".org", ".rst"})
_ALSO = frozenset({"", ".adoc", ".asciidoc", ".log", ".tex", ".textile", ".wiki"})
"""What is a note if somebody says so."""

_TITLE = ("title",)
_TAGS = ("tags", "tag", "keywords", "keyword", "filetags")
_ALIASES = ("aliases", "alias")
_CREATED = ("created", "created_at", "date created", "creation_date", "date")
_UPDATED = ("updated", "updated_at", "modified", "date modified", "last_modified", "lastmod")

_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"``[^\n]*?``|`[^`\n]*`")
_TAG = re.compile(r"#(?<![^\s(\[{,;*_\"'“]#)(?<!\]\(#)(?<!\[\[#)(?=[\d_/-]*[^\W\d_])([\w/-]+)")
_LINK = re.compile(r"\[\[([^\[\]\n]{1,500})\]\]")
_H1 = re.compile(r"\s*#[ \t]+([^\n]*?)[ \t]*#*[ \t]*(?:\n|\Z)")
_UNDERLINED = re.compile(r"\s*(?:={3,}\n)?[ ]?(\S[^\n]*)\n={3,}[ \t]*(?:\n|\Z)")
_ORG = re.compile(r"^#\+(title|filetags|date):[ \t]*([^\n]*)$", re.IGNORECASE | re.MULTILINE)


def claims(entry: Entry) -> bool:
    return _ending(entry) in _MARKDOWN | _PLAIN and not _hidden(entry)


def accepts(entry: Entry) -> bool:
    """Any text of a kind that people write in."""
    if _hidden(entry) or _ending(entry) not in _ALSO:
        return claims(entry)
    try:
        decoded(entry.head()[:-8])  # a character may be cut at the end
    except (Unreadable, *UNREADABLE):
        return False
    return True


def read(entry: Entry) -> Iterator[Document | Problem]:
    try:
        text = read_text(entry, LIMITS.note_bytes)
    except Unreadable as error:
        yield Problem(str(error), entry.name, failed=True, unit="conversations")
        return
    said = frontmatter.split(text.text)
    if said.problem:
        yield Problem(f"{said.problem}; it is kept as text", said.where or entry.name)
    yield note(entry, text, said.values, said.body)


def note(entry: Entry, text: Text, values: Mapping[str, Json], body: str) -> Document:
    """The note that a file is, of which `values` is said and whose text is `body`."""
    ending = _ending(entry)
    about = _Said({**_said_by_org(body), **values} if ending == ".org" else dict(values))
    title = about.text(_TITLE) or _heading(body, ending) or _stem(entry)
    tags, aliases = about.words(_TAGS), about.names(_ALIASES)
    created_at, updated_at = about.time(_CREATED), about.time(_UPDATED) or entry.written
    prose = _prose(body) if ending != ".rst" else ""
    metadata: dict[str, Json] = {
        "tags": distinct([*tags, *_TAG.findall(prose)]),
        "links": distinct(_targets(prose)),
        "aliases": aliases,
        "front_matter": about.left,
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
        id=readable_name(entry),
    )
    return with_text(document, body)


def readable_name(entry: Entry) -> str:
    """The name of a file without its ending, and the folders in which it lies."""
    name = entry.name.replace("\\", "/").replace(".zip/", "/")
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.removesuffix(_suffix(last))}"


def words(value: Json) -> list[str]:
    """Tags as a list, or as a text with commas or spaces between them; with # or without."""
    if isinstance(value, str):
        value = value.split(",") if "," in value else value.split()
    found = (str(word).strip().lstrip("#").strip() for word in _listed(value))
    return distinct(word for word in found if word)


def distinct(values: Iterable[str]) -> list[str]:
    """Each of them once, as it was first written."""
    found: dict[str, str] = {}
    for value in values:
        found.setdefault(fold(value), value)
    return list(found.values())


# -- what a note says of itself ---


class _Said:
    """The values of front matter, by names that programs give them; what nobody asks for is left."""

    def __init__(self, values: dict[str, Json]) -> None:
        self.left = values
        self._names = {name.lower(): name for name in reversed(values)}

    def _take(self, names: Iterable[str]) -> Iterator[Json]:
        for name in names:
            if name in self._names:
                yield self.left.pop(self._names.pop(name))

    def text(self, names: Iterable[str]) -> str:
        return next(
            (
                str(value).strip()
                for value in self._take(names)
                if isinstance(value, (str, int, float))
            ),
            "",
        )

    def words(self, names: Iterable[str]) -> list[str]:
        return distinct(word for value in self._take(names) for word in words(value))

    def names(self, names: Iterable[str]) -> list[str]:
        found = (v.split(",") if isinstance(v, str) else _listed(v) for v in self._take(names))
        return distinct(name for value in found for each in value if (name := str(each).strip()))

    def time(self, names: Iterable[str]) -> datetime | None:
        """The first of them that is a time. The others are left as they were written."""
        for name in names:
            own = self._names.get(name)
            value = self.left.get(own) if own is not None else None
            at = moment(value.replace("/", "-") if isinstance(value, str) else None)
            if own is not None and at is not None:
                del self.left[own], self._names[name]
                return at
        return None


def _listed(value: Json) -> list[Json]:
    if isinstance(value, list):
        return [inner for inner in value if isinstance(inner, (str, int, float))]
    return [value] if isinstance(value, (str, int, float)) and not isinstance(value, bool) else []


def _said_by_org(body: str) -> dict[str, Json]:
    said: dict[str, Json] = {match[1].lower(): match[2].strip() for match in _ORG.finditer(body)}
    if "filetags" in said:
        said["filetags"] = said["filetags"].replace(":", " ")
    if "date" in said:
        said["date"] = said["date"].strip("<>[]")[:10]
    return said


# -- what its text says ---


def _heading(body: str, ending: str) -> str:
    """The title that a text begins with."""
    found = _H1.match(body) if ending in _MARKDOWN else None
    if found is None and ending in {*_MARKDOWN, ".rst"}:
        found = _UNDERLINED.match(body)
    return found[1] if found else ""


def _prose(body: str) -> str:
    """The text without its code."""
    kept: list[str] = []
    fence = ""
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark and "`" not in line[mark.end() :]:
            fence = mark[1]
        else:
            kept.append(_CODE.sub(" ", line) if "`" in line else line)
    return "\n".join(kept)


def links(body: str) -> list[str]:
    """The notes that a text links to, as it names them."""
    return distinct(_targets(_prose(body)))


def _targets(prose: str) -> Iterator[str]:
    for link in _LINK.findall(prose):
        target = re.split(r"\\?\||#|\^", link, maxsplit=1)[0].strip()
        if target:
            yield target


# -- files ---


def _suffix(name: str) -> str:
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""


def _ending(entry: Entry) -> str:
    return _suffix(entry.basename).lower()


def _stem(entry: Entry) -> str:
    return entry.basename.removesuffix(_suffix(entry.basename))


def _hidden(entry: Entry) -> bool:
    return any(part.startswith(".") for part in entry.name.replace("\\", "/").split("/"))
