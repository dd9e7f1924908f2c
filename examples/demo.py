"""A one-minute tour of Recollect: import, search, explain, connect. Run it with `make demo`."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from rich.console import Console

from recollect.cli import main

EXAMPLES = Path(__file__).parent
HOME = EXAMPLES.parent / ".demo"

CLIENTS = """
[bold]Connect a client[/]

  Claude Code     claude mcp add recollect -- {command} mcp
  Codex           codex mcp add recollect -- {command} mcp
  Claude Desktop  {{"mcpServers": {{"recollect": {{"command": "{command}", "args": ["mcp"]}}}}}}
                  in claude_desktop_config.json

[bold]Look around in the browser[/]

  {command} --home {home} serve       then http://127.0.0.1:8765

[bold]Your own history[/]

  {command} import ~/Downloads/chatgpt-export.zip ~/.claude/projects ~/.codex/sessions

docs/getting-started.md has more, and docs/clients.md other clients.
"""


def step(*arguments: str) -> None:
    command_line = shlex.join(a.replace(str(EXAMPLES), "examples") for a in arguments)
    Console().print(f"\n[bold blue]$ recollect {command_line}[/]", highlight=False)
    if main([*arguments, "--home", str(HOME)]):
        sys.exit(f"recollect {command_line} failed")


def demo() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    formats = sorted(
        str(p) for p in EXAMPLES.iterdir() if p.is_dir() and not p.name.startswith("_")
    )
    step("import", *formats)
    step("search", "who waters the tomatoes while I am away?", "--limit", "2", "--explain")
    step("search", "valve NOT sensor role:assistant", "--limit", "2")
    step("search", "苔庭", "--limit", "1")
    step("search", "soil moisture", "--by", "conversation", "--limit", "2")
    step("related", "chutney", "chutney-3", "--limit", "2")
    step("list")
    step("stats")
    command = Path(sys.executable).with_name("recollect")
    Console().print(CLIENTS.format(command=command, home=HOME), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    demo()
