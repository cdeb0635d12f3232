"""Figures of each class against the rest, and the macro figures that are their means, equal scikit-learn's on a run's
predictions.csv."""
import json

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk
from training_support import exam, make_cache, quick, succeed

NAMES = ["bacteria", "covid", "regular", "viral"]
FOLDS = 4
RANKS = {"auroc": sk.roc_auc_score, "auprc": sk.average_precision_score}
DECISIONS = {"recall": sk.recall_score, "precision": sk.precision_score, "f1": sk.f1_score}


def cache_of_classes(folder):
    """60 patients of one or two exams, of whom every tenth has the rare class; noisy features tell the classes."""
    random = np.random.default_rng(0)
    exams, features = [], []
    for patient in range(60):
        kind = 3 if patient % 10 == 9 else patient % 3
        for _ in range(1 + patient % 2):
            values = random.normal(size=(6, 6))
            values[:, kind] += 0.8
            entry = exam(len(exams), 6, NAMES[kind], f"patient-{patient}")
            entry["columns"]["grade"] = str(kind)
            exams.append(entry)
            features.append(values)
    return make_cache(folder, exams, features)


def trained(folder, cache, target, *words):
    done = succeed("train", "--cache", cache, "--target", target, "--out", folder,
                   *quick("--folds", FOLDS, "--epochs", 12, *words))
    return json.loads((folder / "summary.json").read_text()), pd.read_csv(folder / "predictions.csv", dtype=str), done


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    cache = cache_of_classes(folder)
    return folder / "run", trained(folder / "run", cache, "label", "--figures", "--model", "gru")


@pytest.fixture(scope="module")
def grades(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grades")
    return trained(folder / "run", cache_of_classes(folder), "grade:ordinal", "--model", "gru")


def probabilities(table):
    return table.filter(like="p_").astype(float).to_numpy()


def value(figures, name):
    return figures[name][figures[name]["primary"]]["value"]


def check_classes(summary, table, names):
    """The rows of all classes; the mean of each figure over them."""
    assert [one["class"] for one in summary["by_class"]] == names
    means = {}
    for c, own in enumerate(summary["by_class"]):
        of_class = table[table.label == names[c]]
        assert (own["exams"], own["patients"]) == (len(of_class), of_class.patient.nunique())
        for name, theirs in RANKS.items():
            folds = [theirs(fold.label == names[c], probabilities(fold)[:, c]) for _, fold in table.groupby("fold")]
            assert own["metrics"][name]["primary"] == "mean_over_folds"
            assert own["metrics"][name]["folds"] == {"with_figure": FOLDS, "all": FOLDS}
            assert value(own["metrics"], name) == pytest.approx(np.mean(folds), abs=1e-9)
            means.setdefault(name, []).append(np.mean(folds))
    for name, theirs in DECISIONS.items():
        each = theirs(table.label, table.predicted, labels=names, average=None, zero_division=np.nan)
        for own, expected in zip(summary["by_class"], each, strict=True):
            figure = own["metrics"][name]
            assert figure["primary"] == "pooled"
            if np.isnan(expected):
                assert figure["pooled"]["value"] is None and figure["pooled"]["undefined"] == "never decided"
            else:
                assert figure["pooled"]["value"] == pytest.approx(expected, abs=1e-9)
        means[name] = each
    return {name: np.mean(each) for name, each in means.items()}


def test_each_class_and_the_macro_figures_equal_scikit_learn(made):
    summary, table, _ = made[1]
    means, headline = check_classes(summary, table, NAMES), summary["models"][0]["metrics"]
    label, p = table.label, probabilities(table)
    for name in ("auroc", "auprc", "f1"):
        assert value(headline, name) == pytest.approx(means[name], abs=1e-9)
    macro = [sk.roc_auc_score(fold.label, probabilities(fold), multi_class="ovr", average="macro", labels=NAMES)
             for _, fold in table.groupby("fold")]
    assert value(headline, "auroc") == pytest.approx(np.mean(macro), abs=1e-9)
    assert value(headline, "f1") == pytest.approx(sk.f1_score(label, table.predicted, average="macro"), abs=1e-9)
    recall = {way: sk.recall_score(label, table.predicted, average=way) for way in ("macro", "micro", "weighted")}
    assert value(headline, "balanced_accuracy") == pytest.approx(recall["macro"], abs=1e-9)
    assert value(headline, "balanced_accuracy") == pytest.approx(means["recall"], abs=1e-9)
    assert value(headline, "accuracy") == pytest.approx(recall["micro"], abs=1e-9)
    exams = [own["exams"] for own in summary["by_class"]]
    own = [value(one["metrics"], "recall") for one in summary["by_class"]]
    assert np.average(own, weights=exams) == pytest.approx(recall["weighted"], abs=1e-9)


def test_brier_and_calibration_error_are_of_all_classes(made):
    summary, table, _ = made[1]
    headline, p = summary["models"][0]["metrics"], probabilities(table)
    truth = np.array([NAMES.index(label) for label in table.label])
    assert value(headline, "brier") == pytest.approx(np.mean(np.sum((p - np.eye(4)[truth]) ** 2, 1)), abs=1e-9)
    assert value(headline, "brier") == pytest.approx(sk.brier_score_loss(table.label, p, labels=NAMES), abs=1e-9)
    error, bins = 0, np.minimum((p.max(1) * 15).astype(int), 14)
    for of_bin in set(bins):
        inside = bins == of_bin
        error += inside.mean() * abs((p.argmax(1) == truth)[inside].mean() - p.max(1)[inside].mean())
    assert value(headline, "ece") == pytest.approx(error, abs=1e-9)


def test_grades_have_classes_too(grades):
    summary, table, done = grades
    means, headline = check_classes(summary, table, ["0", "1", "2", "3"]), summary["models"][0]["metrics"]
    assert value(headline, "balanced_accuracy") == pytest.approx(means["recall"], abs=1e-9)
    assert value(headline, "f1") == pytest.approx(means["f1"], abs=1e-9)
    assert "  macro F1" in done.stdout and "macro AUROC" not in done.stdout


def test_intervals_hold_the_figures(made, grades):
    bounded = 0
    for summary in (made[1][0], grades[0]):
        for own in summary["by_class"]:
            for name, figure in own["metrics"].items():
                estimate = figure[figure["primary"]]
                if estimate["low"] is None:
                    assert estimate.get("no_interval") or estimate.get("undefined"), name
                    continue
                bounded += 1
                assert 0 <= estimate["low"] <= estimate["value"] <= estimate["high"] <= 1
    assert bounded >= 20


def test_report_files_and_terminal_have_the_classes(made):
    folder, (summary, _, done) = made
    page = (folder / "report.html").read_text()
    table = pd.read_csv(folder / "figures" / "figures.csv")
    latex = (folder / "figures" / "tables.tex").read_text()
    rows = table[table.what == "this class against the rest"]
    assert set(rows.column) == {"label"} and set(rows.model) == {"gru"}
    for own in summary["by_class"]:
        written = rows[rows.group == own["class"]].set_index("figure").value.to_dict()
        figures = {name: figure[figure["primary"]]["value"] for name, figure in own["metrics"].items()}
        assert written == pytest.approx({name: np.nan if one is None else one for name, one in figures.items()},
                                        abs=0, nan_ok=True)
        auroc = own["metrics"]["auroc"]["mean_over_folds"]
        said = f"{auroc['value']:.3f} [{auroc['low']:.3f}, {auroc['high']:.3f}]"
        assert said in page and said in latex
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"  {own['class']} ")]
        assert f"AUROC {said}" in line and f"{own['exams']} exams of {own['patients']} patients" in line
    assert "<h2>Each class against the rest</h2>" in page and "macro AUROC" in page
    assert "  macro AUROC " in done.stdout and "reaches a macro AUROC of" in summary["verdict"][0]
