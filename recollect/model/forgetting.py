"""What to forget: a selection of messages, conversations and items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.language.text import identifier
from recollect.model.arguments import Moment, parse_moment, parse_names
from recollect.model.kinds import KINDS

_PATTERN_CHARACTERS = 1_000


class Selection(NamedTuple):
    """Conditions that must all hold. A list of names needs one of them to match.

    Messages are selected by id, as a span, by date, or because they contain a text. If there is no
    such condition, whole conversations and items are selected. Items are never split: if a part of
    one is selected, all of it is. `Selection.of` builds one from plain values.
    """

    conversations: tuple[str, ...] = ()
    """Ids of conversations or items."""
    messages: tuple[str, ...] = ()
    """Ids of messages in the one conversation."""
    first: str | None = None
    """The first message of a span in the one conversation."""
    last: str | None = None
    """The last message of the span."""
    projects: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    text: str = ""
    """A word or phrase, ignoring case, as whole words."""
    pattern: str = ""
    """A regular expression in the syntax of RE2."""

    @classmethod
    def of(
        cls,
        *,
        messages: str | Iterable[str] = (),
        first: str | None = None,
        last: str | None = None,
        after: Moment = None,
        before: Moment = None,
        text: str | None = None,
        pattern: str | None = None,
        **names: str | Iterable[str],
    ) -> Selection:
        """Build a selection from plain values, and validate it. Raises InvalidInput.

        `names` are `conversations`, `projects`, `sources` and `kinds`: one name or several. A blank
        value is an error, not a missing condition: an empty variable must not select more.
        """
        values: dict[str, tuple[str, ...]] = {}
        for name, value in names.items():
            if name not in _NAME_FIELDS:
                raise InvalidInput(
                    f"There is no condition {name!r}. Use {', '.join(_NAME_FIELDS)}."
                )
            values[name] = parse_names(value, name)
        values["conversations"] = tuple(map(identifier, values.get("conversations", ())))
        selection = cls(
            messages=tuple(map(identifier, parse_names(messages, "messages"))),
            first=parse_id(first, "first message"),
            last=parse_id(last, "last message"),
            after=parse_moment(after, "after"),
            before=parse_moment(before, "before", end=True),
            text=require_text(text, "text").strip(),
            pattern=require_text(pattern, "pattern"),
            **values,
        )
        selection.validate()
        return selection

    def validate(self) -> None:
        """Raise InvalidInput for a selection that is empty or contradicts itself."""
        if self == Selection():
            raise InvalidInput(
                "Say what to forget: a conversation, messages, a project, a source, a kind, dates "
                "or a text."
            )
        if self.has_named_messages and len(self.conversations) != 1:
            raise InvalidInput(
                "Messages and spans need the id of the one conversation they are in."
            )
        if self.messages and (self.first or self.last):
            raise InvalidInput("Give either single messages or a span of messages, not both.")
        if bool(self.first) != bool(self.last):
            raise InvalidInput("A span needs both its first and its last message.")
        if max(len(self.text), len(self.pattern)) > _PATTERN_CHARACTERS:
            raise InvalidInput(f"A text or pattern has at most {_PATTERN_CHARACTERS} characters.")
        require_kinds(self.kinds)

    @property
    def has_named_messages(self) -> bool:
        return bool(self.messages or self.first or self.last)

    @property
    def has_pattern(self) -> bool:
        return bool(self.text or self.pattern)

    @property
    def is_text_only(self) -> bool:
        """Whether it selects a text wherever it is."""
        return self.has_pattern and self._replace(text="", pattern="") == Selection()

    @property
    def of_messages(self) -> bool:
        """Whether it selects messages rather than whole conversations."""
        return bool(self.has_named_messages or self.has_pattern or self.after or self.before)


_NAME_FIELDS = ("conversations", "projects", "sources", "kinds")


def parse_id(id: str | None, name: str) -> str | None:
    if id is None:
        return None
    return identifier(require_text(id, name))


def require_text(text: str | None, name: str) -> str:
    """The text, which must not be blank; empty for None."""
    if text is None:
        return ""
    if not text.strip():
        raise InvalidInput(
            f"The {name} is blank. Leave this condition out, or say what it must match."
        )
    return text


def require_kinds(kinds: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidInput(f"There is no kind {kind!r}. Use {', '.join(KINDS)}.")
