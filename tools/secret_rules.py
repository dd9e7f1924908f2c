"""Write recollect/redact/rules.json from the rules of gitleaks.

    python tools/secret_rules.py gitleaks.toml

The input is `config/gitleaks.toml` of https://github.com/gitleaks/gitleaks. Rules about file names
are skipped, because messages have none. The rules expect source code, where a secret ends with a
quotation mark or the end of the line. In conversations, a comma, a bracket or an escaped quotation
mark can follow it too, so the patterns are extended.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "recollect" / "redact" / "rules.json"
IN_MESSAGES = {
    r"""(?:[\x60'"\s;]|\\[nr]|$)""": r"""(?:[\x60'"\s;,.)\]}<>&|*!?]|\\[nrt"']|$)""",
    r"""[\s'"]{0,3}(?:=|>""": r"""[\\\s'"]{0,4}(?:=|>""",
    r"""[\x60'"\s=]{0,5}""": r"""[\\\x60'"\s=]{0,6}""",
}


def rule(source: dict[str, Any]) -> dict[str, Any]:
    fields = ("id", "regex", "entropy", "secretGroup")
    converted = {name: source[name] for name in fields if name in source}
    for pattern, replacement in IN_MESSAGES.items():
        converted["regex"] = converted["regex"].replace(pattern, replacement)
    converted["keywords"] = sorted({keyword.lower() for keyword in source["keywords"]})
    allowlists = [allowlist(a) for a in source.get("allowlists", []) if "paths" not in a]
    if allowlists:
        converted["allowlists"] = allowlists
    return converted


def allowlist(source: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name in ("regexes", "regexTarget"):
        if name in source:
            converted[name] = source[name]
    if "stopwords" in source:
        converted["stopwords"] = sorted(set(source["stopwords"]))
    return converted


def main() -> None:
    config = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    rules = [rule(r) for r in config["rules"] if "regex" in r and "path" not in r]
    output = {"rules": rules, "allowlist": allowlist(config["allowlist"])}
    TARGET.write_text(json.dumps(output, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(rules)} rules\n")


if __name__ == "__main__":
    main()
