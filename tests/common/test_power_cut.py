"""A power cut under each command that writes; tests/soak/power_cut takes a hundred."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk")
def test_what_a_command_has_reported_outlives_a_power_cut():
    done = subprocess.run([sys.executable, ROOT / "tests" / "soak" / "power_cut", "11", "2"], capture_output=True, text=True)
    if done.returncode == 2:
        pytest.skip(done.stdout)
    assert done.returncode == 0 and "cuts 11" in done.stdout, done.stdout + done.stderr
