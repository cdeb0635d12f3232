"""Curves, tests and figures of times to an event equal scikit-survival's, with ties and censoring, and
losses equal scikit-survival's, and PyTorch's gradients and cross-entropies, to 1e-6 or better."""
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sksurv.compare import compare_survival
from sksurv.linear_model.coxph import BreslowEstimator, CoxPHOptimizer
from sksurv.metrics import (brier_score, concordance_index_censored, concordance_index_ipcw,
                            cumulative_dynamic_auc, integrated_brier_score)
from sksurv.nonparametric import CensoringDistributionEstimator, kaplan_meier_estimator
from sksurv.util import Surv

BUILD = Path(os.environ.get("COLDFRAME_BUILD", Path(__file__).resolve().parents[3] / "build"))
TOLERANCE = 1e-9


def run_driver(folder, cases):
    """cases: (time, event, group, risk, horizons, survival [n, H])."""
    names = []
    for number, (time, event, group, risk, horizons, survival) in enumerate(cases):
        rows = [f"{float(t)!r},{int(e)},{int(g)},{float(r)!r}," + ",".join(repr(float(s)) for s in row)
                for t, e, g, r, row in zip(time, event, group, risk, survival, strict=True)]
        header = "time,event,group,risk," + ",".join(repr(float(h)) for h in horizons)
        (folder / f"{number}.csv").write_text("\n".join([header, *rows]) + "\n")
        names.append(f"{number}.csv")
    done = subprocess.run([BUILD / "tests" / "survival_driver", *names], cwd=folder, check=True, capture_output=True,
                          text=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def made_case(seed):
    """Every third case has heavy ties of times and risks, every fifth no censoring, sizes go down to 12."""
    random = np.random.default_rng(seed)
    n = int(random.integers(12, 40)) if seed % 4 == 0 else int(random.integers(40, 300))
    latent = random.normal(size=n)
    event_time = random.exponential(np.exp(-latent)) * 100
    censored = np.full(n, np.inf) if seed % 5 == 0 else random.exponential(150, n)
    time, event = np.minimum(event_time, censored), event_time <= censored
    risk = latent + random.normal(size=n)
    if seed % 3 == 0:
        time, risk = np.ceil(time / 20) * 20, np.round(risk)
    time[0], event[0] = time.max() + 1, seed % 5 == 0  # alone at the end, so that some are followed at every event
    horizons = np.unique(np.quantile(time[event], [0.25, 0.5, 0.75]))
    horizons = horizons[(horizons < time.max()) & (horizons >= time.min())]
    survival = np.exp(-np.outer(np.exp(0.7 * risk), horizons / 100))
    return time, event, random.integers(0, 4, n), risk, horizons, survival


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    made = [made_case(seed) for seed in range(60)]
    made = [case for case in made if len(case[4]) > 1]
    assert len(made) > 55
    return list(zip(made, run_driver(tmp_path_factory.mktemp("survival"), made), strict=True))


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)


def test_curves_and_log_rank(cases):
    for (time, event, group, *_), ours in cases:
        times, survival, interval = kaplan_meier_estimator(event, time, conf_type="log-log")
        for key, theirs in [("time", times), ("survival", survival), ("low", interval[0]), ("high", interval[1])]:
            close(ours["curve"][key], theirs)
        followed = CensoringDistributionEstimator().fit(Surv.from_arrays(event, time))
        close(ours["censoring"]["survival"], followed.prob_[-len(times):])
        chi_squared, p = compare_survival(Surv.from_arrays(event, time), group)
        close(ours["log_rank"], [chi_squared, p, len(set(group)) - 1])


def test_figures(cases):
    for (time, event, _, risk, horizons, survival), ours in cases:
        y = Surv.from_arrays(event, time)
        close(ours["harrell_c"], concordance_index_censored(event, time, risk)[0])
        close(ours["uno_c"], concordance_index_ipcw(y, y, risk, tau=horizons[-1])[0])
        close(ours["uno_without_tau"], concordance_index_ipcw(y, y, risk)[0])
        at, mean = cumulative_dynamic_auc(y, y, 1 - survival, horizons)
        close([one["auroc"] for one in ours["horizons"]], at)
        close(ours["time_auroc"], mean)
        close([one["brier"] for one in ours["horizons"]], brier_score(y, y, survival, horizons)[1])
        close(ours["integrated_brier"], integrated_brier_score(y, y, survival, horizons))


def test_calibration_groups_are_kaplan_meier_curves(cases):
    for (time, event, _, _, horizons, survival), ours in cases:
        for h, horizon in enumerate(horizons):
            groups = ours["horizons"][h]["groups"]
            assert sum(group["exams"] for group in groups) == len(time)
            order, first = np.argsort(survival[:, h], kind="stable"), 0
            for group in groups:
                own = order[first:first + group["exams"]]
                first += group["exams"]
                close(group["predicted"], survival[own, h].mean())
                assert group["events"] == (event[own] & (time[own] <= horizon)).sum()
                times, share, interval = kaplan_meier_estimator(event[own], time[own], conf_type="log-log")
                step = np.searchsorted(times, horizon, side="right") - 1
                if horizon > times[-1] and share[-1] > 0:  # nobody is followed so far: sksurv refuses, too
                    assert group["observed"] == [None] * 3
                else:
                    close(group["observed"], [1, 1, 1] if step < 0 else [share[step], *interval[:, step]])


def test_cox_loss_and_baseline(cases):
    for (time, event, _, risk, *_), ours in cases:
        efron = CoxPHOptimizer(risk[:, None], event, time, alpha=np.zeros(1), ties="efron")
        close(sum(ours["cox"]["loss"]) / len(time), efron.nlog_likelihood(np.ones(1)))
        # The gradient by the scale of all outputs is theirs by the one coefficient; of each output by differences.
        efron.update(np.ones(1))
        close(np.dot(ours["cox"]["gradient"], risk) / len(time), efron.gradient[0])
        step = np.zeros(len(time))
        step[len(time) // 2] = 1
        shifted = CoxPHOptimizer(np.c_[risk, step], event, time, alpha=np.zeros(2), ties="efron")
        two = [shifted.nlog_likelihood(np.array([1, sign * 1e-5])) for sign in (1, -1)]
        assert ours["cox"]["gradient"][len(time) // 2] == pytest.approx((two[0] - two[1]) / 2e-5 * len(time), abs=1e-5)
        assert ours["cox"]["mean"] == pytest.approx(-risk.mean())
        breslow = BreslowEstimator().fit(risk - risk.mean(), event, time).cum_baseline_hazard_
        np.testing.assert_array_equal(ours["cox"]["times"], np.unique(time[event]))
        close(ours["cox"]["hazards"], breslow.y[np.searchsorted(breslow.x, ours["cox"]["times"])])
        assert ours["cox"]["comparable"] == (concordance_index_censored(event, time, risk)[1:3] != (0, 0))


def test_a_perfect_rank_is_exactly_1_and_a_reversed_one_0(tmp_path):
    """Unequal weights of censoring add up to no 0.9999999999999997, for which there would be an interval."""
    made = []
    for seed in range(30):
        random = np.random.default_rng(seed)
        time, event = random.permutation(60) + 1.0, random.random(60) < 0.6
        for risk in (-time, time):
            survival = np.repeat(1 / (2 + np.exp(risk / 20))[:, None], 3, 1)
            made.append((time, event, np.zeros(60), risk, [15, 30, 45], survival))
    for number, ours in enumerate(run_driver(tmp_path, made)):
        perfect = 1 - number % 2
        figures = [ours["harrell_c"], ours["uno_c"], ours["time_auroc"], *(at["auroc"] for at in ours["horizons"])]
        assert figures == [perfect] * 6, number


def test_what_cannot_be_compared_says_so(tmp_path):
    one = np.array([[0.5, 0.4]])
    ours = run_driver(tmp_path, [([3.0], [1], [0], [0.1], [1, 2], one),
                                 ([1, 2, 3], [0, 0, 0], [0, 1, 2], [0.1, 0.2, 0.3], [1, 2], np.repeat(one, 3, 0)),
                                 ([2, 2], [1, 1], [0, 1], [1, 2], [1, 5], np.repeat(one, 2, 0))])
    for case in ours:
        assert isinstance(case["harrell_c"], str) and isinstance(case["uno_c"], str) and isinstance(case["time_auroc"], str)
    assert ours[2]["integrated_brier"] == "no exam is followed beyond the horizon"
    assert ours[0]["log_rank"] == [0, 1, 0]
