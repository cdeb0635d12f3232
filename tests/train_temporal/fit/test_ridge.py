"""Ridge-penalised fits and discriminants equal scikit-learn's and scikit-survival's at equal penalties, with more and with
fewer features than rows, and the penalty that is chosen is the one that predicts rows of other folds best."""
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.covariance import EmpiricalCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.util import Surv

BUILD = Path(os.environ.get("COLDFRAME_BUILD", Path(__file__).resolve().parents[3] / "build"))
SHAPES = [(60, 5), (80, 40), (50, 120)]
FOLDS = 5


def run_driver(folder, cases):
    (folder / "cases.json").write_text(json.dumps(cases))
    done = subprocess.run([BUILD / "tests" / "ridge_driver", "cases.json"], cwd=folder, check=True, capture_output=True,
                          text=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


def made_rows(random, n, p):
    """Correlated columns of mean 0, one of them constant."""
    x = random.normal(size=(n, p)) @ (np.eye(p) + 0.3 * random.normal(size=(p, p)) / np.sqrt(p))
    x[:, -1] = 1
    return x - x.mean(0)


def latent(random, x):
    return x[:, :3] @ [1.5, -1, 0.5] + random.normal(size=len(x))


def binary(random, x):
    y = (latent(random, x) > 0.8).astype(int)
    y[:2] = [0, 1]
    return {"loss": "logistic", "outputs": 1, "value": y.tolist()}


def classes(random, x):
    y = np.digitize(latent(random, x), [-1, 0.5, 2])
    y[:4] = range(4)
    return {"loss": "softmax", "outputs": 4, "value": y.tolist()}


def numbers(random, x):
    return {"loss": "squares", "outputs": 1, "value": (latent(random, x) + 3).tolist()}


def times(random, x):
    time = np.ceil(random.exponential(np.exp(-latent(random, x))) * 40) / 4
    event = random.random(len(x)) < 0.7
    event[:2] = True
    return {"loss": "cox", "outputs": 1, "value": np.where(event, time, -time).tolist()}


def by_library(case):
    """Weights [p, C] and intercept [C] from scikit-learn or scikit-survival."""
    x, y, penalty = np.array(case["x"]), np.array(case["value"], float), case["penalty"]
    if case["loss"] == "squares":
        fit = Ridge(alpha=penalty, tol=1e-12).fit(x, y)
        return fit.coef_[:, None], np.array([fit.intercept_])
    if case["loss"] == "cox":
        fit = CoxPHSurvivalAnalysis(alpha=penalty, ties="efron", n_iter=500, tol=1e-12)
        fit.fit(x, Surv.from_arrays(y > 0, np.abs(y)))
        return fit.coef_[:, None], np.array([0.0])
    fit = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=20000, solver="lbfgs").fit(x, y)
    return fit.coef_.T, fit.intercept_


def made_cases():
    cases = []
    for number, (make, (n, p), share) in enumerate(
            (make, shape, share) for make in (binary, classes, numbers, times) for shape in SHAPES for share in (0.05, 2)):
        random = np.random.default_rng(number)
        x = made_rows(random, n, p)
        folds = np.arange(n) % FOLDS
        cases.append({"x": x.tolist(), "penalty": share * p, "folds": folds.tolist(), **make(random, x)})
    return cases


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    cases = made_cases()
    return list(zip(cases, run_driver(tmp_path_factory.mktemp("ridge"), cases), strict=True))


def test_coefficients_equal_the_libraries(fitted):
    for case, fit in fitted:
        weights, intercept = by_library(case)
        name = f"{case['loss']} {np.shape(case['x'])} {case['penalty']}"
        np.testing.assert_allclose(np.reshape(fit["weights"], weights.shape), weights, atol=2e-5, err_msg=name)
        if case["loss"] == "softmax":  # a number that all classes share changes nothing
            intercept = intercept - intercept.mean()
        np.testing.assert_allclose(fit["intercept"] - np.mean(fit["intercept"]) * (case["loss"] == "softmax"), intercept,
                                   atol=2e-5, err_msg=name)


def without_fold(case, fold):
    kept = np.array(case["folds"]) != fold
    return {**case, "x": np.array(case["x"])[kept].tolist(), "value": np.array(case["value"])[kept].tolist()}


def test_fits_without_a_fold_are_those_of_the_other_rows(fitted):
    """As nearly as the choice of a penalty needs."""
    for case, fit in fitted[::2]:
        for fold in range(FOLDS):
            part = without_fold(case, fold)
            if case["loss"] in ("logistic", "softmax") and len(set(part["value"])) < len(set(case["value"])):
                continue
            weights, _ = by_library(part)
            held_out = np.array(case["x"])[np.array(case["folds"]) == fold]
            found = held_out @ np.reshape(fit["without"][fold]["weights"], weights.shape)
            wanted = held_out @ weights
            assert np.abs(found - wanted).max() < 0.03 * max(np.abs(wanted).max(), 1), case["loss"]


class RidgeCovariance(EmpiricalCovariance):
    def __init__(self, penalty=1.0):
        super().__init__()
        self.penalty = penalty

    def fit(self, x, y=None):
        super().fit(x)
        self.covariance_ = self.covariance_ + self.penalty * np.eye(x.shape[1])
        return self


def discriminants(case, penalty):
    """scikit-learn's weights [p, C], the intercepts [C] without the classes' shares, and the logarithms of these; of two
    classes, the differences."""
    fit = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=RidgeCovariance(penalty))
    fit.fit(np.array(case["x"]), np.array(case["value"], int))
    shares = np.log(fit.priors_)
    shares = shares if len(shares) > 2 else np.diff(shares)
    return fit.coef_.T, fit.intercept_ - shares, shares


def without_level(z):
    """A number that all classes share changes nothing."""
    return z - z.mean(-1, keepdims=True) if z.shape[-1] > 1 else z


def test_discriminants_equal_scikit_learns(fitted):
    for case, fit in fitted:
        if case["loss"] not in ("logistic", "softmax"):
            continue
        chosen, x = fit["chosen"], np.array(case["x"])
        weights, constant, shares = discriminants(case, chosen["penalty"])
        wanted = chosen["multiple"] * (x @ weights + constant) + shares
        found = x @ np.reshape(chosen["weights"], weights.shape) + chosen["intercept"]
        np.testing.assert_allclose(without_level(found), without_level(wanted), atol=1e-6 * np.abs(wanted).max(),
                                   err_msg=f"{case['loss']} {x.shape}")


def loss_of_numbers(case, penalty):
    """The sum of the losses of all rows, each predicted without its fold, by scikit-learn."""
    loss = 0
    for fold in range(FOLDS):
        weights, intercept = by_library({**without_fold(case, fold), "penalty": penalty})
        out = np.array(case["folds"]) == fold
        loss += np.sum((np.array(case["x"])[out] @ weights[:, 0] + intercept - np.array(case["value"])[out]) ** 2) / 2
    return loss


def loss_of_classes(case, penalty):
    """The same of discriminants, with the multiple that suits them best."""
    parts = []
    for fold in range(FOLDS):
        weights, constant, shares = discriminants(without_fold(case, fold), penalty)
        out = np.array(case["folds"]) == fold
        parts.append((np.array(case["x"])[out] @ weights + constant, shares, np.array(case["value"])[out]))

    def loss(log_multiple):
        total = 0
        for d, shares, label in parts:
            z = np.exp(log_multiple) * d + shares
            z = np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z
            total += np.sum(np.logaddexp.reduce(z, 1) - z[np.arange(len(z)), label])
        return total
    return minimize_scalar(loss, bounds=(-7, 2), method="bounded", options={"xatol": 1e-4}).fun


def test_the_chosen_penalty_predicts_rows_of_other_folds_best(fitted):
    for case, fit in fitted[1::2]:
        if case["loss"] == "cox":
            continue
        chosen, is_number = fit["chosen"], case["loss"] == "squares"
        held_out_loss = loss_of_numbers if is_number else loss_of_classes
        unit = chosen["features"] / (1 if is_number else np.shape(case["x"])[1])
        losses = [held_out_loss(case, unit * 10 ** (power / 2)) for power in range(-6, 5)]
        assert chosen["loss"] == pytest.approx(held_out_loss(case, chosen["penalty"]), rel=1e-3)
        assert chosen["loss"] <= min(losses) * 1.002, (case["loss"], np.shape(case["x"]), losses, chosen["penalty"])


def test_a_gain_is_what_constants_lack(tmp_path):
    """In nats, of all rows without their fold; of labels that have nothing to do with the rows it is about none."""
    random, cases = np.random.default_rng(2), []
    x = made_rows(random, 100, 6)
    folds = (np.arange(100) % FOLDS).tolist()
    for make in (binary, classes, numbers, times):
        made = make(random, x)
        cases += [{"x": rows.tolist(), "penalty": 1.0, "folds": folds, **made} for rows in (x, random.permutation(x))]
    gains = [fit["chosen"]["gain"] for fit in run_driver(tmp_path, cases)]
    for found, none in zip(gains[::2], gains[1::2], strict=True):
        assert found > 10 and -2 < none < 2, gains
    value, of = np.array(cases[4]["value"]), np.array(folds)
    alone = np.array([value[of != fold].mean() for fold in of])
    chosen = run_driver(tmp_path, cases[4:5])[0]["chosen"]
    assert chosen["gain"] == pytest.approx(50 * np.log(np.sum((value - alone) ** 2) / 2 / chosen["loss"]), rel=1e-6)


def test_outputs_with_labels_of_their_own_are_fitted_apart(tmp_path):
    """Logistic outputs share the penalty and nothing else; a row may lack the label of one."""
    random = np.random.default_rng(5)
    x = made_rows(random, 90, 8)
    y = (latent(random, x)[:, None] > [-1, 0.5]).astype(float)
    known = np.stack([np.ones(90, bool), y[:, 0] > 0], 1)
    value = [None if not k else v for v, k in zip(y.ravel().tolist(), known.ravel(), strict=True)]
    case = {"x": x.tolist(), "loss": "logistic", "outputs": 2, "value": value, "penalty": 3.0}
    fit, = run_driver(tmp_path, [case])
    weights = np.reshape(fit["weights"], (8, 2))
    for output in range(2):
        rows = known[:, output]
        alone = LogisticRegression(C=1 / 3, tol=1e-10, max_iter=10000).fit(x[rows], y[rows, output])
        np.testing.assert_allclose(weights[:, output], alone.coef_[0], atol=2e-5)
        assert fit["intercept"][output] == pytest.approx(alone.intercept_[0], abs=2e-5)
