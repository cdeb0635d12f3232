"""train --benchmark: the figures hang together, and nothing is written."""
import json

import pytest
from training_support import coldframe, quick, ramp_cache


@pytest.mark.parametrize("model", ["gru", "lstm", "transformer", "tcn"])
def test_the_figures_hang_together(tmp_path, model):
    cache = ramp_cache(tmp_path, 60, frames=16, dimension=64)
    words = ["train", "--cache", cache, "--target", "label", "--benchmark", "--model", model,
             *quick("--folds", 3, "--seeds", 2, "--threads", 1, "--batch", 16, "--epochs", 20)]
    done = coldframe(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["training_exams"] == 32 and found["frames_per_exam"] == 16
    assert found["features_bytes"] == 60 * 16 * 64 * 2
    assert 0 < found["step_seconds"] < found["epoch_seconds"]
    assert found["epochs_per_hour"] == pytest.approx(3600 / found["epoch_seconds"])
    assert (found["fits"], found["side_by_side"], found["exams_at_a_time"]) == (6, 1, 16)
    assert found["run_longest_seconds"] == pytest.approx(6 * 20 * found["epoch_seconds"])
    assert found["fit_measured_bytes"] > found["features_bytes"]
    assert found["fit_predicted_bytes"] == pytest.approx(found["fit_measured_bytes"], rel=0.15)
    assert [path.name for path in tmp_path.iterdir() if "cache" not in path.name] == []


def test_the_table_says_what_was_measured(tmp_path):
    cache = ramp_cache(tmp_path, 30)
    done = coldframe("train", "--cache", cache, "--target", "label", "--benchmark", *quick())
    assert done.returncode == 0, done.stderr
    for word in ["load", "step", "epoch", "an hour", "predicted", "measured", "whole run"]:
        assert word in done.stdout
