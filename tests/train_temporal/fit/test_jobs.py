"""Fits side by side (--jobs): the same bytes as one after another, within one budget, in flat memory."""
import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pandas as pd
import pytest
from training_support import PROGRAM, quick, ramp_cache, succeed


def words(cache, out, *more):
    return ["train", "--cache", cache, "--target", "label", "--out", out, *quick(*more)]


def content(run):
    files = [path for path in run.rglob("*") if path.suffix in (".csv", ".safetensors")]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def run(command, out):
    succeed(*command)
    return json.loads((out / "summary.json").read_text())


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return ramp_cache(tmp_path_factory.mktemp("jobs"), 60, ragged=True)


def test_fits_side_by_side_and_on_several_devices_give_the_same_bytes(cache, tmp_path):
    fits = ["--folds", 3, "--seeds", 2, "--compare", "mean,transformer,tcn", "--epochs", 6]
    for name, more in {"1": ["--jobs", 1], "2": ["--device", "cpu,cpu"], "3": ["--jobs", 3]}.items():
        run(words(cache, tmp_path / name, *fits, *more, "--threads", 2), tmp_path / name)
    one = content(tmp_path / "1")
    assert len(one) >= 9
    assert content(tmp_path / "2") == one and content(tmp_path / "3") == one


def test_half_precision_gives_the_same_bytes_with_any_jobs(cache, tmp_path):
    """LibTorch's autocast caches weights for all threads together: one fit would empty another's cache."""
    fits = ["--folds", 3, "--seeds", 2, "--compare", "lstm,transformer", "--epochs", 6, "--amp", "bf16", "--threads", 2]
    run(words(cache, tmp_path / "one", *fits, "--jobs", 1), tmp_path / "one")
    one = content(tmp_path / "one")
    assert len(one) >= 9
    for i in range(4):
        run(words(cache, tmp_path / str(i), *fits, "--jobs", 3), tmp_path / str(i))
        assert content(tmp_path / str(i)) == one


FITS = ["--folds", 3, "--epochs", 800, "--patience", 0, "--threads", 2]


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    """The run that no signal stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run(words(cache, out, *FITS), out)
    return out


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_several_fits_in_flight_are_resumed(cache, whole, tmp_path, sent):
    command = words(cache, tmp_path / "cut", *FITS)
    state = tmp_path / "cut.unfinished" / "state"
    for _ in range(8):  # a signal that fell between fits is sent once more
        process = subprocess.Popen([PROGRAM, *map(str, command), "--jobs", "2"], stderr=subprocess.DEVNULL)
        while not any(state.glob("*.record")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(sent)
        assert process.wait() == (75 if sent == signal.SIGINT else -signal.SIGKILL)
        if sent == signal.SIGKILL or len(list(state.glob("*.checkpoint"))) >= 1:
            break
        shutil.rmtree(tmp_path / "cut.unfinished")
    run([*command, "--resume", "--jobs", 3], tmp_path / "cut")
    assert content(tmp_path / "cut") == content(whole)


def losses(folder):
    return pd.read_csv(folder / "metrics.csv")[["train_loss", "validation_loss"]].to_numpy()


def test_side_by_side_they_keep_one_budget(tmp_path):
    cache = ramp_cache(tmp_path, 60, frames=48, dimension=32)
    fits = ["--folds", 2, "--seeds", 2, "--epochs", 3, "--batch", 64, "--hidden", 64, "--threads", 2]
    needed = run(words(cache, tmp_path / "one", *fits, "--jobs", 1), tmp_path / "one")["memory"]["tensors_peak_bytes"]
    memory = run(words(cache, tmp_path / "two", *fits, "--jobs", 2, "--memory-budget", needed),
                 tmp_path / "two")["memory"]
    assert memory["tensors_peak_bytes"] <= needed == memory["budget_bytes"]
    assert memory["exams_at_a_time"] < 40, "half of the budget holds a part of a batch"
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-4)


def peak_mib(command):
    process = subprocess.Popen([PROGRAM, *map(str, command)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss / 1024


def test_memory_stays_flat_over_folds(tmp_path):
    cache = ramp_cache(tmp_path, 60, frames=32, dimension=64)
    fits = ["--folds", 5, "--epochs", 6, "--hidden", 64, "--threads", 2, "--jobs", 2]
    few, many = (peak_mib(words(cache, tmp_path / str(repeats), *fits, "--repeats", repeats)) for repeats in (1, 8))
    assert many - few < 50, (few, many)
