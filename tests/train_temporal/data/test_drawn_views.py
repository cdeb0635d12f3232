"""Training on a cache with augmented views, from the command line."""
import json

import numpy as np
import pytest
from training_support import coldframe, make_cache, quick, ramp_exams, succeed


def made(folder, views, name="views.cache", count=60):
    """A cache of ramps: `clean`, and for each further name what views[name] makes of the features."""
    exams, features = ramp_exams(count)
    stacked = [np.stack([f, *(change(f) for change in views.values())]) for f in features]
    return make_cache(folder, exams, stacked, name=name, views=["clean", *views])


def train(cache, out, *more):
    return coldframe("train", "--cache", cache, "--target", "label", "--out", out, "--folds", 1, *quick(*more))


def predictions(run):
    return (run / "predictions.csv").read_bytes()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return made(tmp_path_factory.mktemp("cache"), {"view1": lambda f: f * 0.6 + 0.2, "view2": lambda f: f * 1.5})


def test_views_are_drawn_in_training_and_the_run_says_so(cache, tmp_path):
    results = {which: train(cache, tmp_path / which, "--views", which) for which in ("auto", "all", "clean")}
    for which, result in results.items():
        assert result.returncode == 0, result.stderr
        views = ["clean"] if which == "clean" else ["clean", "view1", "view2"]
        assert json.loads((tmp_path / which / "config.json").read_text())["views"] == views
        assert ("draws one of 3 views" in result.stderr) == (which != "clean")
    assert predictions(tmp_path / "auto") == predictions(tmp_path / "all")
    assert predictions(tmp_path / "auto") != predictions(tmp_path / "clean")


@pytest.mark.parametrize("more", [[], ["--sampler", "balanced"], ["--model", "mean"]])
def test_streamed_views_train_as_loaded_ones(cache, tmp_path, more):
    for place in ("memory", "stream"):
        result = train(cache, tmp_path / place, "--features", place, *more)
        assert result.returncode == 0, result.stderr
    assert predictions(tmp_path / "memory") == predictions(tmp_path / "stream")


def test_the_clean_view_alone_is_as_if_there_were_no_other(cache, tmp_path):
    plain = made(tmp_path, {}, "plain.cache")
    assert train(cache, tmp_path / "a", "--views", "clean").returncode == 0
    assert train(plain, tmp_path / "b").returncode == 0
    assert predictions(tmp_path / "a") == predictions(tmp_path / "b")
    refused = train(plain, tmp_path / "c", "--views", "all")
    assert refused.returncode == 2 and "extract --views" in refused.stderr
    assert train(plain, tmp_path / "d", "--views", "dirty").returncode == 2


def test_other_programs_see_the_clean_view(cache, tmp_path):
    plain = made(tmp_path, {}, "plain.cache")
    assert train(cache, tmp_path / "run").returncode == 0
    for name, source in [("a", cache), ("b", plain)]:
        succeed("predict", "--run", tmp_path / "run", "--cache", source, "--out", tmp_path / f"{name}.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_resuming_with_other_views_is_refused(cache, tmp_path):
    assert train(cache, tmp_path / "run").returncode == 0
    again = train(cache, tmp_path / "run", "--resume", "--views", "clean")
    assert again.returncode != 0 and "views" in again.stderr


def test_a_budget_counts_all_views(tmp_path):
    exams, features = ramp_exams(40, frames=200, dimension=256)
    big = [np.stack([f] * 9) for f in features]  # 40 × 200 × 256 × 2 bytes = 4 MB a view
    cache = make_cache(tmp_path, exams, big, name="big.cache", views=["clean", *(f"view{i}" for i in range(1, 9))])
    words = ["--memory-budget", "24MiB", "--epochs", 1, "--model", "mean"]
    clean = train(cache, tmp_path / "a", *words, "--views", "clean")
    assert clean.returncode == 0 and "loaded to memory" in clean.stderr
    all_views = train(cache, tmp_path / "all", *words)
    assert all_views.returncode == 0 and "streamed from the cache: more than half" in all_views.stderr
    refused = train(cache, tmp_path / "b", *words, "--features", "memory")
    assert refused.returncode == 3 and "--memory-budget" in refused.stderr, refused.stderr
