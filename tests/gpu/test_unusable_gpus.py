"""A driver that names two GPUs on which LibTorch computes nothing: a job tells, and goes on where it may."""
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("train_temporal", "support")]
import training_support  # noqa: E402
from PIL import Image  # noqa: E402


@pytest.fixture
def run(tmp_path):
    shutil.copy(training_support.BUILD / "tests/made_up_gpus.so", tmp_path / "libcuda.so.1")
    cache = training_support.ramp_cache(tmp_path, count=12, frames=3, patients=12)
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(tmp_path / "image.png")
    jobs = {"train": ["--cache", cache, "--target", "label", "--folds", "2", "--epochs", "1", "--bootstrap", "20"],
            "extract": ["--input", tmp_path / "image.png", "--random-weights", "0", "--architecture", "vit_tiny_patch16_224",
                        "--image-size", "32", "--pool", "cls", "--mean", "0.5", "--std", "0.5"]}

    def start(job, *words):
        return subprocess.run([training_support.BUILD / "bin/coldframe", job, *jobs[job], "--out", tmp_path / "out", *words],
                              capture_output=True, text=True, env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)})

    return start


@pytest.mark.parametrize("job", ["train", "extract"])
def test_auto_is_the_cpu_and_says_so(run, job):
    done = run(job, "--device", "auto")
    assert done.returncode == 0 and done.stderr.count("computing on the CPU: LibTorch") == 1, done.stderr


@pytest.mark.parametrize("job, words", [("train", ["--device", "cuda"]), ("train", ["--device", "cuda:1,cuda:0"]),
                                        ("extract", ["--device", "cuda"]), ("extract", ["--devices", "0,1"])])
def test_who_names_a_gpu_hears_why_it_cannot_be_used(run, job, words):
    done = run(job, *words)
    assert done.returncode == 3 and "--device cuda" in done.stderr and "LibTorch" in done.stderr, done.stderr
