"""train --benchmark: the figures hang together, and nothing is written."""
import json

import pytest
from training_support import coldframe, quick, ramp_cache, succeed


# memory_budget_test.cpp does so for the memory of every model.
def test_the_figures_hang_together(tmp_path):
    cache = ramp_cache(tmp_path, 60, frames=16, dimension=64)
    words = ["train", "--cache", cache, "--target", "label", "--benchmark",
             *quick("--folds", 3, "--seeds", 2, "--threads", 1, "--batch", 16, "--epochs", 20)]
    done = succeed(*words, "--json")
    found = json.loads(done.stdout)
    assert found["training_exams"] == 32 and found["frames_per_exam"] == 16
    assert found["features_bytes"] == 60 * 16 * 64 * 2
    assert 0 < found["step_seconds"] < found["epoch_seconds"]
    assert found["epochs_per_hour"] == pytest.approx(3600 / found["epoch_seconds"])
    assert (found["fits"], found["side_by_side"], found["exams_at_a_time"]) == (6, 1, 16)
    (kind,) = found["kinds"]
    assert (kind["name"], kind["fits"], kind["fit_seconds"]) == ("gru", 6, pytest.approx(20 * found["epoch_seconds"]))
    assert kind["epochs_timed"] >= 1
    assert found["run_longest_seconds"] == pytest.approx(6 * 20 * found["epoch_seconds"])
    assert found["fit_measured_bytes"] > found["features_bytes"]
    assert found["fit_predicted_bytes"] == pytest.approx(found["fit_measured_bytes"], rel=0.15)
    assert [path.name for path in tmp_path.iterdir() if "cache" not in path.name] == []


def test_each_kind_of_fit_is_measured_by_itself(cache, weights):
    """Fits on cached features take next to nothing beside tuned ones, however many there are."""
    words = ["train", "--cache", cache, "--target", "label", "--benchmark", "--tune", weights, "--compare", "frozen,shuffled,clock",
             *quick("--folds", 3, "--threads", 1, "--epochs", 7), "--json"]
    found = json.loads(succeed(*words).stdout)
    kinds = {kind["name"]: kind for kind in found["kinds"]}
    # What the tuned ones go on from, of the main model and of the control, is fitted once.
    assert {name: kind["fits"] for name, kind in kinds.items()} == {"tuned": 6, "clock": 3, "frozen": 3, "frozen-shuffled": 3}
    assert kinds["tuned"]["fit_seconds"] == pytest.approx((7 + 1) * found["epoch_seconds"])  # and what it goes on from
    assert all(0 < kinds[name]["fit_seconds"] < kinds["tuned"]["fit_seconds"] for name in ("clock", "frozen"))
    assert found["fits"] == 15 and found["side_by_side"] == 1
    assert found["run_longest_seconds"] == pytest.approx(sum(kind["fits"] * kind["fit_seconds"] for kind in kinds.values()))


def test_what_is_fitted_exactly_is_timed_too(tmp_path):
    cache = ramp_cache(tmp_path, 30)
    words = ["train", "--cache", cache, "--target", "label", "--benchmark", *quick("--folds", 2, "--threads", 1, model=None), "--json"]
    kinds = {kind["name"]: kind for kind in json.loads(succeed(*words).stdout)["kinds"]}
    assert set(kinds) == {"auto (sequence)", "auto (summary)", "summary"}
    assert all(kind["fits"] == 2 and kind["fit_seconds"] > 0 for kind in kinds.values())


def test_the_table_says_what_was_measured(tmp_path):
    cache = ramp_cache(tmp_path, 30)
    done = succeed("train", "--cache", cache, "--target", "label", "--benchmark", *quick())
    for word in ["load", "step", "epoch", "an hour", "predicted", "measured", "kinds of fits", "whole run", "about", "where none stops early"]:
        assert word in done.stdout


def test_a_run_that_would_not_hold_ends_before_it_begins(tmp_path):
    cache = ramp_cache(tmp_path, 30)
    words = ["train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", *quick("--folds", 2, "--epochs", 2)]
    for limit, said in [("memory=10KiB", "predicted memory is"), ("epoch=0.001ms", "an epoch takes"), ("run=0.01ms,memory=1GiB", "the run takes")]:
        done = coldframe(*words, "--require", limit)
        assert done.returncode == 1 and said in done.stderr and "nothing was trained" in done.stderr, done.stderr
        assert done.stderr.count("more than") == 1
    for limit in ["memory=0", "epoch=5", "memory", "epoch=-1s", "speed=1s", "run=1h,run=2h"]:
        done = coldframe(*words, "--require", limit)
        assert done.returncode == 2, done.stderr
    assert not list(tmp_path.glob("run*"))
    done = coldframe(*words, "--require", "memory=4GiB,run=1h")
    assert done.returncode == 0 and "--require holds" in done.stderr, done.stderr
    succeed(*words[:5], "--out", tmp_path / "plain", *words[7:])
    for name in ["predictions.csv", "models/fold-0-seed-0.safetensors"]:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
