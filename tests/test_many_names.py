"""More tags and projects than are listed: the others are found by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.memory.lookup import full_names
from recollect.serve.console.search_pages import complete
from recollect.serve.mcp.recall_lines import list_projects

RARE = "/work/zebra"


@pytest.fixture(autouse=True)
def _many_names(place: str, tmp_path: Path) -> None:
    """A library with 250 tags and 250 projects, and one more of each that comes last."""
    names = [f"{n:03}" for n in range(250)]
    records = [
        {
            "id": name,
            "title": name,
            "namespace": f"/work/{name}",
            "metadata": {"tags": [f"tag{name}"]},
            "messages": [{"role": "user", "content": "about stripes"}],
        }
        for name in [*names, "zebra"]
    ]
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"conversations": records}), encoding="utf-8")
    with recollect.open(place) as library:
        library.import_path(export)
        assert len(library.facets()["tags"]) == len(library.facets()["projects"]) == 200
        assert RARE not in dict(library.facets()["projects"])


@pytest.mark.both_stores
def test_a_query_names_a_project_by_its_folder(library: recollect.Library) -> None:
    assert [hit.conversation_id for hit in library.search("stripes in:zebra").hits] == ["zebra"]
    assert full_names(library._store, ["zebra"]) == (RARE,)
    assert list_projects(library).endswith("and 239 more.")


def test_the_search_box_completes_every_name(library: recollect.Library) -> None:
    def completions(text: str) -> list[str]:
        return [completion.label for completion in complete(library, text, len(text))]

    assert completions("tag:tagz") == ["tag:tagzebra"]
    assert completions("in:zeb") == [f"in:{RARE}"]
    assert len(completions("tag:")) == 8


def test_the_command_line_knows_every_name(run: Any) -> None:
    assert "zebra" in run("search", "stripes", "--project", "zebra")
    error = run("list", "--tag", "tagzebrq", fails=True)
    assert "tagzebra" in error
