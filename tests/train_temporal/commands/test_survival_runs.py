"""Times to an event from the command line: on a made cohort where only the order of an exam's frames
tells when its event comes, Cox's model finds it and controls without the order do not; figures equal
scikit-survival's on the predictions, and predict's risks and survival a model read by PyTorch alone."""
import json

import numpy as np
import pandas as pd
import pytest
from run_support import content, interrupt
from sksurv.metrics import concordance_index_censored, cumulative_dynamic_auc, integrated_brier_score
from sksurv.util import Surv
from training_support import coldframe, exam, make_cache, quick, succeed

import fitted

FRAMES = 8


def made_exams(count=240, seed=0, name="exam"):
    """Feature 0 rises or falls by `slope`, around 0 in every exam; who rises most has the event first."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for number in range(count):
        slope = random.uniform(-1, 1)
        values = random.uniform(-1, 1, (FRAMES, 5))
        values[:, 0] = 2 * slope * np.linspace(-1, 1, FRAMES)
        event, censored = 100 * np.exp(-1.5 * slope), random.uniform(20, 900)
        died = "yes" if event <= censored else "no"
        entry = exam(number, FRAMES, "", f"{name}-patient-{number}")
        entry["id"] = f"{name}-{number}"
        entry["columns"] = {"days": f"{min(event, censored):.1f}", "died": died, "cox": died, "word": "x", "late": "-1",
                            "dead": "died" if died == "yes" else "alive", "site": "ab"[number % 2], "never": "0", "zero": "0",
                            "once": str(int(number == 0))}
        exams.append(entry)
        features.append(values)
    return exams, features


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    exams, features = made_exams()
    exams[3]["columns"]["days"] = ""
    exams[4]["columns"]["died"] = "nan"
    return make_cache(tmp_path_factory.mktemp("survival"), exams, features)


def command(cache, out, target, *more):
    short = {"--folds": 3, "--epochs": 60, "--lr": 0.01, "--batch": 32, "--noise": 0.1}
    added = [word for option in short.items() if option[0] not in more for word in option]
    return ["train", "--cache", cache, "--target", target, "--out", out, *quick(*added, *more)]


def train(cache, out, target, *more):
    done = succeed(*command(cache, out, target, *more))
    return json.loads((out / "summary.json").read_text()), pd.read_csv(out / "predictions.csv"), done


def value(model, name):
    figure = model["metrics"][name]
    return figure[figure["primary"]]["value"]


def test_by_default_fits_take_the_summary_that_tells_the_time(cache, tmp_path):
    out = tmp_path / "run"
    summary, table, _ = train(cache, out, "days:died", "--model", "auto", "--epochs", 2, "--folds", 2)
    main = summary["models"][0]
    assert all("none" not in fold for fold in main["families"]) and value(main, "harrell_c") > 0.8
    succeed("predict", "--run", out, "--cache", cache, "--out", tmp_path / "new.csv")
    both = table.merge(pd.read_csv(tmp_path / "new.csv"), on="exam")
    assert np.corrcoef(both.risk_x.rank(), both.risk_y.rank())[0, 1] > 0.9


@pytest.fixture(scope="module")
def run(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("cox") / "run"
    return out, *train(cache, out, "days:died", "--compare", "mean,shuffled", "--subgroups", "site", "--characteristics", "site",
                       "--figures")


def test_only_what_sees_the_order_ranks_the_events(run):
    _, summary, _, done = run
    concordance = {model["name"]: value(model, "harrell_c") for model in summary["models"]}
    assert concordance["gru"] > 0.95, concordance
    assert all(0.45 <= concordance[name] <= 0.55 for name in ("mean", "shuffled")), concordance
    assert value(summary["models"][0], "uno_c") > 0.95 and value(summary["models"][0], "time_auroc") > 0.95
    assert summary["survival"]["log_rank"]["p"] < 1e-6
    assert "The order of frames carries part of what gru found" in done.stdout and "a Harrell's C of" in done.stdout


def test_figures_equal_scikit_survival(run):
    out, summary, table, _ = run
    horizons = [at["at"] for at in summary["survival"]["horizons"]]
    names = [f"survival_{h:g}" for h in horizons]
    assert len(horizons) == 3
    assert list(table) == ["repeat", "fold", "exam", "patient", "label", "event", "risk", *names]
    assert len(table) == 238 and summary["unlabeled"] == 2 and summary["survival"]["events"] == table.event.sum()
    main, harrell, over_time = summary["models"][0], [], []
    for _, fold in table.groupby("fold"):
        y = Surv.from_arrays(fold.event == 1, fold.label)
        harrell.append(concordance_index_censored(fold.event == 1, fold.label, fold.risk)[0])
        over_time.append(cumulative_dynamic_auc(y, y, 1 - fold[names].to_numpy(), horizons)[1])
    assert value(main, "harrell_c") == pytest.approx(np.mean(harrell), abs=1e-9)
    assert value(main, "time_auroc") == pytest.approx(np.mean(over_time), abs=1e-9)
    y = Surv.from_arrays(table.event == 1, table.label)
    brier = integrated_brier_score(y, y, table[names], horizons)
    assert value(main, "integrated_brier") == pytest.approx(brier, abs=1e-9) and brier < 0.1
    low, high = (main["metrics"]["harrell_c"]["mean_over_folds"][end] for end in ("low", "high"))
    assert low < np.mean(harrell) <= high
    groups = summary["survival"]["risk_groups"]
    assert sum(group["exams"] for group in groups) == len(table) and groups[0]["survival"] > groups[2]["survival"]
    followed = np.sum([group["followed"] for group in groups], axis=0)
    assert followed.tolist() == [(table.label > horizon).sum() for horizon in horizons]
    report = (out / "report.html").read_text()
    assert "Survival by predicted risk" in report and "At horizons" in report and "By site" in report and "ROC and" not in report
    assert {p.name for p in (out / "figures").iterdir()} == {
        "survival.svg", "calibration.svg", "figures.csv", "flow.csv", "flow.svg", "tables.tex",
        "characteristics.csv"}
    described = pd.read_csv(out / "figures" / "characteristics.csv")
    assert list(described) == ["column", "row", "without an event", "with an event", "all"]
    assert described["with an event"][0] == str(table.event.sum()) and described["all"][0] == "238"
    figures = pd.read_csv(out / "figures" / "figures.csv")
    lowest = figures[(figures.group == "lowest third of risk") & (figures.figure == "survival")]
    assert lowest.value.tolist() == pytest.approx(groups[0]["survival"]) and (lowest.low.isna() | (lowest.low < lowest.value)).all()


def test_predict_and_evaluate_at_other_horizons(run, cache, tmp_path):
    out, *_ = run
    exams, features = made_exams(40, seed=7, name="other")
    new = make_cache(tmp_path, exams, features, name="new.cache")
    words = ["--run", out, "--cache", new, "--horizons", "50,200,5000"]
    done = succeed("predict", *words, "--out", tmp_path / "p.csv", "--explain", tmp_path / "e.csv")
    assert done.stderr.count("--horizons 5000: no event of the training came after") == 1
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert list(predicted)[2:6] == ["risk", "survival_50", "survival_200", "survival_5000"]
    assert (predicted.survival_50 >= predicted.survival_200).all() and (predicted.survival_200 >= predicted.survival_5000).all()
    models = fitted.models_of(out)
    for i in (0, 11):
        theirs = 0
        for model in models:
            model.card["targets"][0]["horizons"] = [50.0, 200.0, 5000.0]
            outputs = fitted.outputs_of(model, features[i].astype(np.float16))
            theirs = theirs + model.predictions(outputs)["days"] / len(models)
        np.testing.assert_allclose(predicted.iloc[i, 2:6].to_numpy(float), theirs, atol=1e-4)
    contributions = pd.read_csv(tmp_path / "e.csv")
    assert set(contributions.exam) == set(predicted.exam)
    done = succeed("evaluate", *words[:-1], "50,200", "--bootstrap", 20, "--json", "--out", tmp_path / "evaluation")
    table = pd.read_csv(tmp_path / "evaluation" / "predictions.csv")
    theirs = concordance_index_censored(table.event == 1, table.label, table.risk)[0]
    assert value(json.loads(done.stdout)["models"][0], "harrell_c") == pytest.approx(theirs, abs=1e-9) and theirs > 0.93
    again = coldframe("evaluate", "--run", out, "--against", out, "--bootstrap", 20)
    assert again.returncode == 0 and "does as well as" in again.stdout, again.stderr
    assert coldframe("train", "--list", out).stdout.count("harrell_c") == 1


def test_events_at_yearly_visits_are_predicted_for_no_other_time(tmp_path):
    """Between two visits nobody has the event, and Breslow's baseline stays as it is."""
    exams, features = made_exams(90, seed=3, name="visits")
    for number, entry in enumerate(exams):
        entry["columns"] |= {"days": str(365 * (1 + number % 3)), "died": str(int(number % 4 == 0))}
    cache = make_cache(tmp_path, exams, features)
    succeed("train", "--cache", cache, "--target", "days:died", "--out", tmp_path / "run", "--horizons", "100,364,365,700,730",
            *quick("--folds", 3, "--epochs", 2))
    table = pd.read_csv(tmp_path / "run" / "predictions.csv")
    assert (table[["survival_100", "survival_364"]] == 1).all(axis=None) and (table.survival_365 < 1).all()
    assert table.survival_700.equals(table.survival_365) and (table.survival_730 < table.survival_700).all()


def test_runs_of_one_event_are_compared_at_common_horizons(cache, tmp_path):
    few = ["--epochs", 3, "--folds", 2, "--hidden", 8]
    runs = [tmp_path / name for name in ("one", "two", "other")]
    for out, words in zip(runs, [["--horizons", "40,80,120"], ["--horizons", "80,120,200"], ["--horizons", "60"]], strict=True):
        train(cache, out, "days:died", *few, *words)
    done = succeed("evaluate", "--run", runs[0], "--against", runs[1], "--bootstrap", 20, "--json")
    summary = json.loads(done.stdout)
    assert [at["at"] for at in summary["survival"]["horizons"]] == [80, 120]
    for model, out in zip(summary["models"], runs, strict=False):
        own = json.loads((out / "summary.json").read_text())["models"][0]
        assert value(model, "harrell_c") == pytest.approx(value(own, "harrell_c"), abs=1e-12)
    apart = coldframe("evaluate", "--run", runs[0], "--against", runs[2])
    assert apart.returncode == 3 and "no horizon in common" in apart.stderr
    new = make_cache(tmp_path, *made_exams(60, seed=5, name="other"), name="new.cache")
    both = succeed("evaluate", "--run", runs[2], "--against", runs[1], "--cache", new, "--bootstrap", 20, "--json")
    assert [at["at"] for at in json.loads(both.stdout)["survival"]["horizons"]] == [60]


def test_another_word_for_the_event_is_asked_about(cache, tmp_path):
    exams, features = made_exams(40, seed=7, name="other")
    for entry in exams:
        columns = entry["columns"]
        columns["fate"] = {"died": "dead", "alive": "alive"}[columns["dead"]]
        columns["saved"] = "alive"
    new = make_cache(tmp_path, exams, features, name="new.cache")
    few = ["--epochs", 1, "--folds", 2, "--hidden", 8]
    train(cache, tmp_path / "named", "days:dead", "--positive", "died", *few)
    train(cache, tmp_path / "plain", "days:died", *few)

    def evaluate(run, target, *more):
        return coldframe("evaluate", "--run", tmp_path / run, "--cache", new, "--target", target, "--bootstrap", 20, "--json", *more)

    for run, target, own in [("named", "days:fate", "'died'"), ("named", "days:saved", "'died'"), ("plain", "days:fate", "1, yes or true")]:
        refused = evaluate(run, target)
        assert refused.returncode == 2 and own in refused.stderr and "alive" in refused.stderr, refused.stderr
        assert "--positive VALUE" in refused.stderr
    known = evaluate("named", "days:dead")
    assert known.returncode == 0, known.stderr
    told = evaluate("named", "days:fate", "--positive", "dead")
    assert told.returncode == 0, told.stderr
    events = [json.loads(done.stdout)["survival"]["events"] for done in (known, told)]
    assert events[0] == events[1] > 10
    none = evaluate("named", "days:saved", "--positive", "died")
    assert none.returncode == 0 and json.loads(none.stdout)["survival"]["events"] == 0, none.stderr
    assert "is no value of 'fate'" in evaluate("named", "days:fate", "--positive", "ill").stderr


@pytest.mark.parametrize("metric", ["loss", "metric"])
def test_a_validation_part_that_tells_nothing_keeps_the_last_epoch(tmp_path, metric):
    exams, features = made_exams(80)
    for number, entry in enumerate(exams):
        entry["columns"]["split"] = ["train", "train", "val", "test"][number % 4]
        if number % 4 == 2:
            entry["columns"]["died"] = "no"
    made = make_cache(tmp_path, exams, features)
    out = tmp_path / "run"
    done = succeed("train", "--cache", made, "--target", "days:died", "--out", out, "--split-column",
                   *quick("--epochs", 5, "--patience", 2, "--early-stopping-metric", metric))
    epochs = pd.read_csv(out / "metrics.csv")
    assert len(epochs) == 5 and epochs.best.tolist() == [0, 0, 0, 0, 1]
    assert "cannot tell epochs apart" in done.stderr and "kept the first epoch" not in done.stderr


def test_exams_of_one_patient_are_not_tested_as_independent(tmp_path):
    exams, features = made_exams(80)
    for number, entry in enumerate(exams):
        entry["patient"] = f"patient-{number // 2}"
    made = make_cache(tmp_path, exams, features)
    summary, _, done = train(made, tmp_path / "run", "days:died", "--folds", 2, "--epochs", 1)
    assert summary["survival"]["log_rank"] is None and len(summary["survival"]["risk_groups"]) == 3
    assert "no log-rank test: exams of a patient are not independent" in done.stdout


@pytest.mark.parametrize("model", ["gru", "lstm"])
def test_micro_batches_and_threads_change_nothing(cache, tmp_path, model):
    few = ["--epochs", 4, "--model", model, "--folds", 2]
    tables, losses = {}, {}
    for name, words in [("whole", ["--threads", 1]), ("two", ["--threads", 2]), ("micro", ["--micro-batch", 5]),
                        ("jobs", ["--jobs", 2])]:
        _, tables[name], _ = train(cache, tmp_path / name, "days:died", *few, *words)
        losses[name] = pd.read_csv(tmp_path / name / "metrics.csv")[["train_loss", "validation_loss"]]
    assert tables["jobs"].equals(tables["whole"])
    if model == "gru":
        assert tables["two"].equals(tables["whole"])
    np.testing.assert_allclose(losses["micro"], losses["whole"], rtol=2e-4)
    np.testing.assert_allclose(tables["micro"].risk, tables["whole"].risk, atol=2e-3)


def test_an_interrupted_run_ends_in_the_same_bytes(cache, tmp_path):
    words = ["train", "--cache", cache, "--target", "days:died", "--folds", 3, "--epochs", 100, "--hidden", 32,
             "--patience", 0, "--bootstrap", 20]
    whole, out = tmp_path / "whole", tmp_path / "run"
    assert coldframe(*words, "--out", whole).returncode == 0
    interrupt([*words, "--out", out], out)
    succeed(*words, "--out", out, "--resume")
    assert content(out) == content(whole)


def test_a_value_that_means_the_event_and_labels_of_a_file(cache, tmp_path):
    few = ["--epochs", 2, "--folds", 2]
    _, table, _ = train(cache, tmp_path / "named", "days:dead", "--positive", "died", *few)
    exams, _ = made_exams()
    rows = [f"{entry['id']},{2 * float(entry['columns']['days'])},{int(entry['columns']['died'] == 'yes')}" for entry in exams]
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["exam,double,event", *rows]) + "\n")
    (tmp_path / "twice.csv").write_text(labels.read_text() + "exam-0,1,0\n")
    refused = coldframe(*command(cache, tmp_path / "twice", "double:event", "--labels", tmp_path / "twice.csv"))
    assert refused.returncode == 3 and "keep one of the two" in refused.stderr
    _, doubled, _ = train(cache, tmp_path / "file", "double:event", "--labels", labels, *few)
    assert len(table) == 239 and len(doubled) == 240
    both = table.merge(doubled, on="exam")
    np.testing.assert_allclose(both.label_y, 2 * both.label_x)
    assert (both.event_x == both.event_y).all()


def test_ranks_across_folds_are_warned_of(tmp_path):
    made = make_cache(tmp_path, *made_exams(12))
    summary, table, done = train(made, tmp_path / "run", "days:died", "--folds", "patients", "--epochs", 1)
    assert summary["models"][0]["metrics"]["harrell_c"]["primary"] == "pooled" and table.fold.nunique() == 12
    assert "Harrell's C, Uno's C, AUROC over time" in done.stderr and "rank exams of different folds together" in done.stderr
    (everybody,) = summary["survival"]["risk_groups"]
    assert everybody["name"] == "all" and everybody["exams"] == 12 and summary["survival"]["log_rank"] is None
    assert "no log-rank test: a held-out part has fewer than 9 exams" in done.stdout and " (folds together)" in done.stdout
    assert "lowest third" not in (tmp_path / "run" / "report.html").read_text()


def test_a_time_beside_another_target(cache, tmp_path):
    summary, table, _ = train(cache, tmp_path / "run", "days:died:cox,site", "--epochs", 3)
    assert [target["task"] for target in summary["targets"]] == ["cox", "binary"]
    assert {"days:label", "days:event", "days:risk", "site:p_b", "site:predicted"} <= set(table)
    assert len(table) == 240 and table["days:label"].isna().sum() == 2


@pytest.mark.parametrize("target, words, expected", [
    ("days", ["--task", "cox"], "needs the column that says whether the event came"),
    ("days:cox", [], "needs the column that says whether the event came"),
    ("days:nothing", [], "'nothing' is no task"),
    ("days:died", ["--task", "regression"], "learnt as cox, not as regression"),
    ("days:word", [], "expected 0 and 1, no and yes"),
    ("days:dead", [], "--positive VALUE"),
    ("days:dead", ["--positive", "ill"], "is no value of 'dead'"),
    ("word:died", [], "a time to an event is a number from 0 to 1e+18"),
    ("late:died", [], "a time to an event is a number from 0 to 1e+18"),
    ("days:never", [], "nothing to learn from"),
    ("days:once", [], "needs at least 3 patients with an event in 'once', but there is 1"),
    ("zero:died", [], "is 0 for every exam"),
    ("days:died", ["--horizons", "10,1e6"], "longest follow-up"),
    ("days:died", ["--horizons", "10,5"], "ascending"),
    ("site", ["--horizons", "10"], "is for a time to an event"),
    ("days:died", ["--threshold", "0.5"], "are for a binary target"),
    ("days:died", ["--prevalence", "0.1"], "are for a binary target"),
    ("days:died", ["--mixup", "0.2"], "--mixup has no meaning"),
    ("days:died", ["--label-smoothing", "0.1"], "needs binary or multi-class labels"),
    ("days:died", ["--class-weights"], "needs classes"),
    ("days:died", ["--sampler", "balanced"], "with classes"),
    ("days:died", ["--loss", "focal"], "fits no target here"),
])
def test_what_makes_no_sense_is_refused(cache, tmp_path, target, words, expected):
    done = coldframe(*command(cache, tmp_path / "run", target, *words))
    assert done.returncode in (2, 3) and expected in done.stderr, done.stderr
    assert len([line for line in done.stderr.splitlines() if "error" in line.lower()]) == 1 and not (tmp_path / "run").exists()
