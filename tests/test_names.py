"""Names are nouns and verbs of the trade."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("recollect", "tests", "bench", "tools", "examples")


@pytest.fixture(scope="module")
def house() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "tools/house.py")))


@pytest.mark.full
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_a_bare_participle(house: SimpleNamespace, folder: str) -> None:
    assert house.measure(ROOT / folder).participles == []


def test_a_participle_is_noticed_wherever_a_name_is_introduced(
    house: SimpleNamespace, tmp_path: Path
) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import os as said\nfound = 1\n\nclass Shown: ...\n\ndef told(given, *, hits): ...\n"
    )
    names = [line.rpartition(" ")[2] for line in house.measure(tmp_path).participles]
    assert sorted(names) == ["Shown", "found", "given", "said", "told"]
