"""Inputs that show change: differences from the first frame and from the frame before, or, as the model `auto`, a summary
of the frames where that does better."""
import csv
import json
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file
from training_support import REPO, coldframe, exam, make_cache, succeed

import fitted

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
    done = succeed("train", "--cache", cache, "--target", "label", "--out", out, "--bootstrap", 10, "--folds", 2, *more)
    rows = list(csv.DictReader((out / "predictions.csv").open()))
    return np.array([float(row["p_1"]) for row in rows]), np.array([int(row["label"]) for row in rows]), done


@pytest.mark.parametrize("kind", ["change", "both"])
def test_a_model_sees_the_differences(tmp_path, kind):
    """A run on features that hold the differences already predicts nearly the same: it rounds otherwise."""
    short = ["--epochs", 3, "--hidden", 8, "--model", "gru"]
    asked, _, _ = predictions(cohort(tmp_path, count=60), tmp_path / "asked", "--inputs", kind, *short)
    made, _, _ = predictions(cohort(tmp_path, kind=kind, count=60), tmp_path / "made", *short)
    level, _, _ = predictions(tmp_path / "change-level.cache", tmp_path / "level", *short)
    assert np.abs(asked - made).max() < 2e-3 < np.abs(asked - level).max()


def auroc(probability, label):
    ranks = np.argsort(np.argsort(probability))
    return (ranks[label == 1].mean() - (label.sum() - 1) / 2) / (label == 0).sum()


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """A cohort of change and a run by default, with a twin on shuffled frames."""
    folder = tmp_path_factory.mktemp("taken")
    cache = cohort(folder)
    return folder / "run", cache, *predictions(cache, folder / "run", "--seeds", 2, "--compare", "shuffled,summary")


def summary_of(run):
    return json.loads((run / "summary.json").read_text())


def test_by_default_a_fold_takes_the_summary_unless_the_model_is_clearly_better(taken):
    run, _, probability, label, done = taken
    assert auroc(probability, label) > 0.92
    main, shuffled, _ = summary_of(run)["models"]
    assert main["name"] == "auto" and main["families"] == [["slope"] * 2] * 2
    assert main["taken"] == {"gru": 0, "summary": 4}
    assert "auto took a summary of the frames in 4 of 4 fits (slope in each fit)." in done.stdout
    assert "slope" not in str(shuffled.get("families"))  # it has the same choice, of frames without their order
    assert "Fits by what they took: gru 0, summary 4." in (run / "METHODS.md").read_text()
    verdict = " ".join(summary_of(run)["verdict"])
    assert "The order of frames carries part of what auto found" in verdict
    assert "auto is a linear model on summaries of the frames: it took one in all 4 fits (slope in each fit)." in verdict
    assert "does as well" not in verdict  # as itself


def test_order_is_judged_by_a_gru_beside_auto_at_no_cost(taken, tmp_path):
    cache, words = taken[1], ["--epochs", 4, "--hidden", 8]
    _, _, done = predictions(cache, tmp_path / "run", *words, "--compare", "gru,shuffled")
    _, _, without = predictions(cache, tmp_path / "without", *words, "--compare", "shuffled")
    summary = summary_of(tmp_path / "run")
    in_order, shuffled = summary["in_order_and_shuffled"]
    assert (in_order["name"], shuffled["name"]) == ("gru", "shuffled")
    assert in_order["metrics"] == summary["models"][1]["metrics"] and summary["models"][1]["name"] == "gru"
    # It is what a run of GRUs has for its twin.
    alone = tmp_path / "alone"
    predictions(cache, alone, *words, "--model", "gru", "--compare", "shuffled")
    gru, twin = summary_of(alone)["models"]
    assert gru["metrics"] == in_order["metrics"] and twin["metrics"] == shuffled["metrics"]
    assert twin["first_model_minus_this"] == shuffled["first_model_minus_this"]
    assert "gru on shuffled frames: " in done.stdout and "in_order_and_shuffled" not in summary_of(tmp_path / "without")
    fits = [json.loads((tmp_path / run / "config.json").read_text())["fits"] for run in ("run", "without")]
    assert fits[0] == fits[1]


def test_what_chose_differently_predicts_and_is_evaluated(taken, tmp_path):
    run, cache, *_ = taken
    held_out = {row["exam"]: row for row in csv.DictReader((run / "predictions.csv").open())}
    succeed("predict", "--run", run, "--cache", cache, "--out", tmp_path / "new.csv")
    new = {row["exam"]: float(row["p_1"]) for row in csv.DictReader((tmp_path / "new.csv").open())}
    assert np.corrcoef([new[one] for one in held_out], [float(row["p_1"]) for row in held_out.values()])[0, 1] > 0.9
    done = succeed("evaluate", "--run", run, "--cache", cache, "--out", tmp_path / "evaluated", "--json")
    assert [one["name"] for one in json.loads(done.stdout)["models"]] == ["auto", "shuffled", "summary"]
    assert "auto took a summary of the frames in 4 of 4 fits (slope in each fit)" in (tmp_path / "evaluated" / "report.html").read_text()
    assert json.loads(done.stdout)["models"][0]["taken"] == {"gru": 0, "summary": 4}
    assert "auto (gru 0, summary 4) + 2" in succeed("train", "--list", run).stdout


def test_the_python_module_predicts_the_same(taken, tmp_path):
    run, cache, *_ = taken
    succeed("predict", "--run", run, "--cache", cache, "--out", tmp_path / "new.csv")
    new = [float(row["p_1"]) for row in csv.DictReader((tmp_path / "new.csv").open())]
    for (_, _, _, values, times), expected in zip(change_cohorts.made("change", 1, False)[:20], new):
        found = fitted.predict(run, values.astype(np.float16).astype(np.float32), times - times[0])
        assert found["1"] == pytest.approx(expected, abs=1e-5)


def signs(random, label):
    """Whether two features have the same sign: no line through summaries of each tells."""
    first = random.choice([-1, 1])
    return 0.1 * random.normal(size=(6, 4)) + np.array([first, first if label else -first, 0, 0])


def small_change(random, label):
    """A feature rises a little, or falls, from a level that differs much more: a line tells all, a GRU sees the level."""
    values = random.normal(size=(6, 4))
    values[:, 0] = 30 * random.normal() + np.linspace(-1, 1, 6) * (1 if label else -1)
    return values


@pytest.mark.parametrize("more", [["--covariates-at", "frames", "--covariates", "age"], ["--time", "on"],
                                  ["--bidirectional"]])
def test_fits_that_chose_differently_are_one_run(tmp_path, more):
    """Each site is of one kind, and each fold is fitted on the other site alone."""
    random, exams, features = np.random.default_rng(2), [], []
    for number in range(160):
        make, label = [signs, small_change][number // 2 % 2], number % 2
        times = np.cumsum(random.uniform(0.5, 1.5, 6))
        exams.append(exam(number, 6, str(label), time_s=[float(t) for t in times]))
        exams[-1]["columns"] |= {"age": str(40 + number % 7), "site": make.__name__}
        features.append(make(random, label))
    cache, run = make_cache(tmp_path, exams, features), tmp_path / "run"
    succeed("train", "--cache", cache, "--target", "label", "--out", run, "--bootstrap", 10, "--folds", "groups",
            "--group", "site", "--epochs", 40, "--hidden", 16, "--lr", 0.01, "--noise", 0, *more)
    rows = list(csv.DictReader((run / "splits.csv").open()))
    held_out = [next(exams[int(row["exam"][5:])]["columns"]["site"] for row in rows
                     if (row["fold"], row["part"]) == (str(fold), "test")) for fold in range(2)]
    taken = dict(zip(held_out, (fold[0] for fold in summary_of(run)["models"][0]["families"])))
    assert taken["small_change"] == "none" and taken["signs"] in ("slope", "last − first"), taken
    succeed("predict", "--run", run, "--cache", cache, "--out", tmp_path / "new.csv")


@pytest.mark.parametrize("time, seen", [("on", 1), ("off", 0)])
def test_a_summary_sees_the_times_that_its_model_does(taken, tmp_path, time, seen):
    predictions(taken[1], tmp_path / "run", "--time", time, "--epochs", 2)
    models = [load_file(path) for path in sorted((tmp_path / "run" / "models").glob("*.safetensors"))]
    assert [float(model["per_second"][0]) for model in models] == [seen] * 2


def test_a_budget_that_holds_no_summary_keeps_the_gru(tmp_path):
    cache = cohort(tmp_path)
    short = ["--epochs", 2, "--hidden", 8, "--memory-budget"]
    _, _, done = predictions(cache, tmp_path / "tight", *short, "700KiB")
    assert "--memory-budget does not hold a fit of `summary`" in done.stderr
    models = summary_of(tmp_path / "tight")["models"]
    assert models[0]["taken"] == {"gru": 2, "summary": 0} and [model["name"] for model in models] == ["auto", "gru"]
    _, _, done = predictions(cache, tmp_path / "wide", *short, "64MiB")
    assert "does not hold" not in done.stderr


def test_a_gru_that_does_better_stays(tmp_path):
    """Three frames in a row against three apart: no summary of a feature tells them apart."""
    random, exams, features = np.random.default_rng(3), [], []
    for number in range(120):
        values = 0.1 * random.normal(size=(8, 4))
        at = random.integers(6)
        values[[at, at + 1] if number % 2 else [at, (at + 3) % 8], 0] += 3
        exams.append(exam(number, 8, str(number % 2)))
        features.append(values)
    cache = make_cache(tmp_path, exams, features)
    longer = ["--epochs", 40, "--noise", 0, "--lr", 0.01]
    kept, label, done = predictions(cache, tmp_path / "run", *longer)
    assert auroc(kept, label) > 0.9 and "auto took gru in 2 of 2 fits. A fit takes" in done.stdout
    alone, _, _ = predictions(cache, tmp_path / "alone", "--model", "gru", *longer)
    assert (kept == alone).all()


def test_what_cannot_be_had_is_refused(tmp_path):
    cache = cohort(tmp_path, count=20)
    for more, says in ((["--inputs", "change", "--tune", "random"], "--tune trains what is made of each frame"),
                       (["--inputs", "slope"], "is not one of: level, change, both")):
        done = coldframe("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", *more)
        assert done.returncode == 2 and says in done.stderr, done.stderr
