"""Tests what a job takes of the machine: --memory-budget, --batch, --monitor and --benchmark as a user runs them."""

import csv
import json
import pathlib
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import loaded_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDE, FRAMES = 32, 12
sys.path.insert(0, str(ROOT / "common/python"))

from coldframe import Cache  # noqa: E402


class Hungry(torch.nn.Module):
    """Takes 8 MiB per frame on the way to three features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.mean([2, 3]).repeat(1, 700_000).mul(1.0)
        return wide.reshape(x.shape[0], 700_000, 3).mean(1)


@pytest.fixture
def job(tmp_path):
    rng = np.random.default_rng(0)
    for exam in range(4):
        folder = tmp_path / f"in/e{exam}"
        folder.mkdir(parents=True)
        for frame in range(FRAMES):
            Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(folder / f"{frame:02d}.png")
    torch.jit.script(Hungry()).save(tmp_path / "hungry.pt")
    return tmp_path


def extract(job, out, *extra, expect=0):
    backbone = [] if "--random-weights" in extra else ["--backbone", job / "hungry.pt"]
    done = loaded_program.coldframe("extract", "--input", job / "in", "--out", job / out, *backbone, "--image-size", SIDE,
                                    "--mean", 0.5, "--std", 0.5, "--json", *extra)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def features(job, out):
    cache = Cache(job / out)
    return {exam: np.asarray(cache.features(exam)) for exam in cache.exams["exam"]}


def assert_same_features(job, one, other):
    ours, theirs = features(job, one), features(job, other)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[exam], theirs[exam]) for exam in ours)


def test_a_batch_beyond_the_budget_is_halved_and_nothing_is_lost(job):
    free = json.loads(extract(job, "free.h5", "--batch", "48").stdout)
    done = extract(job, "tight.h5", "--batch", "48", "--memory-budget", "200MiB")
    tight = json.loads(done.stdout)
    assert "out of memory at 48 frames; continuing with 24 per forward pass" in done.stderr
    assert "as many as fit" in tight["batch"]
    assert free["peak_device_bytes"] > 200 * 2**20 >= tight["peak_device_bytes"]
    assert tight["extracted"] == free["extracted"] == {"exams": 4, "frames": 4 * FRAMES}
    assert_same_features(job, "free.h5", "tight.h5")


def test_a_budget_below_the_backbone_says_so_and_leaves_nothing(job):
    done = extract(job, "none.h5", "--memory-budget", "4MiB", expect=3)
    assert "the backbone does not fit on cpu" in done.stderr and not (job / "none.h5").exists()


def test_the_monitor_writes_a_table_and_its_summary(job):
    report = json.loads(extract(job, "a.h5", "--monitor", job / "load.csv").stdout)
    rows = list(csv.DictReader((job / "load.csv").open()))
    assert rows and all(int(row["resident_bytes"]) > 2**20 for row in rows)
    assert report["resources"]["peak_resident_bytes"] >= max(int(row["resident_bytes"]) for row in rows)


def test_benchmark_rates_every_stage_and_writes_no_cache(job):
    report = json.loads(extract(job, "a.h5", "--benchmark", "--thumbnails").stdout)
    assert [stage["stage"] for stage in report["stages"]] == ["decode", "preprocess", "input", "compute", "write"]
    assert all(stage["frames_per_second"] > 0 for stage in report["stages"])
    assert report["bottleneck"] in {stage["stage"] for stage in report["stages"]}
    assert sorted(path.name for path in job.iterdir()) == ["hungry.pt", "in"]


def test_several_devices_give_the_same_cache_and_resume(job):
    vit = ["--random-weights", "0", "--architecture", "vit_tiny_patch16_224", "--pool", "cls+mean", "--precision", "fp32"]
    extract(job, "one.h5", *vit, "--batch", "5")
    two = json.loads(extract(job, "two.h5", *vit, "--devices", "cpu,cpu", "--memory-budget", "2GiB",
                             "--monitor", job / "load.csv").stdout)
    assert two["extracted"] == {"exams": 4, "frames": 4 * FRAMES} and two["device"].count("cpu (") == 2
    assert list(csv.DictReader((job / "load.csv").open()))
    assert_same_features(job, "one.h5", "two.h5")
    again = json.loads(extract(job, "two.h5", *vit, "--devices", "cpu,cpu").stdout)
    assert again["extracted"] == {"exams": 0, "frames": 0} and again["unchanged"] == 4


def test_devices_that_are_not_there_are_refused(job):
    assert "names cuda:0 twice" in extract(job, "a.h5", "--devices", "0,0", expect=2).stderr
    if not torch.cuda.is_available():
        assert "--device cuda:" in extract(job, "a.h5", "--devices", "0,1", expect=3).stderr
