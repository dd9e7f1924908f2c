"""How a setting gets its value: from the environment, else from recollect.toml, else its default.

`recollect.settings` is the table of all settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from recollect.errors import InvalidInput

T = TypeVar("T")

ENVIRONMENT, FILE, DEFAULT = "environment", "recollect.toml", "default"
SETTINGS: list[Setting[Any]] = []
"""All settings, in the order of `recollect.settings`."""


class Setting(NamedTuple, Generic[T]):
    """One setting: `cast` turns its text into a value, and raises ValueError if it cannot."""

    name: str
    """The environment variable."""
    default: T
    cast: Callable[[str], T]
    help: str
    secret: bool = False

    @property
    def key(self) -> str:
        """The name in recollect.toml and on the command line."""
        return self.name.removeprefix("RECOLLECT_").lower()

    def get(self) -> T:
        """The value. Raises InvalidInput if what was set cannot be used."""
        text, origin = self._text()
        if text is None:
            return self.default
        return self._cast(text, origin)

    def origin(self) -> str:
        """Where the value comes from: `environment`, `recollect.toml` or `default`."""
        return self._text()[1]

    def check(self, text: str) -> None:
        """Raise InvalidInput if the setting cannot have this value."""
        self._cast(text, DEFAULT)

    def _text(self) -> tuple[str | None, str]:
        text = os.environ.get(self.name, "").strip()
        if text:
            return text, ENVIRONMENT
        text = file_values().get(self.key, "")
        if text:
            return text, FILE
        return None, DEFAULT

    def _cast(self, text: str, origin: str) -> T:
        name = self.name
        if origin == FILE:
            name = f"{self.key} in {config_file()}"
        try:
            return self.cast(text)
        except ValueError as error:
            raise InvalidInput(f"{name}: {error}") from None


def define(
    name: str, default: T, cast: Callable[[str], T], help: str, secret: bool = False
) -> Setting[T]:
    """Define a setting."""
    setting = Setting(name, default, cast, help, secret)
    SETTINGS.append(setting)
    return setting


def expand_path(path: str | os.PathLike[str]) -> Path:
    """A path that a person gave, with the home folder for `~`.

    Raises InvalidInput if it is blank, or `~` is followed by a name that no user has.
    """
    if not str(path).strip():
        raise InvalidInput("A path is empty. Give a file or folder.")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInput(
            f"There is no user for the path {path}. Write ~/ for your own folder, "
            "or ./~ for a name that begins with ~."
        ) from None


def config_file() -> Path:
    """The configuration file: RECOLLECT_CONFIG, or recollect.toml in the user's config folder."""
    path = os.environ.get("RECOLLECT_CONFIG")
    if path:
        return expand_path(path)
    return default_config_file(os.environ.get("HOME"), os.environ.get("XDG_CONFIG_HOME"))


@lru_cache(maxsize=1)
def default_config_file(*_environment: str | None) -> Path:
    """The arguments are only the cache key: the folder depends on these variables."""
    from platformdirs import user_config_path

    return user_config_path("recollect", appauthor=False) / "recollect.toml"


def file_values() -> dict[str, str]:
    path = config_file()
    try:
        status = path.stat()
    except OSError:
        return {}
    return parse_file(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)
def parse_file(path: Path, modified: int, size: int) -> dict[str, str]:
    """The settings in a file. Its time and size are part of the cache key."""
    import tomllib

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    keys = {setting.key for setting in SETTINGS}
    for key in values:
        if key not in keys:
            raise InvalidInput(f"{path}: there is no setting {key!r}.{suggestion(key, keys)}")
    return {key: as_text(path, key, value) for key, value in values.items()}


def suggestion(key: str, keys: set[str]) -> str:
    from difflib import get_close_matches

    similar = get_close_matches(key, keys, 1)
    if similar:
        return f" Did you mean {similar[0]!r}?"
    return " `recollect config` lists them all."


def as_text(path: Path, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int)):
        return str(value).strip()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise InvalidInput(f"{path}: {key} must be text, a number, true, false or a list of texts.")


# -- casts ---------------------------------------------------------------------


def choice(*values: str) -> Callable[[str], str]:
    def cast(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"{text[:80]!r} is not one of {', '.join(values)}.")
        return text.lower()

    return cast


def switch(text: str) -> bool:
    return choice("on", "off")(text) == "on"


def whole_number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text[:80]!r} is not a whole number of at least 0.")
    return int(text)


def interval(text: str) -> str:
    if text.lower() == "off" or re.fullmatch(r"[1-9]\d{0,5}[mhdw]", text.lower()):
        return text.lower()
    raise ValueError(f"{text[:80]!r} is not an interval such as 12h, 1d or 2w, or off.")


def retention(text: str) -> str:
    for part in names(text):
        if not re.fullmatch(r"(last|daily|weekly|monthly)=\d{1,6}", part):
            raise ValueError(
                f"{part[:80]!r} is not a rule such as daily=7 (last, daily, weekly, monthly)."
            )
    return text


def names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
