"""Inputs that show change: differences from the first frame and from the frame before."""
import csv
import json
import sys

import numpy as np
import pytest
from training_support import REPO, coldframe, exam, make_cache

sys.path.append(str(REPO / "tests" / "benchmarks" / "train"))
import change_cohorts  # noqa: E402


def by_hand(values, kind):
    """[T, D] → what the model is to see of it."""
    change = [values - values[:1], np.diff(values, axis=0, prepend=values[:1])]
    return np.concatenate({"level": [values], "change": change, "both": [values, *change]}[kind], 1)


def cohort(folder, name="change", kind="level", seed=1, count=None):
    exams, features = [], []
    for patient, _, label, values, times in change_cohorts.made(name, seed, False)[:count]:
        exams.append(exam(len(exams), len(values), label, patient=f"P{patient}", time_s=[float(t) for t in times],
                          present=[1] * len(values)))
        features.append(by_hand(values.astype(np.float32), kind))
    return make_cache(folder, exams, features, name=f"{name}-{kind}.cache")


def predictions(cache, out, *more):
    done = coldframe("train", "--cache", cache, "--target", "label", "--out", out, "--bootstrap", 10, "--folds", 2, *more)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((out / "predictions.csv").open()))
    return np.array([float(row["p_1"]) for row in rows]), np.array([int(row["label"]) for row in rows]), done


@pytest.mark.parametrize("kind", ["change", "both"])
def test_a_model_sees_the_differences(tmp_path, kind):
    """A run on features that hold the differences already predicts nearly the same: it rounds otherwise."""
    short = ["--epochs", 3, "--hidden", 8]
    asked, _, _ = predictions(cohort(tmp_path, count=60), tmp_path / "asked", "--inputs", kind, *short)
    made, _, _ = predictions(cohort(tmp_path, kind=kind, count=60), tmp_path / "made", *short)
    level, _, _ = predictions(tmp_path / "change-level.cache", tmp_path / "level", *short)
    assert np.abs(asked - made).max() < 2e-3 < np.abs(asked - level).max()


def test_auto_takes_change_where_change_tells(tmp_path):
    random, exams, features = np.random.default_rng(2), [], []
    for number in range(120):
        values = random.normal(size=(8, 6))
        values[:, 0] = 5 * random.normal() + np.linspace(0, 4 * (number % 2), 8) + 0.3 * random.normal(size=8)
        exams.append(exam(number, 8, str(number % 2)))
        features.append(values)
    cache, run = make_cache(tmp_path, exams, features), tmp_path / "run"
    probability, label, done = predictions(cache, run, "--inputs", "auto", "--model", "gru")
    assert "inputs of gru: change in 2 of 2 fits" in done.stderr, done.stderr
    ranks = np.argsort(np.argsort(probability))
    auroc = (ranks[label == 1].mean() - (label.sum() - 1) / 2) / (label == 0).sum()
    assert auroc > 0.8
    again = coldframe("predict", "--run", run, "--cache", cache, "--out", tmp_path / "new.csv")
    assert again.returncode == 0, again.stderr
    config = json.loads((run / "config.json").read_text())
    assert config["inputs"] == "auto"


def test_what_cannot_be_had_is_refused(tmp_path):
    cache = cohort(tmp_path, count=20)
    for more, says in ((["--inputs", "auto", "--search", 2], "--inputs auto chooses between two"),
                       (["--inputs", "change", "--tune", "random"], "--tune trains what is made of each frame"),
                       (["--inputs", "slope"], "is not one of: level, change, both, auto")):
        done = coldframe("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", *more)
        assert done.returncode == 2 and says in done.stderr, done.stderr
