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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.cli.common import add_command, add_flag, console, define_group, print_json, safe
from recollect.configuration import config_file
from recollect.errors import InvalidInput, RecollectError
from recollect.settings import HOME, HOST, MAX_WORKERS, PORT, USER, place

_EXAMPLES = """\
  recollect service install                            the console, at every login
  recollect service install watch                      import sessions of coding agents as they grow
  recollect service install --port 9000
  recollect service install --workers 4                use four processor cores
  recollect service status
  recollect service uninstall
"""
_INSTALL_EXAMPLES = """\
  recollect service install                            the console, at http://127.0.0.1:8765
  recollect service install watch                      import sessions of coding agents as they grow
  recollect service install --dry-run                  print the file, and change nothing

The service has the home, user, address and port of now. Other settings come
from the settings file (`recollect config`), not from the environment.
"""
_STATUS_EXAMPLES = """\
  recollect service status
  recollect service status --json
"""
_UNINSTALL_EXAMPLES = """\
  recollect service uninstall                          stop it, and do not start it again
  recollect service uninstall watch
"""
SERVICES = {
    "serve": "the console and the REST API",
    "watch": "the watcher of coding agents' sessions",
}


def define_service(group: argparse.ArgumentParser) -> None:
    actions = define_group(group, _EXAMPLES)
    install_ = add_command(
        actions, "install", "install and start a service", install, _INSTALL_EXAMPLES
    )
    add_name(install_)
    install_.add_argument("--host", metavar="ADDRESS", help="serve: address to listen on")
    install_.add_argument("--port", type=int, metavar="NUMBER", help="serve: port")
    install_.add_argument(
        "--workers", type=int, metavar="NUMBER", help="serve: processes that share the port"
    )
    add_flag(install_, "--dry-run", "print the file, and change nothing")
    uninstall_ = add_command(
        actions, "uninstall", "stop and remove a service", uninstall, _UNINSTALL_EXAMPLES
    )
    add_name(uninstall_)
    add_command(actions, "status", "show which services run", status, _STATUS_EXAMPLES)


def add_name(command: argparse.ArgumentParser) -> None:
    names = ", ".join(f"{name}: {summary}" for name, summary in SERVICES.items())
    command.add_argument("name", nargs="?", choices=tuple(SERVICES), default="serve", help=names)


# -- commands ------------------------------------------------------------------


def install(arguments: argparse.Namespace) -> int:
    manager = _manager()
    service = Service(arguments.name, tuple(_command(arguments)), _environment(arguments))
    text = manager.render(service)
    file = manager.file(service.name)
    if arguments.dry_run:
        console().print(f"[dim]# {safe(str(file))}[/]", soft_wrap=True)
        print(text)
        return 0
    write(file, text)
    problem = manager.start(service.name)
    if arguments.json:
        print_json({"file": str(file), "running": not problem, "problem": problem})
        return int(bool(problem))
    out = console()
    out.print(f"Wrote {safe(str(file))}", soft_wrap=True)
    if problem:
        raise RecollectError(
            f"The service could not be started: {problem}\n"
            f"Start it later with: {manager.start_command(service.name)}"
        )
    out.print(f"{sentence(SERVICES[service.name])} runs now, and starts whenever you log in.")
    if service.name == "serve":
        host = arguments.host or HOST.get()
        port = arguments.port or PORT.get()
        out.print(f"It is at [bold]http://{safe(host)}:{port}[/].")
    if manager.hint:
        out.print(f"[dim]{manager.hint}[/]", soft_wrap=True)
    return 0


def uninstall(arguments: argparse.Namespace) -> int:
    manager = _manager()
    file = manager.file(arguments.name)
    if not file.exists():
        raise InvalidInput(f"{sentence(SERVICES[arguments.name])} is not installed as a service.")
    manager.stop(arguments.name)
    file.unlink()
    manager.reload()
    if arguments.json:
        print_json({"file": str(file), "removed": True})
    else:
        console().print(f"Stopped the service, and removed {safe(str(file))}", soft_wrap=True)
    return 0


def status(arguments: argparse.Namespace) -> int:
    manager = _manager()
    records = []
    for name in SERVICES:
        file = manager.file(name)
        state = "not installed"
        if file.exists():
            state = manager.state(name)
        records.append({"name": name, "state": state, "file": str(file)})
    if arguments.json:
        print_json({"services": records})
        return 0
    out = console()
    for record in records:
        out.print(f"{record['name']:<6} {record['state']:<14} [dim]{SERVICES[record['name']]}[/]")
        if record["state"] not in ("running", "not installed"):
            out.print(f"       {manager.log_command(record['name'])}", soft_wrap=True)
    return 0


def _command(arguments: argparse.Namespace) -> list[str]:
    """This program, by the interpreter that runs it now, whatever PATH the service has."""
    words = [sys.executable, "-m", "recollect", arguments.name]
    if arguments.workers is not None and not 1 <= arguments.workers <= MAX_WORKERS:
        raise InvalidInput(f"The number of workers must be from 1 to {MAX_WORKERS}.")
    options = {"--host": arguments.host, "--port": arguments.port, "--workers": arguments.workers}
    values = {name: value for name, value in options.items() if value}
    if arguments.name != "serve":
        if values:
            raise InvalidInput("--host, --port and --workers apply to serve only.")
        return words
    words += ["--log-format", "text"]
    for name, value in values.items():
        words += [name, str(value)]
    return words


def _environment(arguments: argparse.Namespace) -> dict[str, str]:
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


def write(file: Path, text: str) -> None:
    """Only the user may read it: the address of a database has a password."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.chmod(0o600)
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


# -- service managers ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    command: tuple[str, ...]
    environment: dict[str, str]


class Systemd:
    """Units of the user's own systemd."""

    hint = (
        "It stops when you log out. To keep it running: loginctl enable-linger. "
        "Its log: journalctl --user -u recollect-serve"
    )

    def file(self, name: str) -> Path:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(base) / "systemd" / "user" / f"recollect-{name}.service"

    def render(self, service: Service) -> str:
        environment = "".join(
            f"Environment={quote_unit(f'{name}={value}')}\n"
            for name, value in service.environment.items()
        )
        command = " ".join(quote_unit(word).replace("$", "$$") for word in service.command)
        return (
            "[Unit]\n"
            f"Description=Recollect: {SERVICES[service.name]}\n"
            "After=network.target\n"
            "\n"
            "[Service]\n"
            f"{environment}"
            f"ExecStart={command}\n"
            "Restart=on-failure\n"
            "RestartSec=5\n"
            "NoNewPrivileges=true\n"
            "\n"
            "[Install]\n"
            "WantedBy=default.target\n"
        )

    def start(self, name: str) -> str:
        unit = f"recollect-{name}.service"
        return (
            run("systemctl", "--user", "daemon-reload")
            or run("systemctl", "--user", "enable", unit)
            or run("systemctl", "--user", "restart", unit)
        )

    def stop(self, name: str) -> str:
        return run("systemctl", "--user", "disable", "--now", f"recollect-{name}.service")

    def reload(self) -> None:
        run("systemctl", "--user", "daemon-reload")

    def state(self, name: str) -> str:
        if run("systemctl", "--user", "is-active", "--quiet", f"recollect-{name}.service"):
            return "stopped"
        return "running"

    def log_command(self, name: str) -> str:
        return f"journalctl --user -u recollect-{name}"

    def start_command(self, name: str) -> str:
        return f"systemctl --user enable --now recollect-{name}"


class Launchd:
    """Agents of the user's own launchd."""

    hint = "Its log: ~/Library/Logs/recollect-serve.log"

    def file(self, name: str) -> Path:
        return Path.home() / "Library" / "LaunchAgents" / f"{self._label(name)}.plist"

    def _label(self, name: str) -> str:
        return f"recollect.{name}"

    def _target(self) -> str:
        return f"gui/{os.getuid()}"

    def _log(self, name: str) -> Path:
        return Path.home() / "Library" / "Logs" / f"recollect-{name}.log"

    def render(self, service: Service) -> str:
        agent: dict[str, Any] = {
            "Label": self._label(service.name),
            "ProgramArguments": list(service.command),
            "EnvironmentVariables": service.environment,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "StandardOutPath": str(self._log(service.name)),
            "StandardErrorPath": str(self._log(service.name)),
        }
        return plistlib.dumps(agent).decode()

    def start(self, name: str) -> str:
        run("launchctl", "bootout", f"{self._target()}/{self._label(name)}")
        return run("launchctl", "bootstrap", self._target(), str(self.file(name)))

    def stop(self, name: str) -> str:
        return run("launchctl", "bootout", f"{self._target()}/{self._label(name)}")

    def reload(self) -> None:
        pass

    def state(self, name: str) -> str:
        if run("launchctl", "print", f"{self._target()}/{self._label(name)}"):
            return "stopped"
        return "running"

    def log_command(self, name: str) -> str:
        return f"tail {self._log(name)}"

    def start_command(self, name: str) -> str:
        return f"launchctl bootstrap {self._target()} {self.file(name)}"


def _manager() -> Systemd | Launchd:
    if sys.platform == "darwin":
        return Launchd()
    if sys.platform.startswith("linux"):
        return Systemd()
    raise InvalidInput(
        "Services are supported with systemd (Linux) and launchd (macOS). Here, start "
        "`recollect serve` with the tools of your system."
    )


def quote_unit(word: str) -> str:
    """A word in a unit file: quotes, backslashes and percent signs have a meaning there."""
    if "\n" in word:
        raise InvalidInput("A path or setting of a service must not contain a line break.")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def run(program: str, *arguments: str) -> str:
    """Run a program of the system. Returns what went wrong; empty if nothing did."""
    path = shutil.which(program)
    if path is None:
        return f"{program} is not installed."
    process = subprocess.run(  # noqa: S603  a program of the system, with arguments made here
        [path, *arguments], capture_output=True, text=True, errors="replace"
    )
    if process.returncode == 0:
        return ""
    message: Sequence[str] = (process.stderr or process.stdout).strip().splitlines()
    return message[-1] if message else f"{program} failed."
