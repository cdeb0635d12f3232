"""predict --watch: what arrives is predicted once, whoever is killed."""
import json
import os
import shutil
import signal
import subprocess

import pytest
from bundle_support import PROGRAM, bundle, coldframe, made_exams, study
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


def inputs(out):
    return [line.split(",")[0] for line in (out / "predictions.csv").read_text().splitlines()[1:]]


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
