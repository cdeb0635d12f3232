"""Every metric of train_temporal equals scikit-learn's to 1e-9, on 400 random cases with ties and
one-class cases, and on degenerate scores."""

import json
import os
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as sk

BUILD = Path(os.environ.get("COLDFRAME_BUILD", Path(__file__).resolve().parents[3] / "build"))
TOLERANCE = 1e-9


def random_case(seed, classes):
    """Labels and probabilities; every third case has heavy ties, sizes go down to 2 exams."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12)) if seed % 4 == 0 else int(rng.integers(12, 300))
    label = rng.integers(0, classes, n)
    logit = rng.normal(size=(n, classes)) * rng.uniform(0.2, 4)
    logit[np.arange(n), label] += rng.uniform(-0.5, 2)
    probability = np.exp(logit - logit.max(1, keepdims=True))
    probability /= probability.sum(1, keepdims=True)
    if seed % 3 == 0 and classes == 2:
        probability[:, 1] = np.round(probability[:, 1], 1)
        probability[:, 0] = 1 - probability[:, 1]
    return label, probability


def run_driver(folder, cases):
    """cases: (label, probability, threshold). The figures of each, from one process."""
    words = []
    for number, (label, probability, threshold) in enumerate(cases):
        path = folder / f"{number}.csv"
        header = ",".join(["label"] + [f"p{c}" for c in range(probability.shape[1])])
        rows = [",".join([str(l)] + [repr(float(p)) for p in row])
                for l, row in zip(label, probability)]
        path.write_text("\n".join([header] + rows) + "\n")
        words += [path.name, repr(float(threshold))]
    out = subprocess.run([BUILD / "tests" / "metrics_driver", *words], cwd=folder,
                         check=True, capture_output=True, text=True, timeout=60)
    return [json.loads(line) for line in out.stdout.splitlines()]


def assert_equal(ours, theirs, what):
    if theirs is None or not np.isfinite(theirs):
        assert isinstance(ours, str) and ours, f"{what}: {ours} where it is undefined"
    else:
        assert not isinstance(ours, str), f"{what}: undefined ({ours}), expected {theirs}"
        assert ours == pytest.approx(theirs, abs=TOLERANCE, rel=TOLERANCE), what


def needs(present, value):
    return value() if present else None


def newton_calibration(label, p):
    """Unpenalised logistic regression of the label on the clipped logit; None where none exists."""
    p = np.clip(p, 1e-7, 1 - 1e-7)
    x = np.log(p) - np.log1p(-p)
    zero, one = x[label == 0], x[label == 1]
    if not len(zero) or not len(one) or zero.max() <= one.min() or one.max() <= zero.min():
        return None, None
    design, beta = np.stack([np.ones_like(x), x], 1), np.zeros(2)
    from scipy.optimize import minimize
    loss = lambda b: np.sum(np.logaddexp(0, design @ b) - label * (design @ b))
    beta = minimize(loss, beta, method="BFGS").x
    for _ in range(20):  # polish
        q = 1 / (1 + np.exp(-design @ beta))
        hessian = design.T @ (design * (q * (1 - q))[:, None])
        beta = beta + np.linalg.solve(hessian, design.T @ (label - q))
    return beta[1], beta[0]


def ece(correct, confidence, bins=15):
    index = np.minimum((confidence * bins).astype(int), bins - 1)
    return sum(abs(correct[index == b].mean() - confidence[index == b].mean()) * (index == b).mean()
               for b in range(bins) if (index == b).any())


def binary_case(seed):
    label, probability = random_case(seed, 2)
    if seed % 10 == 7:
        label[:] = seed // 10 % 2
    threshold = np.random.default_rng(seed + 1000).choice(
        [0.5, probability[0, 1], 0.31])  # also exactly at a score
    return label, probability, threshold


@pytest.mark.parametrize("block", range(4))
def test_binary_metrics_equal_scikit_learn(tmp_path, block):
    cases = [binary_case(seed) for seed in range(50 * block, 50 * block + 50)]
    for case, ours in zip(cases, run_driver(tmp_path, cases), strict=True):
        compare_binary(*case, ours)


def compare_binary(label, probability, threshold, ours):
    p, decided = probability[:, 1], (probability[:, 1] >= threshold).astype(int)
    both, positives = len(set(label)) == 2, bool(label.any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "auroc": needs(both, lambda: sk.roc_auc_score(label, p)),
            "auprc": needs(both, lambda: sk.average_precision_score(label, p)),
            "sensitivity": needs(positives, lambda: sk.recall_score(label, decided)),
            "specificity": needs(not label.all(),
                                 lambda: sk.recall_score(label, decided, pos_label=0)),
            "balanced_accuracy": needs(both, lambda: sk.balanced_accuracy_score(label, decided)),
            "f1": needs(positives or decided.any(), lambda: sk.f1_score(label, decided)),
            "accuracy": sk.accuracy_score(label, decided),
            "kappa": sk.cohen_kappa_score(label, decided, labels=[0, 1]),
            "brier": sk.brier_score_loss(label, p, labels=[0, 1]),
            "ece": ece(label, p),
            "log_loss": sk.log_loss(label, probability, labels=[0, 1]),
        }
    expected["calibration_slope"], expected["calibration_intercept"] = newton_calibration(label, p)
    for name, value in expected.items():
        assert_equal(ours[name], value, name)
    assert ours["confusion"] == sk.confusion_matrix(label, decided, labels=[0, 1]).tolist()
    if both:
        x, y, thresholds = sk.roc_curve(label, p, drop_intermediate=False)
        np.testing.assert_allclose(ours["roc"]["x"], x, atol=1e-12)
        np.testing.assert_allclose(ours["roc"]["y"], y, atol=1e-12)
        np.testing.assert_array_equal(ours["roc"]["threshold"][1:], thresholds[1:])
        precision, recall, thresholds = sk.precision_recall_curve(label, p)
        np.testing.assert_allclose(ours["pr"]["x"], recall[::-1], atol=1e-12)
        np.testing.assert_allclose(ours["pr"]["y"], precision[::-1], atol=1e-12)
        np.testing.assert_array_equal(ours["pr"]["threshold"][1:], thresholds[::-1])


def multi_class_case(seed):
    classes = 3 + seed % 4
    label, probability = random_case(seed, classes)
    if seed % 10 == 7:
        label[label == 1] = 0
    return label, probability, 0.5


@pytest.mark.parametrize("block", range(4))
def test_multi_class_metrics_equal_scikit_learn(tmp_path, block):
    cases = [multi_class_case(seed) for seed in range(50 * block, 50 * block + 50)]
    for (label, probability, _), ours in zip(cases, run_driver(tmp_path, cases), strict=True):
        compare_multi_class(label, probability, ours)


def compare_multi_class(label, probability, ours):
    classes = probability.shape[1]
    names, decided = list(range(classes)), probability.argmax(1)
    every = len(set(label)) == classes
    hot = np.eye(classes)[label]
    in_use = len(set(label) | set(decided)) == classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "auroc": needs(every, lambda: sk.roc_auc_score(label, probability, multi_class="ovr",
                                                           labels=names)),
            "auprc": needs(every, lambda: sk.average_precision_score(hot, probability)),
            "balanced_accuracy": needs(every, lambda: sk.balanced_accuracy_score(label, decided)),
            "f1": needs(in_use, lambda: sk.f1_score(label, decided, labels=names,
                                                    average="macro")),
            "accuracy": sk.accuracy_score(label, decided),
            "kappa": sk.cohen_kappa_score(label, decided, labels=names),
            "brier": sk.brier_score_loss(label, probability, labels=names),
            "ece": ece((label == decided).astype(float), probability.max(1)),
            "log_loss": sk.log_loss(label, probability, labels=names),
        }
    for name, value in expected.items():
        assert_equal(ours[name], value, name)
    assert ours["confusion"] == sk.confusion_matrix(label, decided, labels=names).tolist()


@pytest.mark.parametrize("seed", range(12))
def test_the_temperature_minimises_the_smoothed_log_loss(tmp_path, seed):
    from scipy.optimize import minimize_scalar
    classes = 2 + seed % 3
    label, probability = random_case(seed * 3 + 1, classes)
    if len(set(label)) < 2:
        pytest.skip("one class")
    ours = run_driver(tmp_path, [(label, probability, 0.5)])[0]["temperature"]
    logit = np.log(np.maximum(probability, 1e-12))
    count = np.bincount(label, minlength=classes)[label]
    target = np.repeat((1 / (count + 2) / (classes - 1))[:, None], classes, 1)
    target[np.arange(len(label)), label] = (count + 1) / (count + 2)

    def loss(log_t):
        z = logit / np.exp(log_t)
        return np.sum(np.log(np.exp(z).sum(1)) - (target * z).sum(1))

    best = minimize_scalar(loss, bounds=(np.log(0.05), np.log(20)), method="bounded",
                           options={"xatol": 1e-9})
    assert ours == pytest.approx(np.exp(best.x), rel=1e-5)


@pytest.mark.parametrize("p", [0.0, 1.0, 0.5])
def test_constant_scores(tmp_path, p):
    label = np.array([0, 1, 1, 0, 1])
    probability = np.tile([1 - p, p], (5, 1))
    ours = run_driver(tmp_path, [(label, probability, 0.5)])[0]
    assert ours["auroc"] == 0.5
    assert ours["auprc"] == pytest.approx(0.6, abs=TOLERANCE)
    assert ours["log_loss"] == pytest.approx(sk.log_loss(label, probability), abs=TOLERANCE)
    assert ours["calibration_slope"] == "all scores are equal"
