"""Precisions: features under limits of OpenMP's threads, and a precision in which features stray.

oneDNN leaves out what threads would have computed that it counted on and did not get: a backbone in bf16 had features with
a cosine of 0.18 to the right ones, and the exit code was 0."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
sys.path.insert(0, str(ROOT / "common/python"))

from coldframe import Cache  # noqa: E402

# The CPU engine's own kernels where it has any, and LibTorch's operators (its blocks are parallel).
BACKBONES = {"engine": "vit_tiny_patch16_224", "operators": "vit_pwee_patch16_reg1_gap_256"}
LIMITS = {"one": {"OMP_THREAD_LIMIT": "1"}, "two": {"OMP_THREAD_LIMIT": "2"}, "dynamic": {"OMP_DYNAMIC": "true"},
          "no team": {"OMP_MAX_ACTIVE_LEVELS": "0"}, "one core": {}}


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    random = np.random.default_rng(3)
    for exam in range(2):
        (folder / f"e{exam}").mkdir()
        for frame in range(3):
            Image.fromarray(random.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(folder / f"e{exam}" / f"{frame}.png")
    return folder


def features(frames, out, backbone, precision, variables=None, cores=None, program=("coldframe", "extract")):
    words = [BUILD / "bin" / program[0], *program[1:], "--input", frames, "--out", out, "--random-weights", 0,
             "--architecture", BACKBONES[backbone], "--image-size", 64, "--pool", "mean", "--mean", 0.5, "--std", 0.5,
             "--device", "cpu", "--precision", precision, "--store", "float32", "--threads", 4]
    done = subprocess.run([str(word) for word in words], env=os.environ | (variables or {}), capture_output=True, text=True,
                          preexec_fn=cores and (lambda: os.sched_setaffinity(0, cores)), timeout=600)
    assert done.returncode == 0, done.stderr
    cache = Cache(out)
    return np.concatenate([np.asarray(cache.features(exam), np.float64) for exam in cache.exams["exam"]]), done.stderr


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.fixture(scope="module")
def exact(frames, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exact")
    return {name: features(frames, folder / f"{name}.h5", name, "fp32")[0] for name in BACKBONES}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_features_are_right(frames, exact, tmp_path, backbone, precision, limit):
    cores = {min(os.sched_getaffinity(0))} if limit == "one core" else None
    found, _ = features(frames, tmp_path / "x.h5", backbone, precision, LIMITS[limit], cores)
    if precision == "fp32":
        assert np.abs(found - exact[backbone]).max() < 1e-5
    else:
        assert cosines(found, exact[backbone]).min() >= 0.9999


def test_a_program_that_is_started_by_itself_heeds_them(frames, exact, tmp_path):
    for limit in ("one", "dynamic"):
        found, _ = features(frames, tmp_path / f"{limit}.h5", "operators", "bf16", LIMITS[limit],
                            program=["coldframe-train_temporal", "extract"])
        assert cosines(found, exact["operators"]).min() >= 0.9999


def test_threads_wait_asleep_unless_somebody_says_otherwise(tmp_path):
    """What `coldframe` hands to the program that it becomes."""
    shutil.copy(BUILD / "bin/coldframe", tmp_path)
    program = tmp_path / "coldframe-train_temporal"
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o755)
    for given, expected in [({}, "passive"), ({"OMP_WAIT_POLICY": "active", "OMP_DYNAMIC": "true"}, "active")]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
        done = subprocess.run([tmp_path / "coldframe", "extract"], env=plain | given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert {f"OMP_WAIT_POLICY={expected}", "OMP_DYNAMIC=false"} <= set(done.stdout.splitlines())


def test_fewer_threads_are_logged(frames, tmp_path):
    _, log = features(frames, tmp_path / "x.h5", "engine", "fp32", LIMITS["two"])
    assert "OpenMP gives a team 2 threads of 4" in log


class Fragile(torch.nn.Module):
    """[B,3,S,S] -> [B,3]: beside 1, bf16 does not tell the image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (1 + 1e-4 * x[:, :, 0, :3].mean(1)) - 1


def test_a_named_precision_in_which_features_stray_ends_the_job(frames, tmp_path):
    torch.jit.script(Fragile()).save(str(tmp_path / "fragile.pt"))
    words = [BUILD / "bin/coldframe", "extract", "--input", frames, "--out", tmp_path / "x.h5", "--backbone",
             tmp_path / "fragile.pt", "--image-size", 64, "--mean", 0.5, "--std", 0.5, "--device", "cpu"]
    words = [str(word) for word in words]
    done = subprocess.run([*words, "--precision", "bf16"], capture_output=True, text=True)
    assert done.returncode == 3 and not (tmp_path / "x.h5").exists()
    assert "--precision bf16: features of the first frames have a cosine of" in done.stderr
    assert "give --precision fp32, or auto" in done.stderr
    assert subprocess.run([*words, "--precision", "fp32"], capture_output=True).returncode == 0
