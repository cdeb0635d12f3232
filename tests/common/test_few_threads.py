"""Extraction, looks at a cache and training on a system that refuses further threads, after each number of them: they go
on with what they have, or say so and end; they never crash, hang or leave a wrong result."""

import os
import pathlib
import subprocess

import pytest

import shared

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
SHIM = BUILD / "tests" / "few_threads.so"
EXTRACT = ["--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--image-size", 32, "--pool", "mean",
           "--mean", 0.5, "--std", 0.5, "--device", "cpu", "--precision", "fp32", "--threads", 2, "--decode-threads", 3,
           "--batch", 4]
TRAIN = ["--target", "label", "--folds", 2, "--epochs", 2, "--threads", 4]


def coldframe(*words, granted=None, refused=None):
    environment = dict(os.environ, OMP_NUM_THREADS="2")  # LibTorch's pool, on any machine
    if granted is not None:
        environment |= {"LD_PRELOAD": str(SHIM), "COLDFRAME_TEST_THREADS": str(granted), "COLDFRAME_TEST_REFUSED": str(refused)}
    return subprocess.run([BUILD / "bin" / "coldframe", *map(str, words)], env=environment, capture_output=True,
                          text=True, timeout=120)


def sweep(refused, *words, out=None, again=()):
    """Runs the command with 0, 1, 2 … 16 threads, or until none is refused, to `out` and their number where it writes; gives those
    with which it did its work. What it did not finish it does later, with `again`."""
    finished = []
    for granted in range(17):
        more = ["--out", out.with_name(f"{granted}-{out.name}")] if out else []
        refused.unlink(missing_ok=True)
        done = coldframe(*words, *more, granted=granted, refused=refused)
        if done.returncode == 0:
            finished.append(granted)
            if not refused.exists():
                break
            continue
        # LibTorch's own pool ends the program by itself, with words of its own.
        assert done.returncode == 3 or "libgomp" in done.stderr, (granted, done.returncode, done.stderr)
        assert "thread" in done.stderr.lower(), (granted, done.stderr)
        if out:
            assert coldframe(*words, *more, *again).returncode == 0
    return finished


@pytest.fixture
def exams():
    return shared.made_by(BUILD / "bin" / "coldframe-make-exams", "--out", shared.OUT, "--exams", 12, "--seed", 1) / "exams.csv"


@pytest.fixture
def cache(exams):
    return shared.made_by(BUILD / "bin" / "coldframe", "extract", "--input", exams, "--out", shared.OUT, *EXTRACT, name="x.cache")


@pytest.fixture
def refused(tmp_path_factory):
    return tmp_path_factory.mktemp("refused") / "thread"


def test_extraction(exams, cache, refused, tmp_path):
    finished = sweep(refused, "extract", "--input", exams, *EXTRACT, out=tmp_path / "exams.cache")
    assert finished and finished[0] > 0, "it cannot do without any"
    for made in tmp_path.iterdir():
        same = coldframe("cache", "diff", cache, made)
        assert same.returncode == 0, same.stdout


@pytest.mark.parametrize("words", [("extract", "--input", "{exams}", "--dry-run", *EXTRACT),
                                   ("cache", "verify", "{cache}"), ("cache", "stats", "{cache}"),
                                   ("cache", "diff", "{cache}", "{cache}")], ids=lambda words: "-".join(words[:2]))
def test_looking(exams, cache, refused, words):
    assert sweep(refused, *(str(word).format(exams=exams, cache=cache) for word in words))


@pytest.mark.parametrize("features", ["device", "stream"])
def test_training(cache, refused, tmp_path, features):
    whole, words = tmp_path / "whole", ["train", "--cache", cache, *TRAIN, "--features", features]
    assert coldframe(*words, "--out", whole).returncode == 0
    finished = sweep(refused, *words, out=tmp_path / "run", again=["--resume"])
    assert finished and finished[0] > 0, "it cannot do without any"
    for made in tmp_path.iterdir():
        assert (made / "predictions.csv").read_bytes() == (whole / "predictions.csv").read_bytes()
