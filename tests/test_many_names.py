"""More tags and projects than are listed: the others are found by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recollect

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


def test_the_command_line_knows_every_name(run: Any) -> None:
    assert "zebra" in run("search", "stripes", "--project", "zebra")
    error = run("list", "--tag", "tagzebrq", fails=True)
    assert "tagzebra" in error
