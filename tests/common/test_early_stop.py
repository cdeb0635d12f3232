"""Ctrl-C before a program has begun: jobs end with 75 and can be continued, from the first moment on."""

import os
import pathlib
import signal
import subprocess

import pytest

import shared

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
EXTRACT = ["--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--image-size", 32, "--pool", "mean",
           "--mean", 0.5, "--std", 0.5, "--device", "cpu", "--precision", "fp32", "--threads", 2, "--decode-threads", 3,
           "--batch", 4]


@pytest.fixture
def made():
    """(the manifest of exams, their cache)"""
    exams = shared.made_by(BUILD / "bin" / "coldframe-make-exams", "--out", shared.OUT, "--exams", 12, "--seed", 1) / "exams.csv"
    return exams, shared.made_by(BUILD / "bin" / "coldframe", "extract", "--input", exams, "--out", shared.OUT, *EXTRACT,
                                 name="x.cache")


def run(*words, expect=0, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == expect, (done.returncode, done.stderr)
    return done


def jobs(made, out):
    exams, cache = made
    return {"extract": ["extract", "--input", exams, "--out", out, *EXTRACT],
            "train": ["train", "--cache", cache, "--out", out, "--target", "label", "--folds", 2, "--epochs", 2]}


def pending_interrupt():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("job", ["extract", "train"])
def test_while_libraries_are_loaded(made, tmp_path, job):
    name = "coldframe-train_temporal"
    words = jobs(made, tmp_path / "out")[job]
    environment = dict(os.environ, LD_PRELOAD=str(BUILD / "tests" / "signal_at_load.so"), COLDFRAME_TEST_PROGRAM=name)
    assert "Ctrl-C again" in run(BUILD / "bin" / name, *words, expect=75, env=environment).stderr
    run(BUILD / "bin" / "coldframe", *words, *(["--resume"] if (tmp_path / "out.unfinished").exists() else []))


@pytest.mark.parametrize("job", ["extract", "train"])
def test_before_the_program_is_there(made, tmp_path, job):
    """The dispatcher holds the signal until the program that it becomes has its handlers."""
    words = jobs(made, tmp_path / "out")[job]
    environment = dict(os.environ, LD_PRELOAD=str(BUILD / "tests" / "signal_at_load.so"), COLDFRAME_TEST_PROGRAM="-")
    assert "Ctrl-C again" in run(BUILD / "bin/coldframe-train_temporal", *words, expect=75, env=environment,
                                 preexec_fn=pending_interrupt).stderr


def test_tools_that_cannot_be_continued_end_at_once(made):
    run(BUILD / "bin" / "coldframe-cache", "verify", made[1], expect=-signal.SIGINT, preexec_fn=pending_interrupt)
