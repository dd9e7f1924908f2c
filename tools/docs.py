"""Build the documentation site: `make docs`, or python tools/docs.py [FOLDER].

The pages are the Markdown files in `docs` and some from elsewhere in the repository. They are
copied to `build/docs-source` with these changes:

- `docs/README.md` becomes the first page, and its lists of links the navigation.
- `<!-- generated -->` is replaced by the reference that `docs_reference.py` makes from the code.
- Commands after `<!-- with output -->` are run, and their output is shown below them.
- Links to other files of the repository lead to their page. A link that leads nowhere is an error.

Then Sphinx, from the environment of `make tools`, writes HTML. A warning is an error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import docs_reference

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "build/docs-source"
SPHINX = ROOT / "build/tools/bin/sphinx-build"

ELSEWHERE = {
    "SECURITY.md": "security.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "benchmarks.md",
}
"""Pages from outside `docs`, with their names on the site."""
GENERATED = "<!-- generated -->"
WITH_OUTPUT = "<!-- with output -->"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
CODE = re.compile(r"(^```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(re.escape(WITH_OUTPUT) + r"\s*```console\n(.*?)```", re.DOTALL)


class BrokenLink(Exception):
    """A link in the documentation leads to a file that does not exist."""


def pages() -> dict[Path, str]:
    """Every page: its file, and its name on the site."""
    names = {ROOT / path: name for path, name in ELSEWHERE.items()}
    for path in sorted(DOCS.rglob("*.md")):
        names[path] = path.relative_to(DOCS).as_posix()
    names[DOCS / "README.md"] = "index.md"
    return names


# -- links --------------------------------------------------------------------


def rewrite_links(text: str, path: Path, names: dict[Path, str]) -> str:
    """Let links to files of the repository lead to their page on the site."""

    def rewrite(match: re.Match[str]) -> str:
        mark, label, address = match.groups()
        if re.match(r"[a-z]+:|#", address):
            return match[0]
        target = _resolve(path, address, names)
        if mark or target.startswith("file:"):
            return match[0] if mark else label
        return f"[{label}]({target})"

    parts = CODE.split(text)
    parts[::2] = [LINK.sub(rewrite, part) for part in parts[::2]]
    return "".join(parts)


def _resolve(path: Path, address: str, names: dict[Path, str]) -> str:
    name, hash_sign, fragment = address.partition("#")
    target = Path(os.path.normpath(path.parent / name))
    if target.is_dir():
        target /= "README.md"
    if not target.exists():
        raise BrokenLink(f"{path.relative_to(ROOT)}: {address} does not exist")
    if target not in names:
        return "file:"  # in the repository, but not on the site
    folder = Path(names[path]).parent
    return f"{os.path.relpath(names[target], folder)}{hash_sign}{fragment}"


# -- navigation ---------------------------------------------------------------


def add_navigation(index: str) -> str:
    """Add a table of contents for each section of the first page: the pages it links to."""
    trees = []
    for section in index.split("\n## ")[1:]:
        caption, _, body = section.partition("\n")
        links = re.findall(r"(?m)^- \[([^\]]+)\]\(([^)#]+)\.md\)", body)
        entries = [f"{title} <{name}>" for title, name in links]
        trees.append(_toctree(caption, entries))
    return "\n\n".join((index, *trees))


def _toctree(caption: str, entries: list[str]) -> str:
    return "\n".join(("```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```"))


def add_folder(text: str, path: Path) -> str:
    """List the other pages of a folder below the folder's own page."""
    entries = [page.stem for page in sorted(path.parent.glob("*.md")) if page != path]
    return f"{text}\n\n" + "\n".join(("```{toctree}", ":hidden:", "", *entries, "```"))


# -- output of commands -------------------------------------------------------


def add_output(text: str, home: Path) -> str:
    """Show below each command of a marked block what it prints."""

    def run_block(match: re.Match[str]) -> str:
        lines: list[str] = []
        for line in match[1].splitlines():
            lines.append(line)
            if line.startswith("$ "):
                lines += [*run(line[2:], home).splitlines(), ""]
        return "\n".join(("```console", *lines[:-1], "```"))

    return CONSOLE.sub(run_block, text)


def run(command: str, home: Path) -> str:
    environment = os.environ | {
        "RECOLLECT_HOME": str(home),
        "RECOLLECT_CONFIG": str(home / "recollect.toml"),
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "84",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    process = subprocess.run(
        ["bash", "-c", command.replace("recollect ", f"{sys.executable} -m recollect ", 1)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        sys.exit(f"{command} failed: {process.stderr}")
    return "\n".join(line.rstrip() for line in process.stdout.strip("\n").splitlines())


# -- the site -----------------------------------------------------------------


def references() -> dict[str, str]:
    """The generated part of each reference page."""
    description = docs_reference.openapi()
    (SOURCE / "extra").mkdir(parents=True, exist_ok=True)
    text = json.dumps(description, ensure_ascii=False, indent=1)
    (SOURCE / "extra/openapi.json").write_text(text, encoding="utf-8")
    return {
        "reference/cli.md": docs_reference.cli_page(),
        "reference/rest.md": docs_reference.rest_page(description),
        "reference/mcp.md": docs_reference.mcp_page(),
        "reference/python.md": docs_reference.python_page(),
    }


def write_source() -> None:
    """Write everything that Sphinx reads to SOURCE."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    generated_parts = references()
    names = pages()
    with tempfile.TemporaryDirectory() as folder:
        for path, name in names.items():
            text = rewrite_links(path.read_text(encoding="utf-8"), path, names)
            if name == "index.md":
                text = add_navigation(text)
            elif path.name == "README.md" and path.parent != DOCS and DOCS in path.parents:
                text = add_folder(text, path)
            text = add_output(text, Path(folder) / Path(name).stem)
            text = text.replace(GENERATED, generated_parts.get(name, ""))
            target = SOURCE / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    for picture in DOCS.rglob("*.png"):
        target = SOURCE / picture.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
    shutil.copytree(DOCS / "site", SOURCE, dirs_exist_ok=True)
    shutil.copyfile(ROOT / "recollect/serve/console/static/favicon.svg", SOURCE / "icon.svg")


def main(target: Path) -> int:
    try:
        write_source()
    except BrokenLink as error:
        sys.exit(str(error))
    shutil.rmtree(target, ignore_errors=True)
    command = [SPHINX, "--fail-on-warning", "--keep-going", "--quiet", "-b", "html", "-j", "auto"]
    cache = ROOT / "build/docs-cache"
    return subprocess.run([*command, "-d", cache, SOURCE, target], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/docs"))
