"""Short runs, and what lies in their folders."""
import shutil
import signal
import subprocess
import time

import pytest
from training_support import PROGRAM, coldframe, quick, ramp_cache

SHORT = ["--folds", 2, "--epochs", 1]
LONG = ["--folds", 2, "--seeds", 2, "--epochs", 300, "--patience", 0, "--threads", 2]


def command(cache, out, *more):
    return ["train", "--cache", cache, "--target", "label", "--out", out, *quick(*more)]


def train(cache, out, *more):
    return coldframe(*command(cache, out, *more))


def content(run):
    return {p.relative_to(run): p.read_bytes() for p in run.rglob("*.*")
            if p.suffix in (".csv", ".safetensors")}


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


def interrupt(words, out):
    """Runs from the start until the first fit is done and stops it there; what the program says then."""
    working = out.with_name(out.name + ".unfinished")
    shutil.rmtree(working, ignore_errors=True)  # what an earlier run did is not taken for this one's
    state = working / "state"
    process = subprocess.Popen([PROGRAM, *map(str, words)], stderr=subprocess.PIPE, text=True)
    while not (state.exists() and any(state.glob("*.record"))) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate()
    assert process.returncode == 75, message
    return message


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    cache = ramp_cache(folder, 40)
    result = train(cache, folder / "run", *SHORT)
    assert result.returncode == 0, result.stderr
    return cache, folder / "run"
