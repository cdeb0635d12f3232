"""The fits are the same bytes wherever features lie (--features), in memory or in the cache."""
import numpy as np
import pytest
from training_support import coldframe, make_cache, quick, ramp_cache, ramp_exams


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


def test_another_word_is_refused(tmp_path):
    result = train(tmp_path / "x.cache", tmp_path / "run", "--features", "disk")
    assert result.returncode == 2 and "stream" in result.stderr
