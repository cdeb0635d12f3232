"""Regression, ordinal, multi-label, several targets at once and targets per frame, from the command
line, on caches whose labels are known functions of the features."""
import json
import re

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from scipy import stats
from sklearn import metrics as sk
from training_support import coldframe, exam, make_cache, quick, succeed

import fitted


def known_exams(count=90, frames=6, dimension=6, seed=0):
    """Each exam has a level in 0 … 1 that feature 0 tells with noise: age, grade and labels follow."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for number in range(count):
        level = random.uniform()
        values = random.uniform(-1, 1, (frames, dimension))
        values[:, 0] = 4 * level - 2 + random.normal(size=frames) * 0.1
        marks = [random.uniform() < 0.5 for _ in range(2)]
        for i, mark in enumerate(marks):
            values[:, 1 + i] += 2 * mark
        entry = exam(number, frames, "")
        entry["columns"] = {
            "age": f"{20 + 60 * level:.3f}", "grade": str(min(int(4 * level), 3)),
            "ill": "yes" if level > 0.5 else "no", "a": str(int(marks[0])),
            "b": str(int(marks[1])), "word": random.choice(["x", "y", "z"]), "empty": "",
            "same": "3", "both": "1", "mixed": "old" if number == 7 else str(number),
        }
        frame = [str(int(row[0] > 0)) for row in values]
        entry["frame_columns"] = {
            "phase": frame, "both": frame,
            "speed": [f"{3 * row[0] + 10:.3f}" for row in values]}
        exams.append(entry)
        features.append(values)
    return exams, features


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return make_cache(tmp_path_factory.mktemp("tasks"), *known_exams())


def train(cache, out, target, *more):
    """The finished run's summary and its predictions."""
    result = succeed("train", "--cache", cache, "--target", target, "--out", out,
                     *quick("--folds", 3, "--epochs", 40, *more))
    summary = json.loads((out / "summary.json").read_text())
    return summary, pd.read_csv(out / "predictions.csv"), result


def figure(summary, name):
    figure = summary["models"][0]["metrics"][name]
    return figure[figure["primary"]]["value"]


def mean_over_folds(table, of):
    return np.mean([of(fold) for _, fold in table.groupby("fold")])


def test_a_regression_predicts_in_the_unit_of_its_column(cache, tmp_path):
    summary, table, result = train(cache, tmp_path / "run", "age", "--compare", "mean")
    assert "'age': regression (by the column's type" in result.stderr
    assert summary["task"] == "regression" and summary["models"][1]["first_model_minus_this"]
    assert figure(summary, "r2") > 0.8
    rows = [line for line in result.stdout.splitlines() if line.startswith(("  R²", "  MAE"))]
    assert len({re.search(r"\d", row).start() for row in rows}) == 1, rows
    for name, theirs in [
            ("r2", lambda f: sk.r2_score(f.label, f.predicted)),
            ("mae", lambda f: sk.mean_absolute_error(f.label, f.predicted)),
            ("rmse", lambda f: sk.root_mean_squared_error(f.label, f.predicted)),
            ("pearson", lambda f: stats.pearsonr(f.label, f.predicted).statistic),
            ("spearman", lambda f: stats.spearmanr(f.label, f.predicted).statistic)]:
        assert figure(summary, name) == pytest.approx(theirs(table), abs=1e-9)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "predicted = true" in report and "ROC" not in report
    assert "Early stopping sees the validation part only" in report
    splits = pd.read_csv(tmp_path / "run" / "splits.csv")
    train_part = splits[(splits.fold == 1) & (splits.part == "train")].exam
    labels = table.set_index("exam").label[train_part]
    with safe_open(tmp_path / "run" / "models" / "fold-1-seed-0.safetensors", "pt") as file:
        target = json.loads(file.metadata()["card"])["targets"][0]
    assert target["mean"] == pytest.approx(labels.mean(), rel=1e-12)
    assert target["deviation"] == pytest.approx(labels.std(ddof=0), rel=1e-12)
    # Strata are bins of the number: every fold sees the whole range.
    for _, fold in table.groupby("fold"):
        assert fold.label.min() < 35 and fold.label.max() > 65


def test_evaluate_and_predict_a_regression(cache, tmp_path):
    train(cache, tmp_path / "run", "age", "--loss", "huber=0.5", "--model", "lstm")
    other, features = known_exams(30, seed=9)
    for number, entry in enumerate(other):
        entry["id"] = entry["patient"] = f"other-{number}"
    new = make_cache(tmp_path, other, features)
    result = succeed("evaluate", "--run", tmp_path / "run", "--cache", new, "--bootstrap", 50,
                     "--out", tmp_path / "evaluation", "--json")
    table = pd.read_csv(tmp_path / "evaluation" / "predictions.csv")
    assert figure(json.loads(result.stdout), "r2") == pytest.approx(
        sk.r2_score(table.label, table.predicted), abs=1e-9)
    assert sk.r2_score(table.label, table.predicted) > 0.8
    out = tmp_path / "predictions.csv"
    assert coldframe("predict", "--run", tmp_path / "run", "--cache", new, "--out",
                     out).returncode == 0
    predicted = pd.read_csv(out)
    assert list(predicted) == ["exam", "patient", "predicted", "unlike_training", "unlike_rank", "frames", "frames_missing", "failures"]
    np.testing.assert_array_equal(predicted.predicted, table.predicted)


def test_an_ordinal_target_is_judged_by_quadratic_kappa(cache, tmp_path):
    summary, table, _ = train(cache, tmp_path / "run", "grade", "--task", "ordinal")
    kappa = sk.cohen_kappa_score(table.label, table.predicted, weights="quadratic")
    assert figure(summary, "quadratic_kappa") == pytest.approx(kappa, abs=1e-9) and kappa > 0.8
    mae = (table.label - table.predicted).abs().mean()
    assert figure(summary, "class_mae") == pytest.approx(mae, abs=1e-9)
    probability = table[["p_0", "p_1", "p_2", "p_3"]].to_numpy()
    np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-12)
    median = (1 - np.cumsum(probability[:, :-1], axis=1) > 0.5).sum(axis=1)
    np.testing.assert_array_equal(table.predicted, median)


def test_several_binary_columns_are_learnt_together(cache, tmp_path):
    summary, table, result = train(cache, tmp_path / "run", "a,b", "--task", "multilabel",
                                   "--compare", "mean")
    assert [t["target"] for t in summary["targets"]] == ["a", "b"]
    assert "macro AUROC" in result.stdout
    for name, theirs in [("auroc", sk.roc_auc_score), ("auprc", sk.average_precision_score)]:
        macro = mean_over_folds(table, lambda f: theirs(f[["a:label", "b:label"]],
                                                        f[["a:p_1", "b:p_1"]], average="macro"))
        assert figure({"models": summary["macro"]}, name) == pytest.approx(macro, abs=1e-9)
    assert figure({"models": summary["macro"]}, "auroc") > 0.9


def test_targets_of_different_tasks_share_a_model_and_mask_gaps(tmp_path):
    exams, features = known_exams()
    for number, entry in enumerate(exams):
        for i, column in enumerate(["age", "grade", "ill"]):
            if number % 9 == 0 or number % 3 == i and number % 2:
                entry["columns"][column] = ""
    made = make_cache(tmp_path, exams, features)
    summary, table, result = train(made, tmp_path / "run", "age,grade:ordinal,ill")
    assert [t["task"] for t in summary["targets"]] == ["regression", "ordinal", "binary"]
    for target in summary["targets"]:
        column = table[f"{target['target']}:label"]
        assert target["unlabeled"] == 90 - column.notna().sum() > 10
        assert f"without a label in '{target['target']}': left out" in result.stderr
        assert column.notna().sum() < len(table) == 80
    assert table["age:predicted"].notna().all() and table["ill:p_yes"].notna().all()
    age, grade, ill = summary["targets"]
    assert figure(age, "r2") > 0.7 and figure(grade, "quadratic_kappa") > 0.7
    labelled = table[table["ill:label"].notna()]
    auroc = mean_over_folds(labelled, lambda f: sk.roc_auc_score(f["ill:label"] == "yes",
                                                                 f["ill:p_yes"]))
    assert figure(ill, "auroc") == pytest.approx(auroc, abs=1e-9) and auroc > 0.9
    result = succeed("evaluate", "--run", tmp_path / "run", "--cache", made, "--bootstrap", 20,
                     "--json")
    assert len(json.loads(result.stdout)["targets"]) == 3
    out = tmp_path / "p.csv"
    assert coldframe("predict", "--run", tmp_path / "run", "--cache", made, "--out",
                     out).returncode == 0
    row = pd.read_csv(out).iloc[5]
    theirs = fitted.predict(tmp_path / "run", features[5].astype(np.float16))
    assert row["age:predicted"] == pytest.approx(theirs["age"], abs=1e-4)
    for name in ["grade", "ill"]:
        for of_class, probability in theirs[name].items():
            assert row[f"{name}:p_{of_class}"] == pytest.approx(probability, abs=1e-5)
    report = (tmp_path / "run" / "report.html").read_text()
    assert re.search("Result of .{1,6}age", report) and re.search("Splits of .{1,6}ill", report)


@pytest.mark.parametrize("words", [["--noise", 0.3, "--label-smoothing", 0.1], ["--mixup", 0.2],
                                   ["--early-stopping-metric", "metric"], ["--loss", "focal"], ["--loss", "focal=0.5", "--class-weights"],
                                   ["--sampler", "balanced", "--micro-batch", 5]])
def test_other_losses_and_samplers_learn_too(cache, tmp_path, words):
    summary, _, _ = train(cache, tmp_path / "run", "ill", *words)
    assert figure(summary, "auroc") > 0.9


def test_the_balanced_sampler_does_not_depend_on_threads(cache, tmp_path):
    losses = []
    for name, words in [("one", ["--threads", 1]), ("two", ["--threads", 2])]:
        succeed("train", "--cache", cache, "--target", "ill", "--out", tmp_path / name,
                *quick("--folds", 2, "--sampler", "balanced", *words))
        losses.append((tmp_path / name / "metrics.csv").read_bytes())
    assert losses[0] == losses[1]


@pytest.mark.parametrize("model", ["gru", "lstm", "transformer", "tcn"])
def test_a_class_per_frame(tmp_path, model):
    exams, features = known_exams(60)
    exams[4]["frame_columns"]["phase"][2] = ""
    exams[5]["frame_columns"]["phase"] = [""] * 6
    exams[6]["present"] = [1, 0, 1, 1, 1, 1]
    made = make_cache(tmp_path, exams, features)
    summary, table, result = train(made, tmp_path / "run", "phase", "--model", model)
    assert re.search(r"'phase': binary, per frame \(by .*\): '0' \d+, '1' \d+\n", result.stderr), result.stderr
    assert "figures with intervals: 1/1 models (100%)" in result.stderr
    assert "bands of ROC: 50/50 resamples (100%)" in result.stderr
    assert "7 of 359 frames without a label in 'phase': masked" in result.stderr
    assert summary["per_frame"] and summary["masked_frames"] == 1 and summary["unlabeled"] == 1
    assert len(table) == 59 * 6 - 1
    assert set(table[table.exam == "exam-6"].frame) == {0, 2, 3, 4, 5}
    labelled = table[table.label.notna()]
    auroc = mean_over_folds(labelled, lambda f: sk.roc_auc_score(f.label, f.p_1))
    assert figure(summary, "auroc") == pytest.approx(auroc, abs=1e-9) and auroc > 0.95
    assert 0.5 < figure(summary, "jaccard") <= 1
    out = tmp_path / "p.csv"
    assert coldframe("predict", "--run", tmp_path / "run", "--cache", made, "--out",
                     out).returncode == 0
    predicted = pd.read_csv(out)
    assert list(predicted) == ["exam", "patient", "frame", "p_0", "p_1", "predicted", "unlike_training", "unlike_rank",
                               "frames", "frames_missing", "failures"]
    assert len(predicted) == 60 * 6 - 1
    theirs = fitted.predict(tmp_path / "run", features[3].astype(np.float16))
    np.testing.assert_allclose(predicted[predicted.exam == "exam-3"][["p_0", "p_1"]], theirs,
                               atol=1e-5)
    # Every frame's features beside its prediction: the sign of feature 0 is the class.
    truth = [features[int(row.exam[5:])][row.frame, 0] > 0 for row in predicted.itertuples()]
    assert sk.roc_auc_score(truth, predicted.p_1) > 0.95
    result = coldframe("evaluate", "--run", tmp_path / "run", "--cache", made, "--bootstrap", 20,
                       "--json")
    assert result.returncode == 0 and figure(json.loads(result.stdout), "auroc") > 0.95


def test_controls_of_a_class_per_frame(tmp_path):
    """Each frame shows `seen` by itself; its place among the frames tells `early`, and only the
    frame before shows `before`."""
    random = np.random.default_rng(3)
    exams, features = known_exams(80)
    for number, (entry, values) in enumerate(zip(exams, features)):
        steps = np.cumsum(random.uniform(0.5, 1.5, 6))
        entry["time_s"] = (steps - steps[0]).tolist()
        values[:] = random.normal(size=values.shape)
        shown = (values[:, 0] > 0).astype(int)
        entry["frame_columns"] = {
            "seen": [str(s) for s in shown], "early": [str(int(t < 3)) for t in range(6)],
            "before": ["", *(str(s) for s in shown[:-1])]}
    made = make_cache(tmp_path, exams, features)
    auroc = {}
    for target in ["seen", "early", "before"]:
        out = tmp_path / target
        summary, table, _ = train(made, out, target, "--compare", "single,clock,shuffled")
        for model in summary["models"]:
            name = "predictions.csv" if model["name"] == "gru" else f"predictions-{model['name']}.csv"
            rows = pd.read_csv(out / name).dropna(subset="label")
            theirs = mean_over_folds(rows, lambda f: sk.roc_auc_score(f.label, f.p_1))
            found = model["metrics"]["auroc"]["mean_over_folds"]["value"]
            assert found == pytest.approx(theirs, abs=1e-9)
            auroc[target, model["name"]] = found
    for target, can, cannot in [("seen", ["gru", "single"], ["clock"]),
                                ("early", ["gru", "clock"], ["single"]),
                                ("before", ["gru"], ["single", "clock", "shuffled"])]:
        assert all(auroc[target, model] > 0.9 for model in can), auroc
        assert all(auroc[target, model] < 0.62 for model in cannot), auroc
    result = (tmp_path / "before" / "report.html").read_text()
    assert "Each frame by itself gives less than gru" in result and "each frame by itself" in result
    assert "Held-out frames" in result and "Held-out exams" not in result


def test_frames_one_by_one_are_predicted_outside_coldframe(cache, tmp_path):
    train(cache, tmp_path / "run", "phase", "--model", "single")
    features = known_exams()[1]
    assert coldframe("predict", "--run", tmp_path / "run", "--cache", cache, "--out",
                     tmp_path / "p.csv").returncode == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    theirs = fitted.predict(tmp_path / "run", features[3].astype(np.float16))
    np.testing.assert_allclose(predicted[predicted.exam == "exam-3"][["p_0", "p_1"]], theirs,
                               atol=1e-5)
    listed = coldframe("train", "--list", tmp_path / "run")
    assert "single" in listed.stdout


def test_a_number_per_frame(cache, tmp_path):
    summary, table, _ = train(cache, tmp_path / "run", "speed")
    r2 = sk.r2_score(table.label, table.predicted)
    assert figure(summary, "r2") == pytest.approx(r2, abs=1e-9) and r2 > 0.8


# name: target, more words, exit code, what the message must hold
ERRORS = {
    "text in a regression": ("mixed", ["--task", "regression"], 3, "'old', which is not a finite"),
    "a single number": ("same", ["--task", "regression"], 3, "one number only"),
    "a single class": ("same", [], 3, "one class only"),
    "all labels empty": ("empty", ["--task", "regression"], 3, "empty for every exam"),
    "one of several empty": ("age,empty", [], 3, "'empty' is empty"),
    "of exams and of frames": ("both", [], 2, "column of exams and of frames"),
    "exams and frames mixed": ("ill,phase", [], 2, "'phase' has a value per frame, 'ill' one"),
    "binary with four": ("grade", ["--task", "binary"], 2, "needs two classes"),
    "ordinal with one": ("same", ["--task", "ordinal"], 3, "one class only"),
    "too many classes": ("age", ["--task", "multiclass"], 3, "--task regression learns numbers"),
    "unknown task": ("age", ["--task", "classify"], 2, "--task"),
    "unknown task of one": ("age:years", [], 2, "'years' is no task"),
    "an empty name": ("age,,ill", [], 2, "empty column"),
    "a name twice": ("age,age", [], 2, "'age' twice"),
    "multi-label of one": ("a", ["--task", "multilabel"], 2, "--target A,B,C"),
    "multi-label with a number": ("a,age:regression", ["--task", "multilabel"], 2, "'age'"),
    "multi-label of grades": ("a,grade", ["--task", "multilabel"], 2, "'grade'"),
    "positive of several": ("a,b", ["--positive", "1"], 2, "--positive"),
    "positive of a number": ("age", ["--positive", "1"], 2, "'age' is learnt as regression"),
    "focal of a number": ("age", ["--loss", "focal"], 2, "'age' is learnt as regression"),
    "weights of a number": ("age", ["--class-weights"], 2, "--class-weights needs classes"),
    "balanced numbers": ("age", ["--sampler", "balanced"], 2, "with classes"),
    "pooled frames": ("phase", ["--temporal-pool", "mean"], 2, "--temporal-pool"),
    "squared error of classes": ("ill", ["--loss", "mse"], 2, "mse"),
    "unknown loss": ("ill", ["--loss", "hinge"], 2, "hinge"),
    "no gamma": ("ill", ["--loss", "focal=x"], 2, "focal=x"),
    "gamma below zero": ("ill", ["--loss", "focal=-1"], 2, "focal=-1"),
    "delta of zero": ("age", ["--loss", "huber=0"], 2, "huber=0"),
    "a parameter of mse": ("age", ["--loss", "mse=2"], 2, "mse=2"),
    "smoothed numbers": ("age", ["--label-smoothing", 0.1], 2, "'age' is learnt as regression"),
    "smoothed and focal": ("ill", ["--label-smoothing", 0.1, "--loss", "focal"], 2, "--loss focal"),
    "mixed frames": ("phase", ["--mixup", 0.2], 2, "'phase' has a value per frame"),
    "mixed ranks": ("grade", ["--task", "ordinal", "--mixup", 0.2], 2, "between two ranks"),
    "controls typed out, one of which does not apply": ("phase", ["--compare", "gru,mean,single,shuffled,blank,clock"], 2,
                                                        "model mean has one output per exam"),
    "unknown sampler": ("ill", ["--sampler", "random"], 2, "--sampler"),
    "balanced of several": ("a,b", ["--sampler", "balanced"], 2, "single target"),
    "frames without a sequence": ("phase", ["--model", "mean"], 2, "single (each frame by itself)"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_input_is_one_clear_error(cache, tmp_path, case):
    target, words, code, said = ERRORS[case]
    result = coldframe("train", "--cache", cache, "--target", target, "--out", tmp_path / "run",
                       *quick(*words))
    assert result.returncode == code, result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and re.search(re.escape(said), result.stderr), result.stderr
    assert list(tmp_path.iterdir()) == []
