"""What Recollect does, in a minute: import, search, read, connect. Run it with `make demo`."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.panel import Panel

from recollect.cli import main

EXAMPLES = Path(__file__).parent
HOME = EXAMPLES.parent / ".demo"

CLIENTS = """\
[bold]Claude Code[/]     claude mcp add recollect -- {command} mcp
[bold]Codex[/]           codex mcp add recollect -- {command} mcp
[bold]Claude Desktop[/]  in claude_desktop_config.json:
                {{"mcpServers": {{"recollect": {{"command": "{command}", "args": ["mcp"]}}}}}}
[bold]Your own data[/]   {command} import ~/Downloads/chatgpt-export.zip ~/.claude/projects ~/.codex/sessions

The README says more, also for Letta. The web console is not part of this version yet."""


def step(*arguments: str) -> None:
    shown = shlex.join(a.replace(str(EXAMPLES), "examples") for a in arguments)
    Console().print(f"\n[bold blue]$ recollect {shown}[/]", highlight=False)
    if main([*arguments, "--home", str(HOME)]):
        sys.exit(f"recollect {shown} failed")


def demo() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    formats = sorted(str(p) for p in EXAMPLES.iterdir() if p.is_dir() and not p.name.startswith("_"))
    step("import", *formats)
    step("search", "asyncio gather")
    step("search", "moisture OR irrigation", "--role", "assistant", "--limit", "2")
    step("list")
    step("stats")
    command = Path(sys.executable).with_name("recollect")
    Console().print(Panel(CLIENTS.format(command=command), title="Connect a client", expand=False), highlight=False)


if __name__ == "__main__":
    demo()
