"""The figures of regression and ordinal targets equal scikit-learn's and SciPy's to 1e-9, with ties,
constant and tiny inputs."""
import json
import subprocess
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk
from test_metrics import BUILD, assert_equal


def run_driver(folder, tables):
    """tables: (header, rows). The figures of each, from one process."""
    words = []
    for number, (header, rows) in enumerate(tables):
        lines = [header] + [",".join(repr(float(v)) for v in row) for row in rows]
        (folder / f"{number}.csv").write_text("\n".join(lines) + "\n")
        words += [f"{number}.csv", "0.5"]
    out = subprocess.run([BUILD / "tests" / "metrics_driver", *words], cwd=folder, check=True,
                         capture_output=True, text=True, timeout=60)
    return [json.loads(line) for line in out.stdout.splitlines()]


def numbers_case(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6)) if seed % 5 == 0 else int(rng.integers(6, 300))
    truth = rng.normal(rng.uniform(-100, 100), rng.uniform(0.1, 50), n)
    predicted = rng.uniform(-1, 1) * truth + rng.normal(size=n) * rng.uniform(0, 30)
    if seed % 3 == 0:
        truth, predicted = np.round(truth, -1), np.round(predicted, -1)
    if seed % 11 == 1:
        truth[:] = truth[0]
    if seed % 11 == 2:
        predicted[:] = predicted[0]
    return truth, predicted


@pytest.mark.parametrize("block", range(2))
def test_figures_of_numbers_equal_scikit_learn_and_scipy(tmp_path, block):
    cases = [numbers_case(seed) for seed in range(200 * block, 200 * block + 200)]
    tables = [("number,predicted", zip(*case)) for case in cases]
    for (truth, predicted), ours in zip(cases, run_driver(tmp_path, tables), strict=True):
        several = len(truth) > 1
        varied = several and np.ptp(truth) > 0
        both = varied and np.ptp(predicted) > 0
        expected = {
            "r2": sk.r2_score(truth, predicted) if varied else None,
            "mae": sk.mean_absolute_error(truth, predicted),
            "rmse": sk.root_mean_squared_error(truth, predicted),
            "pearson": stats.pearsonr(truth, predicted).statistic if both else None,
            "spearman": stats.spearmanr(truth, predicted).statistic if both else None,
        }
        assert list(ours) == list(expected)
        for name, value in expected.items():
            assert_equal(ours[name], value, name)


def grades_case(seed):
    rng = np.random.default_rng(seed)
    classes = 2 + seed % 5
    n = int(rng.integers(1, 8)) if seed % 4 == 0 else int(rng.integers(8, 200))
    probability = rng.dirichlet(np.full(classes, 0.7), n)
    grade = rng.integers(0, classes, n)
    if seed % 7 == 3:
        grade[:] = grade[0]
    return grade, probability


@pytest.mark.parametrize("block", range(2))
def test_figures_of_grades_equal_scikit_learn(tmp_path, block):
    cases = [grades_case(seed) for seed in range(100 * block, 100 * block + 100)]
    tables = [("grade," + ",".join(f"p{c}" for c in range(p.shape[1])),
               [[g, *row] for g, row in zip(grade, p)]) for grade, p in cases]
    for (grade, p), ours in zip(cases, run_driver(tmp_path, tables), strict=True):
        median = (1 - np.cumsum(p[:, :-1], axis=1) > 0.5).sum(axis=1)
        assert ours["decision"] == median.tolist()
        names = range(p.shape[1])
        every = len(set(grade)) == p.shape[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kappa = sk.cohen_kappa_score(grade, median, labels=list(names), weights="quadratic")
        assert_equal(ours["quadratic_kappa"], kappa, "kappa")
        assert_equal(ours["class_mae"], np.abs(grade - median).mean(), "class_mae")
        assert_equal(ours["accuracy"], sk.accuracy_score(grade, median), "accuracy")
        assert_equal(ours["log_loss"], sk.log_loss(grade, p, labels=list(names)), "log_loss")
        balanced = sk.balanced_accuracy_score(grade, median) if every else None
        assert_equal(ours["balanced_accuracy"], balanced, "balanced_accuracy")


def test_nothing_is_not_a_number_in_silence(tmp_path):
    ours = run_driver(tmp_path, [("number,predicted", [(1, np.nan), (2, 3)])])[0]
    assert set(ours.values()) == {"a prediction is not a number"}
