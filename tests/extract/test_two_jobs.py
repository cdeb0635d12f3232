"""Tests two jobs on one cache: the one that comes second, while the first has not begun to write, loses nothing."""
import json
import subprocess
import time

import numpy as np
import pytest
import torch
from parts_support import BUILD, FRAMES, SIDE, Cache, environment
from PIL import Image

EXAMS = 4


class Means(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean([2, 3])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("two"), np.random.default_rng(0)
    rows = ["exam,path"]
    for exam in range(EXAMS):
        for frame in range(FRAMES):
            Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(folder / f"{exam}-{frame}.png")
            rows.append(f"E{exam},{exam}-{frame}.png")
    (folder / "exams.csv").write_text("\n".join(rows) + "\n")
    torch.jit.script(Means()).save(folder / "slow.pt")
    return folder


def command(made, out, *more):
    return [str(word) for word in (BUILD / "bin/coldframe", "extract", "--input", made / "exams.csv", "--out", out, "--backbone",
                                   made / "slow.pt", "--image-size", SIDE, "--mean", 0.5, "--std", 0.5, "--device", "cpu", *more)]


def extract(made, out, *more):
    return subprocess.run(command(made, out, *more), capture_output=True, text=True, env=environment())


class Held:
    """A job that has looked at the cache and waits for its weights."""

    def __init__(self, made, folder, out, *more):
        self.hold, trace = folder / "hold", folder / "trace"
        self.hold.touch()
        held = dict(LD_PRELOAD=BUILD / "tests/failing_files.so", COLDFRAME_TEST_FAULTS_UNDER=made / "slow.pt",
                    COLDFRAME_TEST_FAULTS_EVERY=0, COLDFRAME_TEST_FAULTS_LOCKS="yes", COLDFRAME_TEST_FAULTS_TRACE=trace,
                    COLDFRAME_TEST_FAULTS_HOLD=self.hold)
        self.process = subprocess.Popen(command(made, out, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=environment(**held))
        while not trace.exists() and self.process.poll() is None:
            time.sleep(0.005)
        assert self.process.poll() is None, self.process.communicate()[1]

    def release(self):
        self.hold.unlink()
        said = self.process.communicate()[1]
        return self.process.returncode, said


def test_a_second_job_is_refused_before_it_has_looked(made, tmp_path):
    for name in ("x.cache", "x.h5"):
        held = Held(made, tmp_path, tmp_path / name)
        for other in ([], ["--part", "0/2"]) if name == "x.cache" else ([],):
            refused = extract(made, tmp_path / name, *other)
            assert refused.returncode == 3 and "is already being written by process" in refused.stderr, refused.stderr
        code, said = held.release()
        assert code == 0, said
        assert list(Cache(tmp_path / name).exams["exam"]) == [f"E{exam}" for exam in range(EXAMS)]
        (tmp_path / "trace").unlink()


def test_a_job_without_parts_waits_for_the_parts(made, tmp_path):
    held = Held(made, tmp_path, tmp_path / "x.cache", "--part", "0/2")
    refused = extract(made, tmp_path / "x.cache", "--part", "off")
    assert refused.returncode == 3 and "is already being written by process" in refused.stderr, refused.stderr
    other = extract(made, tmp_path / "x.cache", "--part", "1/2")
    assert other.returncode == 0, other.stderr
    code, said = held.release()
    assert code == 0, said
    finished = subprocess.run([BUILD / "bin/coldframe-cache", "finish", tmp_path / "x.cache"], capture_output=True, text=True)
    assert finished.returncode == 0 and len(Cache(tmp_path / "x.cache").exams) == EXAMS, finished.stderr
    assert not list((tmp_path / "x.cache").glob(".*"))


def test_the_monitor_replaces_no_file_and_reads_none_of_the_jobs_own(made, tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("exam,label\nE0,1\n")
    for monitor, said in ((table, "labels.csv' is there already"), (made / "exams.csv", "is --input"), (made / "slow.pt", "is --backbone")):
        before = monitor.read_bytes()
        refused = extract(made, tmp_path / "x.cache", "--monitor", monitor)
        assert refused.returncode == 2 and said in refused.stderr, refused.stderr
        assert monitor.read_bytes() == before and not (tmp_path / "x.cache").exists()
    for rows in (1, 2):  # the same command again goes on with its table
        done = extract(made, tmp_path / "x.cache", "--monitor", tmp_path / "load.csv", "--json")
        assert done.returncode == 0 and json.loads(done.stdout)["resources"], done.stderr
        assert len((tmp_path / "load.csv").read_text().splitlines()) >= 1 + rows
