"""A driver that names two GPUs on which LibTorch computes nothing: a job tells, and goes on where it may."""
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

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

    start.words = jobs
    return start


@pytest.fixture
def begin(run, tmp_path):
    """Starts an extraction whose driver is starting; returns it, and what the driver waits for until it is closed."""
    os.mkfifo(tmp_path / "pipe")
    variables = {"LD_LIBRARY_PATH": str(tmp_path), "COLDFRAME_TEST_SLOW_DRIVER": str(tmp_path / "pipe")}

    def start(*words):
        job = subprocess.Popen([training_support.BUILD / "bin/coldframe-train_temporal", "extract", *run.words["extract"], "--out",
                                tmp_path / "x.h5", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | variables)
        while job.poll() is None:
            try:
                return job, os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:  # until the driver reads there
                assert error.errno == errno.ENXIO
                time.sleep(0.01)
        raise AssertionError(job.communicate()[1])

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


def test_a_wrong_input_is_told_before_the_driver_has_started(begin, tmp_path):
    (tmp_path / "image.png").unlink()
    job, driver = begin("--device", "cuda")
    told = job.stderr.readline()
    assert "image.png" in told and job.poll() is None  # it ends when the driver lets it
    os.close(driver)
    assert job.communicate()[1] == "" and job.returncode == 3, told


def test_ctrl_c_while_the_driver_starts_stops_the_job(begin, tmp_path):
    job, driver = begin("--device", "auto")
    job.send_signal(signal.SIGINT)
    os.close(driver)
    told = job.communicate()[1]
    assert job.returncode == 75 and "run the same command again" in told, told
    assert not (tmp_path / "x.h5").exists()
