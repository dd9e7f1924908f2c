"""`recollect open`: show a conversation in the console, in the browser."""

from __future__ import annotations

import argparse
import os
import sys
import urllib.error
import urllib.request
from urllib.parse import quote

from recollect.cli.common import console, define, existing, print_json, safe, safe_line
from recollect.cli.content.references import REFERENCE, Reference, resolve
from recollect.errors import RecollectError
from recollect.settings import HOST, PORT

_EXAMPLES = """\
  recollect open 1                                     a number of the last search or list
  recollect open 7cdb59db                              an id, or the beginning of an id

The console must be running: `recollect serve`, or `recollect service install`.
"""
_TIMEOUT = 5
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  what to connect to instead


def define_open(command: argparse.ArgumentParser) -> None:
    define(command, open_, _EXAMPLES)
    command.add_argument("conversation", help=REFERENCE)
    command.add_argument(
        "--url",
        metavar="URL",
        help="address of the console (default: RECOLLECT_HOST and RECOLLECT_PORT)",
    )


def open_(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        reference = resolve(library, arguments, arguments.conversation)
        summary = library.summary(reference.id)
        label = library.label(summary.id, summary.title)
    address = _address(arguments.url or _console_address(), reference)
    _require_page(address)
    if arguments.json:
        print_json({"id": reference.id, "url": address})
        return 0
    if open_browser(address):
        console().print(f"Opened [bold]{safe_line(label)}[/] in the browser.")
    else:
        console().print(f"[bold]{safe_line(label)}[/] is at {safe(address)}", soft_wrap=True)
    return 0


def open_browser(address: str) -> bool:
    """Open a page in the user's browser. False if there is none with a window of its own."""
    import webbrowser

    has_screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not has_screen and not os.environ.get("BROWSER"):
        return False  # it would be a browser inside the terminal
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def _console_address() -> str:
    host = HOST.get()
    host = _ANY_ADDRESS.get(host, host)
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{PORT.get()}"


def _address(base: str, reference: Reference) -> str:
    address = f"{base.rstrip('/')}/c/{quote(reference.id, safe='')}"
    if reference.message_id is not None:
        address += f"?m={quote(reference.message_id, safe='')}"
    return address


def _require_page(address: str) -> None:
    """Raise RecollectError unless a console with this conversation runs at the address."""
    if not address.startswith(("http://", "https://")):
        raise RecollectError(f"{address} is not a web address.")
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT):  # noqa: S310  http, as checked
            return
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return  # the page asks for an API key
        raise RecollectError(
            f"The console at {address} does not have this conversation (status {error.code}). "
            "It may serve another library."
        ) from error
    except OSError as error:
        raise RecollectError(
            "The console is not running. Start it with `recollect serve`, or keep it running with "
            "`recollect service install`."
        ) from error
