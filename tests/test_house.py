"""No gauge of tools/house.py is above its ceiling."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full


def test_the_code_stays_as_small_as_it_is() -> None:
    program = Path(__file__).parents[1] / "tools" / "house.py"
    gauges = subprocess.run([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert gauges.returncode == 0, gauges.stdout
