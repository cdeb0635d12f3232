"""A dozen pairs of commands that write side by side; tests/soak/pairs takes two hundred."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_what_a_command_has_reported_is_there_beside_another_one():
    done = subprocess.run([sys.executable, ROOT / "tests" / "soak" / "pairs", "12", "4"], capture_output=True, text=True)
    assert done.returncode == 0 and "pairs 12" in done.stdout, done.stdout + done.stderr
