"""predict --watch: what arrives is predicted once, whoever is killed."""
import json
import os
import shutil
import signal
import subprocess

import numpy as np
import pytest
from bundle_support import bundle, coldframe, made_exams, study
from test_privacy import store
from training_support import PROGRAM
from tuning_support import PIXELS

ARRIVALS = 8


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch")
    made = study(folder, "--random-weights", 1, "--architecture", "vit_tiny_patch16_224", pixels=[*PIXELS[:-2], "--pool", "mean"])
    bundle(made)
    made.bundle = folder / "model.bundle"
    made_exams(folder / "more", ARRIVALS, seed=2)
    return made


def arrive(made, incoming, number, complete=True):
    """A study of two images; `complete`: with the receiver's marker."""
    folder = incoming / f"study-{number}"
    folder.mkdir(exist_ok=True)
    for frame in range(2):
        shutil.copy(made.folder / f"more/{number}-{frame}.png", folder / f"{frame}.png")
    if complete:
        (incoming / f"study-{number}.done").touch()


def words(made, incoming, out, *more):
    return ["predict", "--bundle", made.bundle, "--watch", incoming, "--out", out, "--device", "cpu", *more]


def table(out):
    return (out / "predictions.csv").read_text().splitlines()[1:]


def inputs(out):
    return [line.split(",")[0] for line in table(out)]


def results(out):
    return sorted(path.stem for path in (out / "results").glob("*.json"))


def test_kills_lose_and_repeat_nothing(made, tmp_path):
    """The watcher is killed whenever a result has appeared, while exams arrive in pieces."""
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    seen, written = set(), {}
    for number in range(ARRIVALS):
        arrive(made, incoming, number, complete=number % 2 == 0)
        if number % 2 == 0:
            continue
        command = [str(PROGRAM), *map(str, words(made, incoming, out, "--marker", "done"))]
        watcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in watcher.stderr:  # an event: one more is predicted
            if "is predicted" in line:
                break
        watcher.send_signal(signal.SIGKILL)
        watcher.wait()
        watcher.stderr.close()
        seen |= set(results(out))
        written |= {name: (out / "results" / f"{name}.json").stat().st_mtime_ns for name in results(out) if name not in written}
        (incoming / f"study-{number}.done").touch()
    assert seen
    coldframe(*words(made, incoming, out, "--marker", "done", "--once"))
    assert inputs(out) == results(out) == [f"study-{number}" for number in range(ARRIVALS)]
    for name, time in written.items():
        assert (out / "results" / f"{name}.json").stat().st_mtime_ns == time, "it was predicted again"
    before = (out / "predictions.csv").read_bytes()
    coldframe(*words(made, incoming, out, "--marker", "done", "--once"))
    assert (out / "predictions.csv").read_bytes() == before


def test_results_are_those_of_predict(made, tmp_path):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    for number in range(2):
        arrive(made, incoming, number)
    coldframe(*words(made, incoming, out, "--marker", "done", "--once"))
    for number in range(2):
        coldframe("predict", "--bundle", made.bundle, "--input", incoming / f"study-{number}", "--device", "cpu", "--out",
                  tmp_path / "p.csv", "--overwrite")
        rows = [line.split(",") for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
        assert json.loads((out / f"results/study-{number}.json").read_text())["rows"] == rows


def test_what_is_being_written_waits(made, tmp_path):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    for number in range(3):
        arrive(made, incoming, number, complete=False)
    for path in [*incoming.rglob("*")]:
        os.utime(path, (1e9, 1e9))
    (incoming / "study-1/2.png.part").write_bytes(b"")
    os.utime(incoming / "study-1/2.png.part", (1e9, 1e9))
    os.utime(incoming / "study-2/0.png")  # just now
    (incoming / "broken").mkdir()
    (incoming / "broken/a.png").write_bytes(b"no image")
    for path in [incoming / "broken/a.png", incoming / "broken"]:
        os.utime(path, (1e9, 1e9))
    coldframe(*words(made, incoming, out, "--once", "--quiet-for", 1000), expect=1)
    assert results(out) == ["broken", "study-0"] and inputs(out) == ["study-0"]
    broken = json.loads((out / "results/broken.json").read_text())
    assert not broken["rows"] and "no known kind" in broken["failures"][0]["reason"]


def test_results_of_another_bundle_are_refused(made, tmp_path):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    coldframe(*words(made, incoming, out, "--once"))
    bundle(made, "other.bundle", "--name", "another")
    refused = ["predict", "--bundle", made.folder / "other.bundle", "--watch", incoming, "--out", out, "--once"]
    assert "of another bundle" in coldframe(*refused, expect=2).stderr


def test_a_damaged_result_is_named(made, tmp_path):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    coldframe(*words(made, incoming, out, "--once"))
    (out / "results/study-7.json").write_text('{"stamp": "", "header": [], "rows": []}')
    assert "results/study-7.json' is no whole result of --watch; remove it" in coldframe(
        *words(made, incoming, out, "--once"), expect=3).stderr


def test_odd_arrivals_are_results_and_others_follow(made, tmp_path):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    latin = os.fsencode(incoming) + b"/caf\xe9"
    os.mkdir(latin)
    shutil.copy(made.folder / "more/0-0.png", os.fsdecode(latin + b"/bild\xe9.png"))
    shutil.copy(made.folder / "more/0-0.png", incoming / "alone.png")  # to which --exam-from cannot apply
    os.mkdir(incoming / ("n" * 253))
    shutil.copy(made.folder / "more/0-0.png", incoming / ("n" * 253) / "0.png")
    store(os.fsdecode(latin + b"/herz\xe9.dcm"), 1, np.random.default_rng(1))
    (incoming / "\x1b[2J\u202e").mkdir()  # what would clear a terminal and turn its lines
    shutil.copy(made.folder / "more/0-0.png", incoming / "\x1b[2J\u202e/0.png")
    (incoming / "\x1b[2J\u202e.done").touch()
    (incoming / "list.csv").write_text(f"exam,path\nx,{made.folder / 'more/0-0.png'}\n")
    for name in [latin, os.fsencode(incoming / "alone.png"), os.fsencode(incoming / "list.csv")]:
        open(name + b".done", "w").close()
    arrive(made, incoming, 1)
    command = words(made, incoming, out, "--marker", "done", "--once", "--exam-from", "(?<exam>[^/]+)/?")
    done = subprocess.run([str(PROGRAM), *map(str, command)], capture_output=True, text=True, errors="replace")
    told = done.stderr
    assert done.returncode == 1, told
    found = {json.loads(path.read_text())["input"]: json.loads(path.read_text()) for path in (out / "results").glob("*.json")}
    assert set(found) == {"caf%E9", "alone.png", "list.csv", "study-1", "\x1b[2J\u202e"}
    assert not found["caf%E9"]["failures"] and [row[0] for row in found["caf%E9"]["rows"]] == ["OT-547e7aa306", "caf%E9"]
    assert r"'\u001b[2J\u202e' is predicted" in told and "\x1b" not in told and "\u202e" not in told
    assert "--exam-from" in found["alone.png"]["failures"][0]["reason"]
    assert "table" in found["list.csv"]["failures"][0]["reason"] and not found["list.csv"]["rows"]
    assert found["study-1"]["rows"] and not found["study-1"]["failures"]
    assert "1 arrival not complete" in told


def test_failures_that_pass_are_predicted_again(made, tmp_path):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    whole = (made.folder / "more/0-0.png").read_bytes()
    (incoming / "late.png").write_bytes(whole[: len(whole) // 2])
    (incoming / "late.png.done").touch()
    coldframe(*words(made, incoming, out, "--marker", "done", "--once"), expect=1)
    failed = (out / "results/late.png.json").read_text()
    assert json.loads(failed)["failures"]
    coldframe(*words(made, incoming, out, "--marker", "done", "--once"), expect=1)
    assert (out / "results/late.png.json").read_text() == failed
    (incoming / "late.png").write_bytes(whole)
    coldframe(*words(made, incoming, out, "--marker", "done", "--once"))
    assert inputs(out) == ["late.png"]


def test_a_clock_that_is_behind_holds_nothing_up(made, tmp_path):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    arrive(made, incoming, 0, complete=False)
    for path in [*incoming.rglob("*")]:
        os.utime(path, (4e9, 4e9))  # the year 2096
    assert "1 arrival not complete" in coldframe(*words(made, incoming, out, "--once")).stderr
    command = [str(PROGRAM), *map(str, words(made, incoming, out, "--quiet-for", 1))]
    watcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert any("'study-0' is predicted" in line for line in watcher.stderr)
    watcher.send_signal(signal.SIGKILL)
    watcher.wait()
    watcher.stderr.close()


@pytest.mark.parametrize("watch, out", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a", "b/../a/c"), ("link", "a/c")])
def test_results_among_arrivals_are_refused(made, tmp_path, watch, out):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    said = coldframe(*words(made, tmp_path / watch, tmp_path / out, "--once"), expect=2).stderr
    assert "choose an --out elsewhere" in said or (watch == out and "is --watch" in said)


@pytest.mark.parametrize("more, why", [(["--json"], "--json does not go"), (["--columns", "exam=a"], "--columns is for a manifest"),
                                       (["--frame-columns", "a"], "--frame-columns is for a manifest")])
def test_options_that_would_do_nothing_are_refused(made, tmp_path, more, why):
    assert why in coldframe(*words(made, tmp_path, tmp_path / "out", *more), expect=2).stderr
    for option in [["--once"], ["--marker", "done"], ["--quiet-for", 30]]:
        assert f"{option[0]} is for --watch" in coldframe(
            "predict", "--bundle", made.bundle, "--input", tmp_path, "--out", tmp_path / "p.csv", *option, expect=2).stderr
