"""`train --shared`: one run by several processes, whatever starts them and whichever of them dies."""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
from training_support import PROGRAM, coldframe, quick, ramp_cache, succeed

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
FITS = ["--folds", 3, "--seeds", 2, "--compare", "mean,single", "--epochs", 3, "--threads", 1, "--inputs", "auto"]
LONG = ["--folds", 2, "--seeds", 2, "--epochs", 300, "--patience", 0, "--threads", 1]


def words(cache, out, *more):
    return ["train", "--cache", cache, "--target", "label", "--out", out, *quick(*more)]


def start(command, **environment):
    clean = {name: value for name, value in os.environ.items()
             if name not in LAUNCHERS and not name.startswith("SLURM_")}
    return subprocess.Popen([str(word) for word in [PROGRAM, *command]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=clean | {name: str(value) for name, value in environment.items()})


def ended(processes):
    """What each has said to the end; all of them well."""
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return said


def content(run):
    """Of a finished run, but for what differs between two runs by one process: when, and how much memory."""
    files = {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*")
             if path.suffix in (".csv", ".safetensors")}
    summary = json.loads((run / "summary.json").read_text())
    for key in ("seconds", "memory"):
        summary.pop(key)
    page = re.sub(r"<dt>(time|peak memory|tensors on the device)</dt><dd>.*?</dd>", "", (run / "report.html").read_text())
    return files | {"summary": summary, "page": page, "config": (run / "config.json").read_text()}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return ramp_cache(tmp_path_factory.mktemp("shared"), 60, ragged=True)


def one_process(cache, folder, *fits):
    succeed(*words(cache, folder / "run", *fits))
    return content(folder / "run")


@pytest.fixture(scope="module")
def alone(cache, tmp_path_factory):
    return one_process(cache, tmp_path_factory.mktemp("alone"), *FITS)


def test_four_processes_give_the_run_of_one(cache, alone, tmp_path):
    out = tmp_path / "run"
    command = words(cache, out, *FITS, "--shared")
    said = ended([start(command, RANK=rank, WORLD_SIZE=4, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=4) for rank in range(4)])
    assert content(out) == alone
    assert [path.name for path in tmp_path.iterdir()] == ["run"] and not (out / "state").exists()
    wrote = [errors for _, errors in said if "report: " in errors]
    assert len(wrote) == 1, said
    assert all("is finished" in errors for _, errors in said if errors not in wrote)
    late, = ended([start(command)])
    assert "nothing to resume" in late[1]


def test_a_search_is_shared_too(cache, tmp_path):
    fits = ["--folds", 2, "--search", 3, "--compare", "mean", "--epochs", 3, "--threads", 1, "--inputs", "auto"]
    (tmp_path / "alone").mkdir()
    alone = one_process(cache, tmp_path / "alone", *fits)
    ended([start(words(cache, tmp_path / "run", *fits, "--shared")) for _ in range(3)])
    assert content(tmp_path / "run") == alone


def progress(folder):
    """Rises whenever somebody has begun or finished a fit. A claim without content says nothing yet."""
    seen = []
    for path in folder.glob("run.unfinished/state/*"):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            if status.st_size and path.suffix in (".claim", ".record"):
                seen.append((path.name, status.st_ino))
    return sorted(seen)


def test_processes_that_are_killed_lose_nothing(cache, alone, tmp_path):
    out, rng = tmp_path / "run", random.Random(0)
    command = words(cache, out, *FITS, "--shared")
    processes, kills = [start(command) for _ in range(2)], 0
    while kills < 6:
        before = progress(tmp_path)
        while progress(tmp_path) == before and all(process.poll() is None for process in processes):
            time.sleep(0.001)
        if any(process.poll() is not None for process in processes):
            break
        killed = processes.pop(rng.randrange(2))
        killed.kill()
        killed.communicate()
        kills += 1
        processes.append(start(command))
    ended(processes)
    assert kills >= 3
    assert content(out) == alone


def test_who_has_other_settings_or_would_be_alone_is_refused(cache, tmp_path):
    out, state = tmp_path / "run", tmp_path / "run.unfinished" / "state"
    command = words(cache, out, "--folds", 2, "--epochs", 1000000, "--patience", 0, "--threads", 1)  # until it is stopped
    first = start([*command, "--shared"])
    while not any(state.glob("*.claim")) and first.poll() is None:
        time.sleep(0.01)
    other = coldframe(*command, "--shared", "--seed", 5)
    assert other.returncode == 2 and "seed: the run has 0, now 5" in other.stderr, other.stderr
    lone = coldframe(*command, "--resume")
    assert lone.returncode == 3 and "start all with --shared" in lone.stderr, lone.stderr
    first.send_signal(signal.SIGTERM)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 75 and "run the same command again" in errors
    assert any(state.glob("*.checkpoint")) and not any(state.glob("*.claim")), "what it gave up is free"


def halted(processes, so):
    """Stops the processes at a moment at which `so()` holds, however slow they are."""
    while all(process.poll() is None for process in processes):
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        if so():
            return
        for process in processes:
            process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    raise AssertionError([process.communicate() for process in processes])


def test_one_process_takes_up_what_several_left(cache, tmp_path):
    out, state = tmp_path / "run", tmp_path / "run.unfinished" / "state"
    command = words(cache, out, *LONG)
    processes = [start([*command, "--shared"]) for _ in range(2)]
    halted(processes, lambda: any(state.glob("*.record")) and any(state.glob("*.claim")))
    for process in processes:
        process.kill()
        process.communicate()
    assert not out.exists()
    ended([start([*command, "--resume"])])
    (tmp_path / "alone").mkdir()
    assert content(out) == one_process(cache, tmp_path / "alone", *LONG)
    other = coldframe(*command, "--shared", "--seed", 5)
    assert other.returncode == 2 and "seed: the run has 0, now 5" in other.stderr, other.stderr


@pytest.mark.parametrize("verb, more, environment, said", [
    ("train", [], {"RANK": 0, "WORLD_SIZE": 2}, "--shared"),
    ("train", [], {"SLURM_STEP_ID": 0, "SLURM_PROCID": 1, "SLURM_NTASKS": 2}, "--shared"),
    ("train", ["--shared"], {"RANK": 0}, "RANK is there and WORLD_SIZE is not"),
    ("train", ["--shared", "--overwrite"], {}, "--overwrite"),
    ("train", ["--shared", "--monitor", "load.csv"], {}, "--monitor"),
    ("predict", [], {"RANK": 0, "WORLD_SIZE": 2}, "one process"),
])
def test_what_cannot_be_shared_is_refused(tmp_path, verb, more, environment, said):
    process = start([verb, "--cache", tmp_path / "none", "--target", "label", "--out", tmp_path / "run", *more], **environment)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and said in errors, errors
    assert list(tmp_path.iterdir()) == []
