"""Install packages into the environment of this Python, with uv and pip's configuration.

python tools/install.py [OPTION OF `uv pip install`] [REQUIREMENT ...]

uv takes a quarter of pip's CPU time and uses every core, but does not read pip's configuration,
which says where packages come from: pip.conf and the variables PIP_*. This passes it on.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable

SECTIONS = ("global.", "install.", ":env:.")
"""Where pip reads settings of `pip install`. A later section overrides an earlier one."""
LISTS = {
    "extra-index-url": "--extra-index-url",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY"}
TRUE = ("1", "true", "yes", "on")


def main(arguments: list[str]) -> int:
    lines = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()
    settings = pip_settings(lines)
    # uv prefers the first index that has a package; pip takes the best version of all of them.
    command = [sys.executable, "-m", "uv", "pip", "install", "--index-strategy=unsafe-best-match"]
    command += [f"--python={sys.executable}", *uv_options(settings), *arguments]
    return subprocess.run(command, env={**os.environ, **uv_variables(settings)}).returncode


def pip_settings(lines: Iterable[str]) -> dict[str, str]:
    """The settings of `pip install`, from the output of `pip config list`."""
    settings: dict[str, str] = {}
    pairs = [line.split("=", 1) for line in lines]
    for section in SECTIONS:
        for name, value in pairs:
            if name.startswith(section):
                settings[name.removeprefix(section)] = ast.literal_eval(value)
    return settings


def uv_options(settings: dict[str, str]) -> list[str]:
    options = []
    if "index-url" in settings:
        options.append(f"--index-url={settings['index-url']}")
    if settings.get("no-index", "").lower() in TRUE:
        options.append("--no-index")
    for name, option in LISTS.items():
        options += [f"{option}={value}" for value in settings.get(name, "").split()]
    return options


def uv_variables(settings: dict[str, str]) -> dict[str, str]:
    return {VARIABLES[name]: settings[name] for name in VARIABLES if name in settings}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
