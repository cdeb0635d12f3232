"""`train --part`: one run by several processes, whatever starts them and whichever of them dies."""
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
FITS = ["--folds", 3, "--seeds", 2, "--compare", "mean,single", "--epochs", 3, "--threads", 1, "--model", "auto"]


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
    return ramp_cache(tmp_path_factory.mktemp("parts"), 60, ragged=True)


def one_process(cache, folder, *fits):
    succeed(*words(cache, folder / "run", *fits))
    return content(folder / "run")


@pytest.fixture(scope="module")
def alone(cache, tmp_path_factory):
    return one_process(cache, tmp_path_factory.mktemp("alone"), *FITS)


def part(command, index, count=4):
    """Starts one part, as task `index` of a SLURM array."""
    return start([*command, "--part", "auto"], SLURM_ARRAY_TASK_ID=index, SLURM_ARRAY_TASK_MIN=0,
                 SLURM_ARRAY_TASK_MAX=count - 1, SLURM_ARRAY_TASK_STEP=1, SLURM_ARRAY_TASK_COUNT=count)


def test_four_tasks_of_an_array_give_the_run_of_one(cache, alone, tmp_path):
    out = tmp_path / "run"
    command = words(cache, out, *FITS)
    said = ended([part(command, index) for index in range(4)])
    assert all("all of its fits are done" in errors and "--resume" in errors for _, errors in said), said
    assert [path.name for path in tmp_path.iterdir()] == ["run.unfinished"]
    records = {path.name: path.stat().st_ino for path in (tmp_path / "run.unfinished" / "state").glob("*.record")}
    report, = ended([start([*command, "--resume"])])
    assert "report: " in report[1] and len(records) >= 18
    assert content(out) == alone
    assert [path.name for path in tmp_path.iterdir()] == ["run"] and not (out / "state").exists()
    late, = ended([part(command, 2)])
    assert "nothing to resume" in late[1]


def test_each_fit_is_in_one_part(cache, tmp_path):
    command = words(cache, tmp_path / "run", *FITS)
    seen = set()
    for index in range(4):
        ended([start([*command, "--part", f"{index}/4"])])
        new = {path.name for path in (tmp_path / "run.unfinished" / "state").glob("*.record")} - seen
        assert new
        seen |= new
    complete = {name: os.stat(tmp_path / "run.unfinished" / "state" / name).st_ino for name in seen}
    again, = ended([start([*command, "--part", "1/4"])])
    assert {name: os.stat(tmp_path / "run.unfinished" / "state" / name).st_ino for name in seen} == complete, again


def test_who_writes_the_report_fits_what_is_missing(cache, alone, tmp_path):
    command = words(cache, tmp_path / "run", *FITS)
    ended([start([*command, "--part", "1/3"])])
    ended([start([*command, "--resume"])])
    assert content(tmp_path / "run") == alone


def test_a_search_is_divided_too(cache, tmp_path):
    fits = ["--folds", 2, "--search", 3, "--compare", "mean", "--epochs", 3, "--threads", 1, "--model", "auto"]
    (tmp_path / "alone").mkdir()
    alone = one_process(cache, tmp_path / "alone", *fits)
    command = words(cache, tmp_path / "run", *fits)
    ended([start([*command, "--part", f"{index}/3"]) for index in range(3)])  # the third has no fold
    ended([start([*command, "--resume"])])
    assert content(tmp_path / "run") == alone


def progress(folder):
    """Rises whenever a fit has been checkpointed or is done."""
    seen = []
    for path in folder.glob("run.unfinished/state/*"):
        with contextlib.suppress(FileNotFoundError):
            if path.suffix in (".checkpoint", ".record"):
                seen.append((path.name, path.stat().st_ino))
    return sorted(seen)


def test_parts_that_are_killed_and_run_again_lose_nothing(cache, alone, tmp_path):
    command, rng = words(cache, tmp_path / "run", *FITS), random.Random(0)
    tasks = {index: part(command, index) for index in range(4)}
    done, kills = set(), 0
    while len(done) < 4:
        before = progress(tmp_path)
        while progress(tmp_path) == before and all(task.poll() is None for task in tasks.values()):
            time.sleep(0.001)
        for index in [index for index, task in tasks.items() if task.poll() is not None]:
            ended([tasks.pop(index)])
            done.add(index)
        if tasks and kills < 20:
            index = rng.choice(sorted(tasks))
            tasks[index].kill()
            tasks[index].communicate()
            tasks[index] = part(command, index)
            kills += 1
    assert kills >= 4
    ended([start([*command, "--resume"])])
    assert content(tmp_path / "run") == alone


def at_work(process, state):
    while not any(state.glob("part-*.lock")) or not (state.parent / "config.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_who_has_other_settings_or_the_same_part_is_refused(cache, tmp_path):
    out, state = tmp_path / "run", tmp_path / "run.unfinished" / "state"
    command = words(cache, out, "--folds", 2, "--epochs", 1000000, "--patience", 0, "--threads", 1)  # until it is stopped
    first = start([*command, "--part", "0/2"])
    at_work(first, state)
    other = coldframe(*command, "--part", "1/2", "--seed", 5)
    assert other.returncode == 2 and "seed: the run has 0, now 5" in other.stderr, other.stderr
    same = coldframe(*command, "--part", "0/2")
    assert same.returncode == 3 and "another process is at part 0 of 2" in same.stderr, same.stderr
    lone = coldframe(*command, "--resume")
    assert lone.returncode == 3 and "another process is training" in lone.stderr, lone.stderr
    first.send_signal(signal.SIGTERM)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 75 and "run the same command again" in errors
    assert any(state.glob("*.checkpoint")) and not any(state.glob("part-*.lock")), "what it gave up is free"


@pytest.mark.parametrize("verb, more, environment, said", [
    ("train", [], {"RANK": 0, "WORLD_SIZE": 2}, "--part auto"),
    ("train", [], {"SLURM_STEP_ID": 0, "SLURM_PROCID": 1, "SLURM_NTASKS": 2}, "--part auto"),
    ("train", ["--part", "auto"], {"RANK": 0}, "RANK is there and WORLD_SIZE is not"),
    ("train", ["--part", "2/2"], {}, "expected I/N"),
    ("train", ["--part", "0/2", "--overwrite"], {}, "--overwrite"),
    ("train", ["--part", "0/2", "--resume"], {}, "--resume"),
    ("predict", [], {"RANK": 0, "WORLD_SIZE": 2}, "one process"),
])
def test_what_cannot_be_divided_is_refused(tmp_path, verb, more, environment, said):
    process = start([verb, "--cache", tmp_path / "none", "--target", "label", "--out", tmp_path / "run", *more], **environment)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and said in errors, errors
    assert list(tmp_path.iterdir()) == []
