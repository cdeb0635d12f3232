"""--visits: a patient's earlier exams, read before each as one sequence."""
import filecmp
import json

import numpy as np
import pandas as pd
import pytest
from training_support import coldframe, exam, make_cache, quick, succeed

DAY = 86400


def visits(patients=40, of_each=3, frames=2, dimension=5, seed=0):
    """The label says whether the patient's level has risen since the visit before (the first: is nothing)."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for patient in range(patients):
        day, level = 0, 2 * random.normal()
        for visit in range(of_each):
            rise = random.choice([-1, 1])
            level += rise if visit else 0
            columns = {"label": str(int(rise > 0)) if visit else "", "day": str(day), "date": str(np.datetime64("2020-01-30") + day)}
            times = [None] * frames if patient % 5 == 4 else [0.25 * t for t in range(frames)]
            exams.append(exam(f"{patient}-{visit}", frames, "", f"P{patient}", columns=columns, time_s=times,
                              present=[1] * (frames - 1) + [visit % 2]))
            values = 0.05 * random.normal(size=(frames, dimension))
            values[:, 0] += level
            features.append(values)
            day += int(random.integers(20, 400))
    order = random.permutation(len(exams))
    return [exams[i] for i in order], [features[i] for i in order]


def joined(exams, features):
    """The same exams, each made by hand with the earlier ones of its patient in front."""
    result = []
    for e in exams:
        parts = sorted((i for i, o in enumerate(exams) if o["patient"] == e["patient"] and
                        int(o["columns"]["day"]) <= int(e["columns"]["day"])), key=lambda i: int(exams[i]["columns"]["day"]))
        begin, times = int(exams[parts[0]]["columns"]["day"]), []
        for i in parts:
            at = DAY * (int(exams[i]["columns"]["day"]) - begin)
            own = exams[i]["time_s"]
            times += [at + t for t in own] if own[0] is not None else [at] + own[1:] if len(parts) > 1 else own
        present = sum((exams[i]["present"] for i in parts), [])
        result.append(({**e, "time_s": times, "present": present}, np.concatenate([features[i] for i in parts])))
    return [one for one, _ in result], [values for _, values in result]


def train(cache, run, *words):
    succeed("train", "--cache", cache, "--target", "label", "--out", run, "--folds", 3, "--bootstrap", 50, "--hidden", 16, *words)
    return run


@pytest.mark.parametrize("features_in", ["memory", "stream"])
def test_runs_equal_those_on_exams_that_were_joined_by_hand(tmp_path, features_in):
    exams, features = visits(12)
    cache, by_hand = make_cache(tmp_path, exams, features), make_cache(tmp_path, *joined(exams, features), name="joined.cache")
    words = ["--epochs", 3, "--compare", "mean,clock,blank", "--features", features_in]
    a = train(cache, tmp_path / "a", "--visits", "day", *words)
    b = train(by_hand, tmp_path / "b", *words)
    for name in ["predictions.csv", "predictions-clock.csv", "predictions-blank.csv", "metrics.csv", "splits.csv"]:
        assert filecmp.cmp(a / name, b / name, shallow=False), name
    for run, of in [(a, cache), (b, by_hand)]:
        for verb, out in [("predict", "p.csv"), ("evaluate", "e")]:
            succeed(verb, "--run", run, "--cache", of, "--out", run / out,
                    *(["--explain", run / "frames.csv"] if verb == "predict" else ["--bootstrap", 50]))
    for name in ["p.csv", "frames.csv", "e/predictions.csv"]:
        assert filecmp.cmp(a / name, b / name, shallow=False), name
    dates = train(cache, tmp_path / "dates", "--visits", "date", *words)
    assert filecmp.cmp(a / "predictions.csv", dates / "predictions.csv", shallow=False)


def test_what_earlier_visits_show_is_learnt_from_them_and_from_nothing_else(tmp_path):
    cache = make_cache(tmp_path, *visits(120))
    runs = {}
    for name, words in {"with": ["--visits", "day"], "without": []}.items():
        runs[name] = train(cache, tmp_path / name, "--epochs", 60, "--lr", 0.005, "--noise", 0.1,
                           "--temporal-pool", "last", *words)
    auroc = {name: json.loads((run / "summary.json").read_text())["models"][0]["metrics"]["auroc"]["mean_over_folds"]["value"]
             for name, run in runs.items()}
    assert auroc["with"] >= 0.95 and auroc["without"] <= 0.85, auroc
    assert len(pd.read_csv(runs["with"] / "predictions.csv")) == 240
    done = coldframe("evaluate", "--run", runs["with"], "--against", runs["without"])
    assert done.returncode == 0 and "better" in done.stdout, done.stdout


def test_a_run_knows_the_features_of_earlier_visits(tmp_path):
    """They are part of what it was trained on, though nobody labelled them."""
    exams, features = visits(9)
    digests = []
    for digest in ["aa" * 16, "bb" * 16]:
        for entry in exams:
            if entry["columns"]["label"] == "":
                entry["digest"] = digest
        cache = make_cache(tmp_path, exams, features, name=f"{digest[:2]}.cache")
        run = train(cache, tmp_path / digest[:2], "--visits", "day", "--epochs", 1)
        digests.append(json.loads((run / "config.json").read_text())["data_digest"])
    assert digests[0] != digests[1]


def test_an_applied_run_speaks_of_no_option_of_its_training(tmp_path):
    exams, features = visits(9)
    cache = make_cache(tmp_path, exams, features)
    run = train(cache, tmp_path / "run", "--visits", "day", "--epochs", 1)
    for entry in exams:
        del entry["columns"]["day"]
    other = make_cache(tmp_path, exams, features, name="other.cache")
    done = coldframe("predict", "--run", run, "--cache", other, "--out", tmp_path / "p.csv")
    assert done.returncode == 2 and "visits are joined by 'day' (train --visits), and the cache has no such column" in done.stderr, done.stderr


def test_exams_of_the_same_time_do_not_see_each_other(tmp_path):
    exams, features = visits(9)
    for entry in exams:
        entry["columns"]["day"] = "7"
    cache = make_cache(tmp_path, exams, features)
    a, b = train(cache, tmp_path / "a", "--visits", "day", "--epochs", 2), train(cache, tmp_path / "b", "--epochs", 2)
    assert filecmp.cmp(a / "predictions.csv", b / "predictions.csv", shallow=False)


@pytest.mark.parametrize("words, change, said", [
    (["--visits", "visit"], {}, "no such column"),
    (["--visits", "day", "--exam-is-patient"], {}, "give one of them"),
    (["--visits", "start_time"], {}, "has no time, and its patient has 3 exams"),
    (["--visits", "label"], {"label": "soon"}, "'soon' of exam"),
    (["--visits", "day"], {"day": ""}, "has no time"),
    (["--visits", "day"], {"patient": ""}, "names no patients"),
    (["--visits", "day"], {"day": ["2020-01-05", "30"]}, "is a number of days, '2020-01-05' of exam"),
])
def test_what_has_no_order_is_refused(tmp_path, words, change, said):
    exams, features = visits(6)
    for number, entry in enumerate(exams):
        entry["patient"] = change.get("patient", entry["patient"])
        entry["columns"] |= {name: value if isinstance(value, str) else value[number % 2] for name, value in change.items() if name != "patient"}
    done = coldframe("train", "--cache", make_cache(tmp_path, exams, features), "--target", "label", "--out", tmp_path / "run",
                     *quick(*words))
    assert done.returncode == 2 and said in done.stderr, done.stderr
