"""Write docs/settings.md from the tables in recollect/settings.py.

python tools/settings_page.py
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from recollect.settings import LIMITS, SETTINGS, Limits

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
_HEAD = """\
# Settings and limits

*This page is generated from `recollect/settings.py` by `python tools/settings_page.py`.*

## Settings

A command-line option wins over the environment, the environment over `recollect.toml`, and that
over the default. `recollect config` shows every setting, its value and where it comes from:

```sh
recollect config
recollect config set embeddings off
recollect config path
```

`recollect.toml` is in your configuration folder; `RECOLLECT_CONFIG` names another file. Its keys
are the names below in lower case, without `RECOLLECT_`:

```toml
home = "~/recollect"
exclude = ["~/clients/*", "secret-*"]
redact = true
```

| environment variable | default | meaning |
|---|---|---|
"""
_LIMITS = """
## Limits

Every request ends. Over a limit there is a clear error, never a hang. `recollect doctor --json`
prints this table.

| name | value | meaning |
|---|---|---|
"""


def _number(value: float) -> str:
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:g}"


def page() -> str:
    rows = [f"| `{s.name}` | {_default(s.default)} | {s.help} |\n" for s in SETTINGS]
    limits = [
        f"| `{limit.name}` | {_number(getattr(LIMITS, limit.name))} | {limit.metadata['help']} |\n"
        for limit in fields(Limits)
    ]
    return _HEAD + "".join(rows) + _LIMITS + "".join(limits)


def _default(value: object) -> str:
    if value is False:
        return "`off`"
    if value in ("", ()):
        return ""
    return f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
