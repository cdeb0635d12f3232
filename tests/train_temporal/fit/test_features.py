"""The fits are the same bytes wherever features lie (--features), in memory or in the cache."""
import os

import numpy as np
import pytest
from training_support import BUILD, coldframe, make_cache, quick, ramp_cache, ramp_exams


def train(cache, out, *more):
    return coldframe("train", "--cache", cache, "--target", "label", "--out", out, *quick(*more))


def content(run):
    files = [path for path in run.rglob("*") if path.suffix in (".csv", ".safetensors")]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def ragged_exams(missing):
    exams, features = ramp_exams(72, ragged=True)
    for number in range(0, 72, 9):
        exams[number]["present"][2] = 0
        features[number][2] = missing
    return exams, features


@pytest.mark.parametrize("model, sampler", [("gru", "order"), ("gru", "balanced"), ("attention", "order"), ("transformer", "order"),
                                            ("tcn", "order")])
def test_the_place_of_features_changes_no_byte(tmp_path, model, sampler):
    cache = make_cache(tmp_path, *ragged_exams(np.nan))
    fits = ["--model", model, "--sampler", sampler, "--folds", 2, "--epochs", 5, "--batch", 10, "--train-frames", 5,
            "--threads", 2]
    runs = {}
    for place in ("auto", "device", "memory", "stream"):
        result = train(cache, tmp_path / place, *fits, "--features", place)
        assert result.returncode == 0, result.stderr
        said = "streamed from the cache" if place == "stream" else "loaded to memory"
        assert said in result.stderr and said in (tmp_path / place / "report.html").read_text()
        runs[place] = content(tmp_path / place)
    assert len(runs["auto"]) >= 5
    assert runs["device"] == runs["memory"] == runs["stream"] == runs["auto"]


def test_features_beyond_half_of_the_budget_are_streamed(tmp_path):
    cache = ramp_cache(tmp_path, 400, frames=32, dimension=64)  # 1.6 MB
    fits = ["--folds", 2, "--epochs", 2, "--hidden", 8]
    result = train(cache, tmp_path / "run", *fits, "--memory-budget", "2500KiB")
    assert result.returncode == 0, result.stderr
    assert "streamed from the cache: more than half of --memory-budget" in result.stderr
    loaded = train(cache, tmp_path / "loaded", *fits)
    assert loaded.returncode == 0 and "loaded to memory" in loaded.stderr


def test_predict_and_evaluate_stream_what_memory_has_no_room_for(tmp_path):
    """To the same bytes, with any number of threads."""
    cache, run = make_cache(tmp_path, *ragged_exams(np.nan)), tmp_path / "run"
    assert train(cache, run, "--folds", 2, "--epochs", 2).returncode == 0
    little = tmp_path / "meminfo"
    little.write_text("MemAvailable: 4 kB\n")
    shim = {**os.environ, "LD_PRELOAD": str(BUILD / "tests" / "little_memory.so"), "COLDFRAME_TEST_MEMINFO": str(little)}
    told = "streamed from the cache: more than the memory that is free"
    for name, threads, environment in [("loaded", 1, None), ("streamed", 3, shim)]:
        words = ["--run", run, "--cache", cache, "--threads", threads, "--out"]
        predicted = coldframe("predict", *words, tmp_path / f"{name}.csv", env=environment)
        evaluated = coldframe("evaluate", *words, tmp_path / name, "--bootstrap", 20, env=environment)
        for done in (predicted, evaluated):
            assert done.returncode == 0 and (told in done.stderr) == (name == "streamed"), done.stderr
    assert (tmp_path / "loaded.csv").read_bytes() == (tmp_path / "streamed.csv").read_bytes()
    for file in ("predictions.csv", "summary.json"):
        assert (tmp_path / "loaded" / file).read_bytes() == (tmp_path / "streamed" / file).read_bytes()


def test_another_word_is_refused(tmp_path):
    result = train(tmp_path / "x.cache", tmp_path / "run", "--features", "disk")
    assert result.returncode == 2 and "stream" in result.stderr
