"""Options against learning by heart: their bounds, and the warning where fits have learnt nothing."""
import json

import numpy as np
import pandas as pd
import pytest
from training_support import coldframe, make_cache, quick, ramp_cache, ramp_exams


def train(cache, out, *more):
    return coldframe("train", "--cache", cache, "--target", "label", "--out", out, *quick(*more))


def test_folds_that_keep_their_first_epoch_are_said(tmp_path):
    exams, _ = ramp_exams(40)
    features = list(np.random.default_rng(3).normal(size=(40, 8, 6)))
    cache, run = make_cache(tmp_path, exams, features), tmp_path / "run"
    result = train(cache, run, "--folds", 3, "--lr", 0.05, "--hidden", 64)
    assert result.returncode == 0, result.stderr
    epochs = pd.read_csv(run / "metrics.csv")
    first = int(epochs[epochs.epoch == 0].best.sum())
    said = f"{first} of 3 fits of gru kept the first epoch"
    assert first > 0 and said in result.stderr
    assert any(said in warning for warning in json.loads((run / "summary.json").read_text())["warnings"])
    assert said in (run / "report.html").read_text()


@pytest.mark.parametrize("words, said", [
    (["--noise", -1], "--noise"),
    (["--mixup", 5], "0.01 to 4"),
    (["--label-smoothing", 1], "--label-smoothing"),
    (["--early-stopping-metric", "auroc"], "--early-stopping-metric"),
    (["--search", 1], "--search"),
])
def test_values_without_meaning_are_refused(tmp_path, words, said):
    result = train(ramp_cache(tmp_path, 12), tmp_path / "run", *words)
    assert result.returncode == 2 and said in result.stderr
    assert not (tmp_path / "run").exists() and not (tmp_path / "run.unfinished").exists()
