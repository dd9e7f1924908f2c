"""Makes recollect/redact/rules.json of gitleaks' rules: `python tools/secret_rules.py gitleaks.toml`.

The file is `config/gitleaks.toml` of https://github.com/gitleaks/gitleaks. What speaks of the names of files is left
out, since a message has none. The rules expect files of source code, in which a secret ends with a quotation mark or
the line; in what people and agents write, a comma, a bracket or an escaped quotation mark may follow it, too.
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


def rule(given: dict[str, Any]) -> dict[str, Any]:
    made = {
        name: given[name] for name in ("id", "regex", "entropy", "secretGroup") if name in given
    }
    for there, wanted in IN_MESSAGES.items():
        made["regex"] = made["regex"].replace(there, wanted)
    made["keywords"] = sorted({keyword.lower() for keyword in given["keywords"]})
    if allowed := [allowlist(a) for a in given.get("allowlists", []) if "paths" not in a]:
        made["allowlists"] = allowed
    return made


def allowlist(given: dict[str, Any]) -> dict[str, Any]:
    made = {name: given[name] for name in ("regexes", "regexTarget") if name in given}
    return made | ({"stopwords": sorted(set(given["stopwords"]))} if "stopwords" in given else {})


def main() -> None:
    given = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    rules = [rule(r) for r in given["rules"] if "regex" in r and "path" not in r]
    made = {"rules": rules, "allowlist": allowlist(given["allowlist"])}
    TARGET.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(rules)} rules\n")


if __name__ == "__main__":
    main()
