"""Makes once a session, for all of pytest's workers, what many tests make alike."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

OUT = "{out}"  # stands for the path to be written, among the words of a command
FOLDER = "COLDFRAME_TEST_SHARED"  # conftest.py makes this folder before the workers start and removes it at the end


def made_once(key, make, name="made"):
    """The file or folder of this name that make(path) wrote, the first time that a test of this session asked for `key`. A
    test that changes it takes a copy (copy_of)."""
    home = pathlib.Path(os.environ[FOLDER]) / hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "whole").exists():
            shutil.rmtree(home, ignore_errors=True)  # of a worker whose make() failed
            home.mkdir()
            make(home / name)
            (home / "whole").touch()
    return home / name


def made_by(*words, name="made", **variables):
    """What this command writes to OUT, run once for the same words and environment variables."""
    words = [str(word) for word in words]

    def make(path):
        done = subprocess.run([word.replace(OUT, str(path)) for word in words], capture_output=True, text=True,
                              env=os.environ | variables)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"

    return made_once((words, sorted(variables.items())), make, name)


def copy_of(made, to):
    """A copy of what was made, for a test that changes it."""
    return shutil.copytree(made, to) if made.is_dir() else pathlib.Path(shutil.copy(made, to))
