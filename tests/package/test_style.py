"""The package's sources are clean for mypy --strict and ruff, with the settings of pyproject.toml."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "common/python"


@pytest.mark.parametrize("check", [["mypy", "--strict", SOURCES / "coldframe"], ["ruff", "check", SOURCES], ["ruff", "format", "--check", SOURCES]])
def test_sources_are_clean(check, tmp_path):
    settings = {"mypy": ["--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path], "ruff": ["--config", ROOT / "pyproject.toml", "--no-cache"]}
    done = subprocess.run([sys.executable, "-m", *map(str, check), *map(str, settings[check[0]])], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
