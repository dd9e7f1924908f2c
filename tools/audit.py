"""Look for known advisories about the dependencies, with pip-audit.

python tools/audit.py

Asks the advisory service about the versions that an installation with all extras gets today. If the
service cannot be reached, this program says so and exits with 0: `make test` still compares what is
installed with `tools/advisories.toml`. Exits with 1 if there is an advisory.

Needs the programs of `make tools`: uv and pip-audit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dist import PROGRAMS, ROOT, lock

SECONDS = 300


def ask(requirements: Path) -> tuple[list[dict[str, Any]], str]:
    """What the service says about each dependency, and why it says nothing if it does not."""
    command = [
        *(str(PROGRAMS / "pip-audit"), "--requirement", str(requirements)),
        *("--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off"),
    ]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [], f"no answer in {SECONDS} seconds"
    try:
        return json.loads(process.stdout)["dependencies"], ""
    except ValueError:
        return [], process.stderr.strip().splitlines()[-1]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        lock(ROOT, requirements)
        dependencies, reason = ask(requirements)
    checked = [entry for entry in dependencies if "vulns" in entry]
    skipped = [entry for entry in dependencies if "skip_reason" in entry]
    if skipped and not checked:
        reason = skipped[0]["skip_reason"]
    if not checked:
        print(f"pip-audit: SKIPPED, because the advisory service cannot be reached ({reason}).")
        print("Only the list in tools/advisories.toml was checked, by `make test`.")
        return 0
    for entry in skipped:
        print(f"pip-audit: {entry['name']} was not checked: {entry['skip_reason']}")
    affected = [entry for entry in checked if entry["vulns"]]
    for entry in affected:
        for advisory in entry["vulns"]:
            versions = ", ".join(advisory["fix_versions"]) or "none"
            print(f"{entry['name']} {entry['version']}: {advisory['id']}, fixed in: {versions}")
    print(f"pip-audit: {len(checked)} packages checked, {len(affected)} with advisories.")
    return int(bool(affected))


if __name__ == "__main__":
    sys.exit(main())
