"""The control `summary`: what it finds, what the report says of it, and that its files predict what it predicted."""
import csv
import json
import sys

import numpy as np
import pytest
from safetensors import safe_open
from training_support import REPO, coldframe, exam, make_cache, quick, succeed

sys.path.append(str(REPO / "tests" / "benchmarks" / "train"))
import change_cohorts  # noqa: E402


def cohort(folder, name, seed=1, rotated=False, column=lambda label: label):
    exams, features = [], []
    for patient, visit, label, values, times in change_cohorts.made(name, seed, rotated):
        entry = exam(len(exams), len(values), column(label), patient=f"P{patient}", time_s=[float(t) for t in times],
                     present=[1] * len(values))
        entry["columns"]["day"] = str(100 * visit)
        exams.append(entry)
        features.append(values)
    return make_cache(folder, exams, features)


def train(cache, out, *more):
    done = succeed("train", "--cache", cache, "--target", "label", "--out", out, "--quiet", "--json", "--bootstrap", 10,
                   *more)
    return json.loads(done.stdout)


def figure(summary, model, metric="auroc"):
    entry = next(one for one in summary["models"] if one["name"] == model)
    return entry["metrics"][metric]["mean_over_folds" if metric == "auroc" else "pooled"]["value"]


@pytest.fixture(scope="module")
def change(tmp_path_factory):
    folder = tmp_path_factory.mktemp("change")
    cache = cohort(folder, "change")
    return folder, cache, train(cache, folder / "run", "--folds", 2, "--epochs", 6, "--compare", "summary",
                               "--model", "gru")


def test_a_change_beside_a_level_of_the_patient_is_found(change):
    folder, _, summary = change
    assert figure(summary, "summary") >= 0.92
    first = summary["verdict"][0]
    assert first.startswith("A linear model on summaries of the frames does better than gru"), first
    assert "--model summary" in first and "slope" in first
    chosen = summary["models"][1]["families"]
    assert chosen == [["slope"], ["slope"]]
    page = (folder / "run" / "report.html").read_text()
    assert "What summary took in each fold: a summary of every feature over the frames." in page


def test_the_trend_over_visits_is_found(tmp_path):
    summary = train(cohort(tmp_path, "trend over visits"), tmp_path / "run", "--folds", 3, "--visits", "day", "--model",
                    "summary")
    assert figure(summary, "summary") >= 0.88
    chosen = {family for fold in summary["models"][0]["families"] for family in fold}
    assert chosen <= {"slope", "this visit − first visit", "last − first"}, chosen


def rows(path):
    return list(csv.DictReader(path.open()))


def test_files_predict_what_was_held_out(change, tmp_path):
    """By numpy, from the tensors: the outputs of each fold for its held-out exams."""
    folder, _, _ = change
    made = change_cohorts.made("change", 1, False)
    held_out = {row["exam"]: row for row in rows(folder / "run" / "predictions-summary.csv")}
    for fold in range(2):
        with safe_open(folder / "run" / "controls" / "summary" / f"fold-{fold}-seed-0.safetensors", "np") as file:
            tensors = {name: file.get_tensor(name).astype(float) for name in file.keys()}
            reading = json.loads(file.metadata()["card"])["targets"][0]
        assert reading["temperature"] == 1  # the fit has chosen its scale by exams that were held out
        assert tensors["family"].tolist() == [7, 7] and tensors["per_second"] == 1
        for number, (_, _, _, values, times) in enumerate(made):
            row = held_out[f"exam-{number}"]
            if row["fold"] != str(fold):
                continue
            slope = np.polyfit(times, values.astype(np.float16).astype(float), 1)[0]
            x = (slope - tensors["summary_mean"]) / tensors["summary_std"]
            z = ((x * tensors["head.weight"]).sum(1) + tensors["head.bias"]) / reading["temperature"]
            assert float(row["p_1"]) == pytest.approx(1 / (1 + np.exp(z[0] - z[1])), abs=1e-5)


def test_as_the_main_model_it_predicts_and_is_evaluated(change, tmp_path):
    _, cache, _ = change
    run = tmp_path / "run"
    summary = train(cache, run, "--folds", 2, "--model", "summary", "--seeds", 2)
    assert figure(summary, "summary") >= 0.92
    succeed("predict", "--run", run, "--cache", cache, "--out", tmp_path / "new.csv")
    done = succeed("evaluate", "--run", run, "--cache", cache, "--out", tmp_path / "evaluated", "--json")
    assert json.loads(done.stdout)["models"][0]["metrics"]["auroc"]["pooled"]["value"] > 0.95
    succeed("predict", "--run", run, "--cache", cache, "--out", tmp_path / "more.csv", "--explain",
            tmp_path / "frames.csv")


def test_a_run_that_goes_on_gives_the_same_bytes(change, tmp_path):
    folder, cache, _ = change
    train(cache, tmp_path / "run", "--folds", 2, "--epochs", 6, "--compare", "summary", "--model", "gru", "--jobs", 1)
    for name in ("predictions-summary.csv", "controls/summary/fold-1-seed-0.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (folder / "run" / name).read_bytes()


@pytest.mark.parametrize(("more", "says"), [(["--search", 2], "summary is fitted exactly"),
                                            (["--tune", "random"], "take another --model")])
def test_what_needs_steps_is_refused(change, tmp_path, more, says):
    _, cache, _ = change
    done = coldframe("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", "--model", "summary", *more)
    assert done.returncode == 2 and says in done.stderr and more[0] in done.stderr, done.stderr


@pytest.mark.parametrize(("task", "metric", "least"), [("multiclass", "auroc", 0.6), ("ordinal", "quadratic_kappa", 0.3),
                                                       ("regression", "spearman", 0.4)])
def test_other_tasks_are_learnt(tmp_path, task, metric, least):
    summary = train(cohort(tmp_path, "five classes"), tmp_path / "run", "--folds", 2, "--model", "summary", "--task", task)
    entry = summary["models"][0]["metrics"][metric]
    assert max(entry[key]["value"] or 0 for key in ("mean_over_folds", "pooled")) >= least, entry


def test_times_to_an_event_are_learnt(tmp_path):
    random = np.random.default_rng(3)
    exams, features = [], []
    for number in range(150):
        values = random.normal(size=(6, 8))
        values[:, 0] += np.linspace(0, 2 * random.normal(), 6)
        time = random.exponential(np.exp(-(values[-1, 0] - values[0, 0])))
        entry = exam(number, 6, "")
        entry["columns"] = {"days": f"{min(time, 3):.4f}", "died": str(int(time < 3))}
        exams.append(entry)
        features.append(values)
    cache = make_cache(tmp_path, exams, features)
    done = succeed("train", "--cache", cache, "--target", "days:died", "--out", tmp_path / "run", "--json",
                   "--quiet", "--folds", 2, "--model", "summary", "--bootstrap", 10)
    summary = json.loads(done.stdout)
    assert summary["models"][0]["metrics"]["harrell_c"]["mean_over_folds"]["value"] > 0.7
    chosen = {family for fold in summary["models"][0]["families"] for family in fold}
    assert chosen <= {"slope", "last − first", "standard deviation"}, chosen


def test_each_label_has_a_family_of_its_own(tmp_path):
    random = np.random.default_rng(4)
    exams, features = [], []
    for number in range(120):
        values = random.normal(size=(8, 6))
        rises, high = random.integers(2, size=2)
        values[:, 0] += 3 * random.normal() + np.linspace(0, 4 * rises, 8)
        values[:, 1] += 3 * high
        entry = exam(number, 8, "")
        entry["columns"] = {"rises": str(rises), "high": str(high) if number % 5 else ""}
        exams.append(entry)
        features.append(values)
    done = succeed("train", "--cache", make_cache(tmp_path, exams, features), "--target", "rises,high", "--task",
                   "multilabel", "--out", tmp_path / "run", "--json", "--quiet", "--folds", 2, "--model", "summary",
                   "--bootstrap", 10)
    targets = {one["target"]: one["models"][0] for one in json.loads(done.stdout)["targets"]}
    for name, family in (("rises", "slope"), ("high", "mean")):
        assert targets[name]["families"] == [[family], [family]]
        assert targets[name]["metrics"]["auroc"]["mean_over_folds"]["value"] > 0.95


def test_covariates_count_beside_the_summaries(tmp_path):
    random = np.random.default_rng(5)
    exams, features = [], []
    for number in range(120):
        age = random.normal(60, 10)
        entry = exam(number, 4, str(int(age + random.normal(0, 3) > 60)))
        entry["columns"]["age"] = f"{age:.1f}"
        exams.append(entry)
        features.append(random.normal(size=(4, 6)))
    summary = train(make_cache(tmp_path, exams, features), tmp_path / "run", "--folds", 2, "--model", "summary",
                    "--covariates", "age")
    assert figure(summary, "summary") > 0.9


def test_targets_of_frames_have_no_summary(tmp_path):
    from training_support import ramp_exams
    exams, features = ramp_exams(24)
    for number, entry in enumerate(exams):
        entry["frame_columns"] = {"phase": [str(t // 4) for t in range(8)]}
    cache = make_cache(tmp_path, exams, features)
    done = coldframe("train", "--cache", cache, "--target", "phase", "--out", tmp_path / "run", *quick("--compare", "summary"))
    assert done.returncode == 2 and "summary has one output per exam" in done.stderr, done.stderr


def test_what_auto_chooses_among_stands_beside_it(change, tmp_path):
    _, cache, of_gru = change
    few = ["--folds", 2, "--epochs", 6]
    beside = train(cache, tmp_path / "run", *few)
    assert [model["name"] for model in beside["models"]] == ["auto", "gru", "summary"]
    assert figure(beside, "gru") == figure(of_gru, "gru") != figure(beside, "auto")
    assert (tmp_path / "run/predictions-gru.csv").read_bytes() == (change[0] / "run/predictions.csv").read_bytes()
    fits = json.loads((tmp_path / "run/config.json").read_text())["fits"]
    assert fits == 2 * 3  # of each fold: a GRU, auto's summary, and the summary alone
    with safe_open(tmp_path / "run/controls/gru/fold-1-seed-0.safetensors", "np") as file:
        assert json.loads(file.metadata()["card"])["model"]["architecture"] == "gru"
    whole = train(cache, tmp_path / "all", *few, "--compare")
    assert {"gru", "summary"} < {model["name"] for model in whole["models"]}
    typed = train(cache, tmp_path / "typed", *few, "--compare", "mean")
    assert [model["name"] for model in typed["models"]] == ["auto", "mean"]
