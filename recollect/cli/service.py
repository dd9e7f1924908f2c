"""`recollect service`: run the console or the watcher in the background, from login on.

On Linux it is a unit of systemd, on macOS an agent of launchd, both of the user, not of the system.
"""

from __future__ import annotations

import argparse
import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

from recollect.cli.commands import command, command_group
from recollect.cli.common import print_json, safe, show
from recollect.configuration import config_file
from recollect.errors import InvalidInput, RecollectError
from recollect.settings import HOME, HOST, MAX_WORKERS, PORT, USER, place

SERVICES = {
    "serve": "the console and the REST API",
    "watch": "the watcher of coding agents' sessions",
}
_NAME = "name? serve|watch =serve  serve: the console and the REST API, watch: the watcher"

command_group(
    "service",
    """
    recollect service install                            the console, at every login
    recollect service install watch                      import sessions as they grow
    recollect service install --port 9000
    recollect service install --workers 4                use four processor cores
    recollect service status
    recollect service uninstall
    """,
)


@command(
    "service install",
    f"""
    {_NAME}
    --host ADDRESS   serve: address to listen on
    --port 0..65535  serve: port
    --workers 0..    serve: processes that share the port
    --dry-run        print the file, and change nothing
    """,
    """
    recollect service install                            the console, at http://127.0.0.1:8765
    recollect service install watch                      import sessions as they grow
    recollect service install --dry-run                  print the file, and change nothing

    The service has the home, user, address and port of now. Other settings come
    from the settings file (`recollect config`), not from the environment.
    """,
)
def install(arguments: argparse.Namespace) -> int | None:
    """Install and start a service."""
    manager, name = service_manager(), arguments.name
    file = manager.file(name)
    text = manager.render(name, command_of(arguments), environment_of(arguments))
    if arguments.dry_run:
        show(f"[dim]# {safe(str(file))}[/]")
        print(text)
        return None
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.touch(mode=0o600)  # the address of a database has a password
    draft.chmod(0o600)
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)
    problem = manager.run_all(manager.start, name)
    if arguments.json:
        print_json({"file": str(file), "running": not problem, "problem": problem})
        return int(bool(problem))
    show(f"Wrote {safe(str(file))}")
    if problem:
        raise RecollectError(
            f"The service could not be started: {problem}\n"
            f"Start it later with: {' '.join(manager.words(manager.start_later, name))}"
        )
    show(f"{sentence(SERVICES[name])} runs now, and starts whenever you log in.")
    if name == "serve":
        host, port = arguments.host or HOST.get(), arguments.port or PORT.get()
        show(f"It is at [bold]http://{safe(host)}:{port}[/].")
    show(f"[dim]{manager.hint}Its log: {' '.join(manager.words(manager.log, name))}[/]")
    return None


@command(
    "service uninstall",
    _NAME,
    """
    recollect service uninstall                          stop it, and do not start it again
    recollect service uninstall watch
    """,
)
def uninstall(arguments: argparse.Namespace) -> int | None:
    """Stop and remove a service."""
    manager, name = service_manager(), arguments.name
    file = manager.file(name)
    if not file.exists():
        raise InvalidInput(f"{sentence(SERVICES[name])} is not installed as a service.")
    manager.run_all(manager.stop, name)
    file.unlink()
    manager.run_all(manager.reload, name)
    if arguments.json:
        return print_json({"file": str(file), "removed": True})
    show(f"Stopped the service, and removed {safe(str(file))}")
    return None


@command("service status", examples="recollect service status --json")
def status(arguments: argparse.Namespace) -> int | None:
    """Show which services run."""
    manager = service_manager()
    records = []
    for name in SERVICES:
        state = "not installed"
        if manager.file(name).exists():
            state = "stopped" if manager.run_all(manager.check, name) else "running"
        records.append({"name": name, "state": state, "file": str(manager.file(name))})
    if arguments.json:
        return print_json({"services": records})
    for name, state in ((record["name"], record["state"]) for record in records):
        show(f"{name:<6} {state:<14} [dim]{SERVICES[name]}[/]")
        if state == "stopped":
            show(f"       {' '.join(manager.words(manager.log, name))}")
    return None


def command_of(arguments: argparse.Namespace) -> list[str]:
    """This program, by the interpreter that runs it now, whatever PATH the service has."""
    words = [sys.executable, "-m", "recollect", arguments.name]
    if arguments.workers is not None and not 1 <= arguments.workers <= MAX_WORKERS:
        raise InvalidInput(f"The number of workers must be from 1 to {MAX_WORKERS}.")
    options = {"--host": arguments.host, "--port": arguments.port, "--workers": arguments.workers}
    values = [word for name, value in options.items() if value for word in (name, str(value))]
    if arguments.name == "serve":
        return [*words, "--log-format", "text", *values]
    if values:
        raise InvalidInput("--host, --port and --workers apply to serve only.")
    return words


def environment_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Where the library is. An address may have a password, so it is not in the command line."""
    where = place(arguments.home)
    if isinstance(where, Path):
        where = str(where.absolute())
    variables = {HOME.name: where}
    user = arguments.user or USER.get()
    if user != USER.default:
        variables[USER.name] = user
    if "RECOLLECT_CONFIG" in os.environ:
        variables["RECOLLECT_CONFIG"] = str(config_file().absolute())
    return variables


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


# -- service managers ----------------------------------------------------------


class ServiceManager:
    """A program that runs services: the file of a service, and commands as templates."""

    hint = ""
    start: tuple[str, ...]
    start_later: str
    stop: tuple[str, ...]
    reload: tuple[str, ...]
    check: tuple[str, ...]
    """Fails if the service does not run."""
    log: str

    def file(self, name: str) -> Path:
        raise NotImplementedError

    def render(self, name: str, command: list[str], environment: dict[str, str]) -> str:
        raise NotImplementedError

    def words(self, template: str, name: str) -> list[str]:
        values = {"name": name, "user": str(os.getuid()), "file": str(self.file(name))}
        return [word.format(**values) for word in template.split()]

    def run_all(self, templates: tuple[str, ...], name: str) -> str:
        """Run programs of the system. Returns what went wrong; empty if nothing did."""
        for program, *words in (self.words(template, name) for template in templates):
            path = shutil.which(program)
            if path is None:
                return f"{program} is not installed."
            process = subprocess.run(  # noqa: S603  a program of the system, with our arguments
                [path, *words], capture_output=True, text=True, errors="replace"
            )
            if process.returncode and words[0] != "bootout":  # nothing may be there to stop
                lines = (process.stderr or process.stdout).strip().splitlines()
                return lines[-1] if lines else f"{program} failed."
        return ""


class Systemd(ServiceManager):
    """Units of the user's own systemd."""

    hint = "It stops when you log out. To keep it running: loginctl enable-linger. "
    start = (
        "systemctl --user daemon-reload",
        "systemctl --user enable recollect-{name}.service",
        "systemctl --user restart recollect-{name}.service",
    )
    start_later = "systemctl --user enable --now recollect-{name}"
    stop = ("systemctl --user disable --now recollect-{name}.service",)
    reload = ("systemctl --user daemon-reload",)
    check = ("systemctl --user is-active --quiet recollect-{name}.service",)
    log = "journalctl --user -u recollect-{name}"

    def file(self, name: str) -> Path:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(base) / "systemd" / "user" / f"recollect-{name}.service"

    def render(self, name: str, command: list[str], environment: dict[str, str]) -> str:
        variables = "".join(
            f"Environment={quote(f'{variable}={value}')}\n"
            for variable, value in environment.items()
        )
        return (
            "[Unit]\n"
            f"Description=Recollect: {SERVICES[name]}\n"
            "After=network.target\n"
            "\n"
            "[Service]\n"
            f"{variables}"
            f"ExecStart={' '.join(quote(word).replace('$', '$$') for word in command)}\n"
            "Restart=on-failure\n"
            "RestartSec=5\n"
            "NoNewPrivileges=true\n"
            "\n"
            "[Install]\n"
            "WantedBy=default.target\n"
        )


class Launchd(ServiceManager):
    """Agents of the user's own launchd."""

    start = (
        "launchctl bootout gui/{user}/recollect.{name}",
        "launchctl bootstrap gui/{user} {file}",
    )
    start_later = "launchctl bootstrap gui/{user} {file}"
    stop = ("launchctl bootout gui/{user}/recollect.{name}",)
    reload = ()
    check = ("launchctl print gui/{user}/recollect.{name}",)
    log = "tail ~/Library/Logs/recollect-{name}.log"

    def file(self, name: str) -> Path:
        return Path.home() / "Library" / "LaunchAgents" / f"recollect.{name}.plist"

    def render(self, name: str, command: list[str], environment: dict[str, str]) -> str:
        log = str(Path.home() / "Library" / "Logs" / f"recollect-{name}.log")
        agent = {
            "Label": f"recollect.{name}",
            "ProgramArguments": command,
            "EnvironmentVariables": environment,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
        return plistlib.dumps(agent).decode()


def service_manager() -> ServiceManager:
    if sys.platform == "darwin":
        return Launchd()
    if sys.platform.startswith("linux"):
        return Systemd()
    raise InvalidInput(
        "Services are supported with systemd (Linux) and launchd (macOS). Here, start "
        "`recollect serve` with the tools of your system."
    )


def quote(word: str) -> str:
    """A word in a unit file: quotes, backslashes and percent signs have a meaning there."""
    if "\n" in word:
        raise InvalidInput("A path or setting of a service must not contain a line break.")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
