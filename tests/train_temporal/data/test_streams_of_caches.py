"""--cache FA=…,ICGA=…: several caches are read as one whose frames name their streams."""
import copy
import filecmp
import json

import numpy as np
import pandas as pd
import pytest
from test_streams import STREAMS, auroc_of, made, train
from training_support import coldframe, exam, make_cache, quick, succeed


def in_several(folder, exams, features, recipes=(None, None), change=None):
    """The exams of one cache of both streams as a cache of each, as extracting each by itself makes them."""
    words = []
    for stream, recipe in zip(STREAMS, recipes):
        own, values = [], []
        for entry, of_exam in zip(exams, features):
            rows = [k for k, name in enumerate(entry["frame_columns"]["stream"]) if name == stream]
            if not rows:
                continue
            part = copy.deepcopy(entry)
            del part["frame_columns"]
            times = [entry["time_s"][k] for k in rows]
            if "start" in entry:
                part["start"] = entry["start"] + times[0]
                times = [time - times[0] for time in times]
            part |= {"digest": stream, "time_s": times, "present": [entry["present"][k] for k in rows]}
            if change:
                change(stream, part)
            own.append(part)
            values.append(of_exam[rows])
        words.append(f"{stream}={make_cache(folder, own, values, recipe=recipe, name=stream + '.cache')}")
    return ",".join(words)


def train_several(caches, out, *words, expect=0):
    done = coldframe("train", "--cache", caches, "--target", "label", "--out", out, *quick("--folds", 3, *words))
    assert done.returncode == expect, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Exams of one stream alone come last: exams of several caches are in the order of the first that has them."""
    exams, features = made()
    order = sorted(range(len(exams)), key=lambda k: exams[k]["frame_columns"]["stream"][0] == "ICGA")
    exams, features = [exams[k] for k in order], [features[k] for k in order]
    for number, entry in enumerate(exams):
        if None in entry["time_s"]:
            continue
        entry["start"] = 1.6e9 + 86400 * number
        of_frames = entry["frame_columns"]["stream"]
        if number % 3 == 0 and set(of_frames) == set(STREAMS):  # ICGA begins later than FA
            first = of_frames.index("ICGA")
            for values in (of_frames, entry["time_s"], entry["present"]):
                del values[first]
            features[number] = np.delete(features[number], first, axis=0)
    folder = tmp_path_factory.mktemp("cohort")
    return make_cache(folder, exams, features), in_several(folder, exams, features), exams, features


@pytest.mark.parametrize("words", [["--time", "on"], ["--fusion", "gated", "--features", "stream", "--compare", "only-FA,clock"]], ids=["concat", "gated"])
def test_caches_of_streams_give_what_one_cache_of_both_gives(cohort, tmp_path, words):
    one, several, *_ = cohort
    train(one, tmp_path / "one", "--epochs", 3, "--subgroups", "streams", *words)
    train_several(several, tmp_path / "several", "--epochs", 3, "--subgroups", "streams", *words)
    assert filecmp.cmp(tmp_path / "one" / "splits.csv", tmp_path / "several" / "splits.csv", shallow=False)
    tables = sorted(path.name for path in (tmp_path / "one").glob("predictions*.csv"))
    assert tables[:-1] == (["predictions-clock.csv", "predictions-only-FA.csv"] if "--compare" in words else [])
    for table in tables:
        ours, theirs = (pd.read_csv(tmp_path / run / table) for run in ("several", "one"))
        assert ours.exam.equals(theirs.exam)
        np.testing.assert_allclose(ours.p_1, theirs.p_1, rtol=0, atol=1e-6)
    groups = [json.loads((tmp_path / run / "summary.json").read_text())["subgroups"]["streams"]["groups"] for run in ("one", "several")]
    assert [(g["value"], g["exams"]) for g in groups[0]] == [(g["value"], g["exams"]) for g in groups[1]] and len(groups[0]) == 3
    assert auroc_of(tmp_path / "one").keys() == auroc_of(tmp_path / "several").keys()


def test_runs_of_both_kinds_are_applied_to_both_kinds_of_caches(cohort, tmp_path):
    one, several, exams, _ = cohort
    train(one, tmp_path / "one", "--epochs", 2)
    fa, icga = several.split(",")
    for words, run in [(f"{icga},{fa}", "several"), (several, "same")]:
        train_several(words, tmp_path / run, "--epochs", 2)
    assert filecmp.cmp(tmp_path / "same" / "predictions.csv", tmp_path / "several" / "predictions.csv", shallow=False)
    tables = []
    for run in ("one", "several"):
        for number, cache in enumerate([one, several, f"{icga},{fa}"]):
            out = tmp_path / f"{run}-{number}.csv"
            done = succeed("predict", "--run", tmp_path / run, "--cache", cache, "--out", out, "--explain", tmp_path / f"x-{out.name}")
            tables.append(pd.read_csv(out).set_index("exam").p_1)
            assert len(tables[-1]) == len(exams)
            np.testing.assert_allclose(tables[-1], tables[0][tables[-1].index], rtol=0, atol=1e-6)
    succeed("evaluate", "--run", tmp_path / "several", "--cache", several, "--out", tmp_path / "e", "--bootstrap", 50,
            "--against", tmp_path / "one")
    evaluated = pd.read_csv(tmp_path / "e" / "predictions.csv").set_index("exam")
    np.testing.assert_allclose(evaluated.p_1, tables[0][evaluated.index], rtol=0, atol=1e-6)
    done = coldframe("train", "--cache", several, "--target", "label", "--benchmark", *quick("--fusion", "gated"))
    assert done.returncode == 0 and "memory of one fit" in done.stdout, done.stderr


def test_a_run_is_resumed_and_knows_its_caches(cohort, tmp_path):
    several = cohort[1]
    train_several(several, tmp_path / "run", "--epochs", 2)
    assert "nothing to resume" in train_several(several, tmp_path / "run", "--epochs", 2, "--resume").stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["cache"] == several and config["model"]["streams"] == STREAMS
    swapped = several.replace("FA.cache", "x.cache", 1).replace("ICGA.cache", "FA.cache").replace("x.cache", "ICGA.cache")
    done = coldframe("train", "--cache", swapped, "--target", "label", "--out", tmp_path / "run", "--resume", *quick("--folds", 3, "--epochs", 2))
    assert done.returncode == 2 and "data_digest" in done.stderr, done.stderr


def test_every_stream_keeps_a_recipe_of_its_own(tmp_path):
    exams, features = made(40)
    recipes = [{"weights": {"sha256": name}, "pool": "mean"} for name in ("aa", "bb")]
    folders = [tmp_path / name for name in ("a", "same", "other")]
    for folder in folders:
        folder.mkdir()
    several = in_several(folders[0], exams, features, recipes)
    train_several(several, tmp_path / "run", "--epochs", 1)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "streams.FA.weights.sha256" in report and "streams.ICGA.weights.sha256" in report
    succeed("predict", "--run", tmp_path / "run", "--cache", several, "--out", tmp_path / "p.csv")
    done = coldframe("bundle", "make", tmp_path / "run", "--out", tmp_path / "b", "--license", "mit")
    assert done.returncode == 2 and "recipes of their own" in done.stderr, done.stderr
    for caches, stream, found in [(in_several(folders[1], exams, features, recipes[:1] * 2), "ICGA", '"aa", the run "bb"'),
                                  (in_several(folders[2], exams, features, recipes[::-1]), "FA", '"bb", the run "aa"')]:
        done = coldframe("evaluate", "--run", tmp_path / "run", "--cache", caches)
        assert done.returncode == 3 and f"the stream {stream} of" in done.stderr and f"weights.sha256: cache has {found}" in done.stderr
    done = coldframe("train", "--cache", several, "--target", "label", "--out", tmp_path / "other-run", "--overwrite", *quick("--epochs", 1, "--tune", "random"))
    assert done.returncode == 2 and "give one" in done.stderr


def test_words_that_name_no_caches_are_refused(cohort, tmp_path):
    one, several, *_ = cohort
    fa, icga = (part.split("=", 1)[1] for part in several.split(","))
    for words, said in [(f"FA={fa},FA={icga}", "the stream FA is named twice"), (f"FA={fa},{icga}", f"'{icga}' has no name"),
                        (f"FA={fa},ICGA=", "the stream ICGA has no path"), (f"FA={fa}", "it names one stream, FA"),
                        (f"FA={fa},ICGA={tmp_path}/../{tmp_path.name}/absent.cache", "there is no such cache"),
                        (f"FA={fa},ICGA={fa}/", "the streams FA and ICGA are one cache"), (f"FA={fa},,ICGA={icga}", "'' has no name")]:
        done = coldframe("train", "--cache", words, "--target", "label", "--out", tmp_path / "run")
        assert done.returncode in (2, 3) and said in done.stderr, done.stderr
    assert "give one of them" in train_several(several, tmp_path / "run", "--streams", "stream", expect=2).stderr
    train_several(several, tmp_path / "run", "--epochs", 1)
    succeed("train", "--cache", one, "--target", "label", "--out", tmp_path / "plain", *quick("--folds", 3, "--epochs", 1))
    for run, words, said in [("run", f"FA={fa},OCT={icga}", "names the streams FA, OCT, and the run learnt FA, ICGA"),
                             ("plain", several, "trained without streams"), ("run", fa, "--cache NAME=PATH,NAME=PATH")]:
        for command in (["predict", "--out", tmp_path / "p.csv"], ["evaluate"]):
            done = coldframe(*command, "--run", tmp_path / run, "--cache", words)
            assert done.returncode in (2, 3) and said in done.stderr, done.stderr


def test_a_path_stays_a_path(cohort, tmp_path):
    exams, features = [exam(i, 3, str(i % 2)) for i in range(12)], [np.random.default_rng(i).normal(size=(3, 3)) for i in range(12)]
    for name in ("a=b.cache", "a=b,c=d.cache", "a,b.cache"):
        made_cache = make_cache(tmp_path, exams, features, name=name)
        for path, folder in [(made_cache, None), (name, tmp_path)]:
            done = succeed("train", "--cache", path, "--target", "label", "--out", tmp_path / "run", "--overwrite", *quick("--folds", 2, "--epochs", 1), cwd=folder)
    done = coldframe("train", "--cache", "a=b=c.cache", "--target", "label", "--out", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 2 and "there is no such cache" in done.stderr


@pytest.mark.parametrize("change, words, said", [
    ({"patient": "somebody"}, [], "is of patient 'somebody' in"),
    ({"columns": {"label": "1"}}, [], "the column 'label' of exam 'exam-0' is '1' in"),
    ({"columns": {"label": "0.0", "site": "b"}}, ["--subgroups", "site"], "the column 'site' of exam 'exam-0' is 'b' in"),
    ({"columns": {"label": "0.0", "site": "b"}}, ["--covariates", "site"], "the column 'site' of exam 'exam-0' is 'b' in"),
    ({"columns": {"label": "0.0", "site": "b", "device": "b"}}, [], None),
])
def test_caches_that_contradict_each_other_in_what_is_used_are_refused(tmp_path, change, words, said):
    exams, features = made(24, missing=False)
    for number, entry in enumerate(exams):
        entry["columns"] |= {"site": "ab"[number // 2 % 2], "device": "a"}

    def one(stream, entry):
        if stream == "ICGA" and entry["id"] == "exam-0":
            entry.update(change)
    several = in_several(tmp_path, exams, features, change=one)
    done = train_several(several, tmp_path / "run", "--epochs", 1, *words, expect=3 if said else 0)
    assert said is None or (said in done.stderr and "FA.cache" in done.stderr and "ICGA.cache" in done.stderr), done.stderr


@pytest.mark.parametrize("what, said", [("width", "features of width 5 and"), ("views", "the views clean and")])
def test_features_that_cannot_lie_beside_each_other_are_refused(tmp_path, what, said):
    exams = [exam(i, 3, str(i % 2)) for i in range(8)]
    a = make_cache(tmp_path, exams, [np.zeros((3, 5))] * 8, name="a.cache")
    views = ("clean", "view-1") if what == "views" else ("clean",)
    shape = (2, 3, 5) if what == "views" else (3, 6)
    b = make_cache(tmp_path, exams, [np.zeros(shape)] * 8, name="b.cache", views=views)
    done = train_several(f"a={a},b={b}", tmp_path / "run", expect=3)
    assert said in done.stderr and str(a) in done.stderr and str(b) in done.stderr


def test_visits_of_a_patient_are_joined_over_caches_of_streams(tmp_path):
    exams, features = made(48, missing=False)
    for number, entry in enumerate(exams):
        entry |= {"patient": f"p{number // 2}"}
        entry["columns"]["day"] = str(number % 2 * 30)
    one, several = make_cache(tmp_path, exams, features), in_several(tmp_path, exams, features)
    train(one, tmp_path / "one", "--epochs", 2, "--visits", "day")
    train_several(several, tmp_path / "several", "--epochs", 2, "--visits", "day")
    assert filecmp.cmp(tmp_path / "one" / "predictions.csv", tmp_path / "several" / "predictions.csv", shallow=False)


def test_caches_that_do_not_meet_are_warned_of(cohort, tmp_path):
    *_, exams, features = cohort

    def apart(stream, part):
        part["id"] += "_" + stream

    caches = in_several(tmp_path, exams, features, change=apart)
    done = train_several(caches, tmp_path / "run", "--epochs", 1)
    assert "0 of 96 exams have more than one" in done.stderr and "no exam has more than one of the streams" in done.stderr, done.stderr
    done = coldframe("predict", "--run", tmp_path / "run", "--cache", caches, "--out", tmp_path / "p.csv")
    assert done.returncode == 0 and "no exam has more than one of the streams" in done.stderr, done.stderr

    def late(stream, part):
        part["time_s"] = [t + 0.01 * (stream == "ICGA") for t in part["time_s"]]
        part.pop("start", None)

    (tmp_path / "late").mkdir()
    timed = [k for k in range(len(exams)) if None not in exams[k]["time_s"]][:14]
    caches = in_several(tmp_path / "late", [exams[k] for k in timed], [features[k] for k in timed], change=late)
    done = train_several(caches, tmp_path / "late" / "run", "--epochs", 1)
    assert "no two streams have a frame at the same instant" in done.stderr, done.stderr


def test_a_cache_of_several_streams_is_none_of_one(cohort, tmp_path):
    one, several, *_ = cohort
    done = train_several(f"FA={one},{several.split(',')[1]}", tmp_path / "run", expect=3)
    assert "is given as FA has frames whose column 'stream' says ICGA" in done.stderr, done.stderr


@pytest.mark.parametrize("known", [True, False])
def test_times_since_a_zero_count_where_every_cache_knows_them(tmp_path, known):
    """An exam whose ICGA does not say when it began has no start after the zero, whatever its FA says."""
    random, caches = np.random.default_rng(0), []
    for s, stream in enumerate(STREAMS):
        exams = [exam(number, 3, str(number % 2), elapsed_start=8.0 + 30 * number + 10 * s) for number in range(24)]
        if s == 1 and not known:
            del exams[5]["elapsed_start"]
        caches.append(f"{stream}={make_cache(tmp_path, exams, list(random.normal(size=(24, 3, 4))), name=stream + '.cache')}")
    said = train_several(",".join(caches), tmp_path / "run", "--epochs", 1).stderr
    assert ("a zero that all share" in said) == known
