"""The variance of AUROCs, operating points, predictive values and decision curves equal other people's, or their definitions."""
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from MLstatkit import Delong_test
from scipy import stats
from sklearn.metrics import confusion_matrix, roc_curve

BUILD = Path(os.environ.get("COLDFRAME_BUILD", Path(__file__).resolve().parents[3] / "build"))


def run_driver(folder, cases, at_least=0.9, prevalence=0.1):
    """cases: (fold, patient, label, a, b), arrays of one length."""
    names = []
    for number, case in enumerate(cases):
        rows = [f"{int(f)},{int(p)},{int(y)},{float(a)!r},{float(b)!r}" for f, p, y, a, b in zip(*case, strict=True)]
        (folder / f"{number}.csv").write_text("\n".join(["fold,patient,label,a,b", *rows]) + "\n")
        names.append(f"{number}.csv")
    done = subprocess.run([BUILD / "tests" / "clinical_driver", repr(at_least), repr(prevalence), *names], cwd=folder,
                          check=True, capture_output=True, text=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def scores(seed, ties=False):
    random = np.random.default_rng(seed)
    n = int(random.integers(12, 300))
    label = random.permutation(np.arange(n) % 3 == 0).astype(int)
    common = random.normal(size=n)
    a, b = (1 / (1 + np.exp(-(gain * label + common + random.normal(size=n)))) for gain in random.uniform(0.3, 1.2, 2))
    return (label, np.round(a, 1), np.round(b, 1)) if ties else (label, a, b)


def alone(label, a, b):
    """All exams in one fold, each of another patient."""
    return np.zeros(len(label)), np.arange(len(label)), label, a, b


@pytest.mark.parametrize("ties", [False, True])
def test_with_one_exam_a_patient_the_jackknife_is_delong_s_variance(tmp_path, ties):
    cases = [scores(seed, ties) for seed in range(40)]
    for (label, a, b), ours in zip(cases, run_driver(tmp_path, [alone(*case) for case in cases]), strict=True):
        _, _, *intervals, auc_a, auc_b, info = Delong_test(label, a, b, alpha=0.95)
        found = ours["auroc"]
        assert info["method"] == "delong" and [found["a"], found["b"]] == pytest.approx([auc_a, auc_b], abs=1e-9)
        for model, (low, high) in zip("ab", intervals, strict=True):
            reach = stats.norm.ppf(0.975) * np.sqrt(found[f"variance_{model}"])
            assert [max(found[model] - reach, 0), min(found[model] + reach, 1)] == pytest.approx([low, high], abs=1e-9)
        assert variance_of_difference(found) == pytest.approx(info["var_diff"], abs=1e-12)


def variance_of_difference(auroc):
    return auroc["variance_a"] + auroc["variance_b"] - 2 * auroc["covariance"]


def test_a_mean_over_folds_has_the_mean_variance_of_independent_folds(tmp_path):
    label, a, b = scores(7)
    fold = np.arange(len(label)) % 4
    [ours] = run_driver(tmp_path, [(fold, np.arange(len(label)), label, a, b)])
    parts = [Delong_test(label[fold == f], a[fold == f], b[fold == f], alpha=0.95)[-1]["var_diff"] for f in range(4)]
    assert variance_of_difference(ours["auroc"]) == pytest.approx(np.sum(parts) / 16, abs=1e-12)


def test_a_share_that_no_threshold_reaches_has_none(tmp_path):
    label, score = np.array([0, 1] * 20), np.array([0.9, 0.5] + [0.1, 0.6] * 19)
    [ours] = run_driver(tmp_path, [alone(label, score, score)], 0.99)
    assert ours["sensitivity_at"]["share"][0] == 0 and ours["sensitivity_at"]["threshold"] is None


@pytest.mark.parametrize("at_least", [0.5, 0.8, 0.9, 1.0])
def test_points_of_the_curve_equal_scikit_learn(tmp_path, at_least):
    cases = [scores(seed, seed % 2) for seed in range(20)]
    for (label, a, _), ours in zip(cases, run_driver(tmp_path, [alone(*c) for c in cases], at_least), strict=True):
        fpr, tpr, thresholds = roc_curve(label, a, drop_intermediate=False)
        kept = 1 - fpr >= at_least - 1e-12
        assert ours["sensitivity_at"]["share"][0] == pytest.approx(tpr[kept].max(), abs=1e-9)
        assert ours["specificity_at"]["share"][0] == pytest.approx(1 - fpr[tpr >= at_least - 1e-12].min(), abs=1e-9)
        # Its threshold does what is said, on the exams themselves.
        decided = a >= (np.inf if ours["sensitivity_at"]["threshold"] is None else ours["sensitivity_at"]["threshold"])
        assert decided[label == 1].mean() == pytest.approx(tpr[kept].max(), abs=1e-9)
        assert 1 - decided[label == 0].mean() >= at_least - 1e-12


def test_points_of_the_curve_lie_within_intervals_that_narrow(tmp_path):
    random, cases = np.random.default_rng(0), []
    for count in (60, 240, 960):
        label = np.arange(count) % 2
        cases.append(alone(label, 1 / (1 + np.exp(-(2 * label + random.normal(size=count)))), random.uniform(size=count)))
    widths = []
    for ours in run_driver(tmp_path, cases):
        share, low, high = ours["sensitivity_at"]["share"]
        assert 0 <= low < share < high <= 1
        widths.append(high - low)
    assert widths[2] < widths[1] < widths[0] and widths[2] < 0.15


def test_intervals_of_points_and_predictive_values_hold_the_truth(tmp_path):
    """Of binormal scores the truth is known; 150 samples, of which 95 % should hold it."""
    random, cases, shift, prevalence = np.random.default_rng(1), [], 1.5, 0.1
    for _ in range(150):
        label = np.arange(120) % 3 == 0
        z = shift * label + random.normal(size=120) - shift / 2
        cases.append(alone(label, 1 / (1 + np.exp(-z)), random.uniform(size=120)))
    right = stats.norm.cdf(shift / 2)  # sensitivity and specificity at a probability of one half
    truth = {"ppv": right * prevalence / (right * prevalence + (1 - right) * (1 - prevalence)),
             "npv": right * (1 - prevalence) / (right * (1 - prevalence) + (1 - right) * prevalence),
             "sensitivity_at": 1 - stats.norm.cdf(stats.norm.ppf(0.9) - shift)}
    held = dict.fromkeys(truth, 0)
    for ours in run_driver(tmp_path, cases, 0.9, prevalence):
        for name, value in truth.items():
            _, low, high = ours[name]["share"] if "at" in name else ours[name]
            held[name] += low <= value <= high
    shares = {name: count / 150 for name, count in held.items()}
    assert all(0.92 <= share <= 0.995 for share in shares.values()), shares


def test_predictive_values_follow_bayes_rule(tmp_path):
    cases = [scores(seed) for seed in range(20)]
    for (label, a, _), ours in zip(cases, run_driver(tmp_path, [alone(*case) for case in cases]), strict=True):
        (tn, fp), (fn, tp) = confusion_matrix(label, a >= 0.5, labels=[0, 1])
        ill, healthy = tp / (tp + fn), tn / (tn + fp)
        assert ours["ppv"][0] == pytest.approx(ill * 0.1 / (ill * 0.1 + (1 - healthy) * 0.9), abs=1e-9)
        assert ours["npv"][0] == pytest.approx(healthy * 0.9 / (healthy * 0.9 + (1 - ill) * 0.1), abs=1e-9)
        for value, low, high in (ours["ppv"], ours["npv"]):
            assert 0 <= low <= value <= high <= 1


def test_predictive_values_of_perfect_decisions_are_bounded(tmp_path):
    label = np.arange(40) % 2
    [ours] = run_driver(tmp_path, [alone(label, 0.1 + 0.8 * label, 0.1 + 0.8 * label)])
    for value, low, high in (ours["ppv"], ours["npv"]):
        assert value == high == 1 and 0 < low < 1
    assert ours["ppv"][1] < 0.5  # 20 healthy patients cannot show that fewer than 1 in 10 are taken for ill


def test_net_benefit_is_that_of_the_confusion_matrix(tmp_path):
    label, a, b = scores(3)
    [ours] = run_driver(tmp_path, [alone(label, a, b)])
    for index, threshold in enumerate(np.arange(1, 100) / 100):
        (_, fp), (_, tp) = confusion_matrix(label, a >= threshold, labels=[0, 1])
        odds = threshold / (1 - threshold)
        assert ours["net_benefit"]["model"][index] == pytest.approx((tp - fp * odds) / len(label), abs=1e-9)
        assert ours["net_benefit"]["all"][index] == pytest.approx(label.mean() - (1 - label.mean()) * odds, abs=1e-9)
