"""Exams of which the time since a zero that all share tells the label, and nothing else does."""
import json

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from training_support import coldframe, exam, make_cache, quick, succeed

import fitted


def cohort(folder, name="own", count=60, elapsed=True, seed=0):
    """Exams of one frame: label 1 at 600 s, label 0 at 8 s, give or take a fifth."""
    random = np.random.default_rng(seed)
    exams = []
    for number in range(count):
        entry = exam(number, 1, str(number % 2), patient=f"{name}-{number}", time_s=[0.0])
        entry["id"] = f"{name}-{number}"
        start = (600 if number % 2 else 8) * random.uniform(0.8, 1.2)
        if elapsed is True or number < elapsed:
            entry["elapsed_start"] = start
        exams.append(entry)
    return make_cache(folder, exams, list(random.normal(size=(count, 1, 6))), name=f"{name}.cache")


def train(cache, out, *words):
    epochs = [] if "--epochs" in words else ["--epochs", 60]
    done = succeed("train", "--cache", cache, "--target", "label", "--out", out,
                   *quick("--folds", 3, *epochs, "--lr", 0.01, *words))
    return out, done.stderr


def auroc(run):
    models = json.loads((run / "summary.json").read_text())["models"]
    return {model["name"]: model["metrics"]["auroc"]["mean_over_folds"]["value"] for model in models}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return train(cohort(folder), folder / "run", "--compare", "blank,clock,mean")


def test_the_model_and_the_controls_of_times_see_the_zero(run):
    folder, said = run
    assert "gru, blank, clock see the time since it" in said
    found = auroc(folder)
    assert found["gru"] == found["blank"] == found["clock"] == 1
    assert found["mean"] < 0.8  # which sees no times


def test_times_after_the_zero_can_be_hidden(tmp_path):
    folder, said = train(cohort(tmp_path), tmp_path / "run", "--time", "intervals", "--compare", "clock")
    assert "time since it" not in said and max(auroc(folder).values()) < 0.8


@pytest.mark.parametrize("model, compared, seeing", [("mean", "", ""), ("mean", "clock", "clock sees"), ("gru", "clock", "gru, clock see"),
                                                     ("gru --time on", "mean", "gru sees"), ("gru --time off", "mean", "")])
def test_the_run_says_which_models_see_the_zero(tmp_path, model, compared, seeing):
    words = ["--model", *model.split(), *(["--compare", compared] if compared else []), "--epochs", 1]
    folder, said = train(cohort(tmp_path), tmp_path / "run", *words)
    assert ("time since it" in said) == (seeing != "") and f"{seeing} the time since it" * (seeing != "") in said, said
    config = json.loads((folder / "config.json").read_text())["model"]  # of the main model
    with safe_open(next((folder / "models").iterdir()), "np") as file:
        assert config == json.loads(file.metadata()["card"])["model"]
    assert config.get("elapsed", False) == ("gru" in seeing)


def test_intervals_hide_the_zero_from_the_clock_alone(tmp_path):
    folder, said = train(cohort(tmp_path), tmp_path / "run", "--model", "mean", "--compare", "clock", "--time", "intervals")
    assert "time since it" not in said and max(auroc(folder).values()) < 0.8


@pytest.mark.parametrize("words", [[], ["--time", "on"]])
def test_one_exam_without_a_start_is_said(tmp_path, words):
    folder, said = train(cohort(tmp_path, elapsed=59), tmp_path / "run", "--epochs", 1, *words)
    assert "1 of 60 exams state no start after the zero" in said, said
    assert "elapsed" not in json.loads((folder / "config.json").read_text())["model"]


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_exams_without_the_zero_are_refused_unless_one_insists(run, tmp_path, verb):
    cache = cohort(tmp_path, "bare", elapsed=0)
    words = [verb, "--run", run[0], "--cache", cache, "--out", tmp_path / "out"]
    done = coldframe(*words)
    assert done.returncode == 3 and "since a zero that all exams share" in done.stderr, done.stderr
    assert "of none of these 60 exams is it known" in done.stderr and not (tmp_path / "out").exists()
    assert coldframe(*words, "--without-times").returncode == 0


def test_predictions_equal_the_modules(run, tmp_path):
    cache = cohort(tmp_path, "new", count=40, elapsed=30, seed=1)
    done = coldframe("predict", "--run", run[0], "--cache", cache, "--out", tmp_path / "p.csv")
    assert done.returncode == 0 and "of 30 of these 40 exams is it known" in done.stderr, done.stderr
    table = pd.read_csv(tmp_path / "p.csv")
    random = np.random.default_rng(1)
    starts = [(600 if n % 2 else 8) * random.uniform(0.8, 1.2) for n in range(40)]
    features = random.normal(size=(40, 1, 6)).astype(np.float16)
    for n in range(40):
        theirs = fitted.predict(run[0], features[n].astype(np.float32), [0.0], start=starts[n] if n < 30 else np.nan)
        assert abs(table.p_1[n] - theirs["1"]) < 1e-5
        assert n >= 30 or (table.p_1[n] > 0.5) == (n % 2 == 1)
