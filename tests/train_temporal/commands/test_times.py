"""Models that were shown times say what exams lack that have none, or other ones."""
import json

import numpy as np
import pandas as pd
import pytest
from training_support import coldframe, exam, make_cache, quick, succeed


def cohort(folder, name, unit=1.0, untimed=0, count=80, seed=0, start=None):
    """Frames at uneven times, in multiples of `unit`; the first `untimed` exams have none. `start`: about so many seconds
    after a zero that all share."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for number in range(count):
        times = unit * np.cumsum(random.uniform(0.5, 2, 5))
        entry = exam(number, 5, str(number % 2), patient=f"{name}-{number}", time_s=[float(t) for t in times],
                     present=[1] * 5)
        entry["id"] = f"{name}-{number}"
        if start is not None:
            entry["elapsed_start"] = start * random.uniform(0.5, 2)
        if number < untimed:
            entry["time_s"] = [None] * 5
        exams.append(entry)
        features.append(random.normal(size=(5, 6)) + number % 2)
    return make_cache(folder, exams, features, name=f"{name}.cache")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    succeed("train", "--cache", cohort(folder, "own"), "--target", "label", "--out", folder / "run",
            *quick("--folds", 2, "--epochs", 2, "--time", "on"))
    return folder / "run"


def predict(run, cache, folder, *more):
    return coldframe("predict", "--run", run, "--cache", cache, "--out", folder / "p.csv", "--overwrite", *more)


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_exams_without_any_time_are_refused_unless_one_insists(run, tmp_path, verb):
    cache = cohort(tmp_path, "bare", untimed=80, seed=1)
    words = [verb, "--run", run, "--cache", cache, "--out", tmp_path / "out"]
    done = coldframe(*words)
    assert done.returncode == 3 and "of none of these 80 exams are times known" in done.stderr, done.stderr
    assert "--without-times" in done.stderr and not (tmp_path / "out").exists()
    done = coldframe(*words, "--without-times")
    assert done.returncode == 0 and "of none of these 80 exams are times known" in done.stderr, done.stderr


def test_some_exams_without_times_are_a_warning(run, tmp_path):
    done = predict(run, cohort(tmp_path, "some", untimed=30, seed=2), tmp_path)
    assert done.returncode == 0 and "of 50 of these 80 exams are times known" in done.stderr, done.stderr
    table = pd.read_csv(tmp_path / "p.csv")
    assert (table.unlike_rank[:30] <= 0.05).all() and (table.unlike_rank[30:] > 0.05).mean() > 0.8


def test_times_of_another_unit_are_unlike(run, tmp_path):
    done = predict(run, cohort(tmp_path, "thousandths", unit=1000, seed=3), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "80 of 80 exams unlike the training data: their intervals between frames" in done.stderr, done.stderr
    same = predict(run, cohort(tmp_path, "same", seed=4), tmp_path)
    assert same.returncode == 0 and "unlike the training data" not in same.stderr, same.stderr


def test_starts_of_another_phase_are_unlike(tmp_path):
    succeed("train", "--cache", cohort(tmp_path, "early", start=20), "--target", "label", "--out", tmp_path / "run",
            *quick("--folds", 2, "--epochs", 1, "--time", "on"))
    late = predict(tmp_path / "run", cohort(tmp_path, "late", seed=3, start=600), tmp_path)
    assert late.returncode == 0, late.stderr
    assert "80 of 80 exams unlike the training data" in late.stderr and "starts after the zero are" in late.stderr, late.stderr
    same = predict(tmp_path / "run", cohort(tmp_path, "same", seed=4, start=20), tmp_path)
    assert same.returncode == 0 and "unlike the training data" not in same.stderr, same.stderr


def test_models_without_times_do_not_ask_for_any(tmp_path):
    succeed("train", "--cache", cohort(tmp_path, "own"), "--target", "label", "--out", tmp_path / "run",
            *quick("--folds", 2, "--epochs", 1, "--time", "off"))
    done = predict(tmp_path / "run", cohort(tmp_path, "bare", untimed=80, seed=1), tmp_path)
    assert done.returncode == 0 and "times known" not in done.stderr, done.stderr
    done = coldframe("evaluate", "--run", tmp_path / "run", "--cache", tmp_path / "bare.cache", "--json")
    assert json.loads(done.stdout)["shift"]["intervals"]["exams"] == 0


@pytest.mark.parametrize("times,said", [([0.0, 0.5, 1.0], "even"), ([None] * 3, "unknown")])
def test_times_that_are_not_shown_are_even_or_unknown(tmp_path, times, said):
    random = np.random.default_rng(7)
    exams = [exam(number, 3, str(number % 2), time_s=times) for number in range(24)]
    cache = make_cache(tmp_path, exams, [random.normal(size=(3, 4)) for _ in exams])
    done = succeed("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", *quick("--folds", 2, "--epochs", 1))
    assert f"time intervals are {said}: not shown to the model (--time on to show them)" in done.stderr
