"""What the tests of the Python package share."""

import os
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("COLDFRAME_BUILD", Path(__file__).resolve().parents[2] / "build"))


@pytest.fixture(scope="module")
def programs_of_the_build():
    """The package starts the programs of the build."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLDFRAME_PROGRAMS", str(BUILD / "bin"))
        yield
