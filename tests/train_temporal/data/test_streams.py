"""--streams: frames of several streams are one input per instant; what is missing is masked."""
import filecmp
import json
import signal
import subprocess
import time

import numpy as np
import pandas as pd
import pytest
import torch
from training_support import PROGRAM, coldframe, exam, make_cache, quick, succeed

import fitted
from coldframe.models import TemporalModel

STREAMS = ["FA", "ICGA"]


def made(count=60, steps=4, dimension=5, seed=0, rule=None, missing=True):
    """Exams of both streams at the same instants, or of one where it is missing; `rule` makes label and features."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for number in range(count):
        label, values = (rule or shifted)(random, steps, dimension, number)
        shown = STREAMS if not missing or number % 5 < 3 else [STREAMS[number % 2]]
        order = [(t, s) for s in range(2) if STREAMS[s] in shown for t in range(steps) if not missing or number % 4 or t != s + 1]
        times = [round(0.5 * t + 0.1 * t * t, 6) for t, _ in order]
        if number % 7 == 6:
            times = [None] * len(order)
        exams.append(exam(number, len(order), str(label), time_s=times, present=[int(number % 9 != 8 or k != 1) for k in range(len(order))],
                          frame_columns={"stream": [STREAMS[s] for _, s in order]}))
        features.append(np.array([values[s, t] for t, s in order]))
    return exams, features


def shifted(random, steps, dimension, number):
    label, values = number % 2, random.normal(size=(2, steps, dimension))
    values[1, :, 0] += 3 * label  # in ICGA alone
    values[:, :, 1] += 20
    return label, values


def exclusive(random, steps, dimension, number):
    """Each stream shows a sign, and the label is whether they are the same."""
    signs, values = random.choice([-1, 1], 2), 0.3 * random.normal(size=(2, steps, dimension))
    values[:, :, 0] += 2 * signs[:, None]
    return int(signs[0] == signs[1]), values


def merged(entry, values):
    """[instants, 2 D + 2] by hand: NaN where a stream has no frame, and its time."""
    streams, times = [STREAMS.index(name) for name in entry["frame_columns"]["stream"]], entry["time_s"]
    if None in times:
        places = [streams[:k].count(s) for k, s in enumerate(streams)]
    else:
        places = [sorted(set(times)).index(t) for t in times]
    width = values.shape[1]
    rows, seconds = np.full((max(places) + 1, 2 * width + 2), np.nan), np.full(max(places) + 1, np.nan)
    rows[:, 2 * width:] = 0
    for place, s, time_s, there, frame in zip(places, streams, times, entry["present"], values):
        seconds[place] = np.nan if time_s is None else time_s
        if there:
            rows[place, s * width:(s + 1) * width], rows[place, 2 * width + s] = frame, 1
    present = rows[:, 2 * width:].any(1)
    return rows[present].astype(np.float32), seconds[present]


def probability(model, rows, seconds):
    return model.predictions(fitted.outputs_of(model, rows, seconds))["label"][1].item()


def train(cache, out, *words, expect=0):
    folds = [] if "--folds" in words else ["--folds", 3]
    done = coldframe("train", "--cache", cache, "--target", "label", "--out", out, "--streams", "stream", *quick(*folds, *words))
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def auroc_of(run):
    models = json.loads((run / "summary.json").read_text())["models"]
    return {model["name"]: model["metrics"]["auroc"]["mean_over_folds"]["value"] for model in models}


MODELS = {
    "gru": [], "gated": ["--fusion", "gated"], "lstm": ["--model", "lstm"], "decay": ["--time-encoding", "decay"],
    "mean": ["--model", "mean"], "gated-attention": ["--model", "attention", "--fusion", "gated"], "transformer": ["--model", "transformer"],
    "tcn": ["--model", "tcn", "--fusion", "gated"], "mixup": ["--mixup", 0.2],
}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    exams, features = made()
    return make_cache(tmp_path_factory.mktemp("cohort"), exams, features), exams, features


@pytest.mark.parametrize("name", MODELS)
def test_held_out_predictions_equal_pytorch_on_rows_that_were_merged_by_hand(cohort, tmp_path, name):
    cache, exams, features = cohort
    timed = [] if {"mean", "attention"} & set(MODELS[name]) else ["--time", "on"]
    train(cache, tmp_path / "run", "--epochs", 4, "--compare", "only-FA", *timed, *MODELS[name])
    rows = {entry["id"]: merged(entry, values.astype(np.float16).astype(np.float32)) for entry, values in zip(exams, features)}
    for table, folder in [("predictions.csv", "models"), ("predictions-only-FA.csv", "controls/only-FA")]:
        ours = pd.read_csv(tmp_path / "run" / table)
        for fold, part in ours.groupby("fold"):
            model = TemporalModel.load(tmp_path / "run" / folder / f"fold-{fold}-seed-0.safetensors")
            for _, one in part.iterrows():
                assert one.p_1 == pytest.approx(probability(model, *rows[one.exam]), abs=2e-6), (table, one.exam)


def test_frames_of_several_streams_as_one_sequence_are_told(cohort, tmp_path):
    said = "frames of the streams FA, ICGA follow one another as one sequence; --streams stream reads them side by side"
    done = succeed("train", "--cache", cohort[0], "--target", "label", "--out", tmp_path / "run", *quick("--folds", 2, "--epochs", 1))
    assert (done.stdout + done.stderr).count(said) == 1
    assert said not in train(cohort[0], tmp_path / "streams", "--epochs", 1, "--folds", 2).stderr


def test_a_search_leaves_the_inputs_of_streams(cohort, tmp_path):
    succeed("train", "--cache", cohort[0], "--target", "label", "--out", tmp_path / "run", "--streams", "stream",
            *quick("--folds", 2, "--epochs", 1, "--search", 5, model=None))
    table = pd.read_csv(tmp_path / "run" / "search.csv")
    assert set(table.inputs) == {"level"} and table.model.nunique() > 1


def test_statistics_are_of_what_is_there(cohort, tmp_path):
    cache, exams, features = cohort
    train(cache, tmp_path / "run", "--epochs", 1, "--folds", 1)
    splits = pd.read_csv(tmp_path / "run" / "splits.csv")
    part = set(splits[splits.part == "train"].exam)
    rows = np.concatenate([merged(e, v.astype(np.float16))[0] for e, v in zip(exams, features) if e["id"] in part]).astype(float)
    model = fitted.models_of(tmp_path / "run")[0]
    np.testing.assert_allclose(model.feature_mean[:10], np.nanmean(rows, 0)[:10], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.feature_std[:10], np.nanstd(rows, 0)[:10], rtol=1e-6)
    assert model.feature_mean[10:].tolist() == [0, 0] and model.feature_std[10:].tolist() == [1, 1]


@pytest.mark.parametrize("model", ["gru", "auto"])
def test_a_stream_without_the_label_gives_nothing_and_the_one_with_it_all(tmp_path, model):
    exams, features = made(120, missing=False)
    cache = make_cache(tmp_path, exams, features)
    done = train(cache, tmp_path / "run", "--epochs", 20, "--compare", "only-FA,only-ICGA", "--model", model)
    auroc = auroc_of(tmp_path / "run")
    assert auroc[model] >= 0.95 and auroc["only-ICGA"] >= 0.95 and 0.35 <= auroc["only-FA"] <= 0.65, auroc
    assert f"The stream FA alone gives less than {model}" in done.stdout


@pytest.mark.parametrize("fusion", ["concat", "gated"])
def test_what_two_streams_tell_together_neither_tells_alone(tmp_path, fusion):
    exams, features = made(240, rule=exclusive, missing=False)
    cache = make_cache(tmp_path, exams, features)
    train(cache, tmp_path / "run", "--epochs", 60, "--hidden", 32, "--lr", 0.01, "--noise", 0.3, "--fusion", fusion,
          "--compare", "only-FA,only-ICGA")
    auroc = auroc_of(tmp_path / "run")
    assert auroc["gru"] >= 0.95 and all(0.35 <= auroc[f"only-{name}"] <= 0.65 for name in STREAMS), auroc


def test_comparing_alone_adds_each_stream_and_subgroups_know_who_has_which(cohort, tmp_path):
    train(cohort[0], tmp_path / "run", "--compare", "--epochs", 2, "--subgroups", "streams")
    assert list(auroc_of(tmp_path / "run"))[-2:] == ["only-FA", "only-ICGA"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    groups = {group["value"]: group["exams"] for group in summary["subgroups"]["streams"]["groups"]}
    assert set(groups) == {"FA", "FA+ICGA", "ICGA"} and sum(groups.values()) == 60


def test_applied_runs_read_streams_as_their_training_did(cohort, tmp_path):
    cache, exams, features = cohort
    train(cache, tmp_path / "run", "--epochs", 3, "--fusion", "gated")
    succeed("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "p.csv", "--explain", tmp_path / "x.csv")
    succeed("evaluate", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "e", "--bootstrap", 50)
    ours = pd.read_csv(tmp_path / "p.csv").set_index("exam")
    theirs = pd.read_csv(tmp_path / "e" / "predictions.csv").set_index("exam")
    np.testing.assert_array_equal(ours.p_1, theirs.p_1[ours.index])
    parts = pd.read_csv(tmp_path / "x.csv")
    for _, rows in parts.groupby("exam"):
        assert rows.contribution.sum() == pytest.approx(rows.output.iloc[0] - rows.baseline.iloc[0], abs=2e-4)
    one = [(e, v) for e, v in zip(exams, features) if set(e["frame_columns"]["stream"]) == {"ICGA"}]
    alone = make_cache(tmp_path, [e for e, _ in one], [v for _, v in one], name="alone.cache")
    succeed("predict", "--run", tmp_path / "run", "--cache", alone, "--out", tmp_path / "alone.csv")
    again = pd.read_csv(tmp_path / "alone.csv").set_index("exam")
    np.testing.assert_allclose(again.p_1, ours.p_1[again.index], rtol=0, atol=1e-6)


@pytest.mark.parametrize("words", [[], ["--fusion", "gated"], ["--compare", "only-ICGA"]])
def test_ways_of_computing_change_no_byte(cohort, tmp_path, words):
    train(cohort[0], tmp_path / "a", "--epochs", 3, *words)
    train(cohort[0], tmp_path / "b", "--epochs", 3, "--features", "stream", "--jobs", 2, "--micro-batch", 5, *words)
    assert filecmp.cmp(tmp_path / "a" / "splits.csv", tmp_path / "b" / "splits.csv", shallow=False)
    a, b = (pd.read_csv(tmp_path / run / "predictions.csv").p_1 for run in "ab")
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    run = [str(word) for word in [PROGRAM, "train", "--cache", cohort[0], "--target", "label", "--streams", "stream", "--out", tmp_path / "c",
                                  *quick("--folds", 3, "--epochs", 3, *words)]]
    victim = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while victim.poll() is None and not list(tmp_path.glob("*c*/**/*fold-0*")):
        time.sleep(0.002)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    done = subprocess.run([*run, "--resume"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert filecmp.cmp(tmp_path / "a" / "predictions.csv", tmp_path / "c" / "predictions.csv", shallow=False)


@pytest.mark.parametrize("words, said", [
    (["--compare", "only-OCT"], "only-OCT"), (["--compare", "only"], "only"),
    (["--fusion", "sum"], "fusion"), (["--tune", "random"], "give one"),
    (["--fusion", "gated", "--covariates", "label", "--covariates-at", "frames"], "no place for"),
])
def test_what_cannot_be_is_refused_before_anything_is_trained(cohort, tmp_path, words, said):
    done = train(cohort[0], tmp_path / "run", *words, expect=2)
    assert said in done.stderr and "training gru" not in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_features_of_another_width_are_refused(cohort, tmp_path):
    """Their recipe says nothing of the width, nor does a run whose file of unlike exams is gone."""
    cache, exams, features = cohort
    train(cache, tmp_path / "run", "--epochs", 1)
    (tmp_path / "run" / "unlike_training.safetensors").unlink()
    wide = make_cache(tmp_path, exams[:9], [np.concatenate([values, values], 1) for values in features[:9]], name="wide.cache")
    for words in [["predict", "--out", tmp_path / "p.csv"], ["evaluate", "--bootstrap", 20]]:
        done = coldframe(words[0], "--run", tmp_path / "run", "--cache", wide, *words[1:])
        assert done.returncode == 3 and "the models take 12 features of a frame, and these exams have 22" in done.stderr, done.stderr


def test_a_stream_that_the_training_did_not_have_is_hidden_and_said(tmp_path):
    exams, features = made(30, missing=False)
    for number in (28, 29):
        exams[number]["frame_columns"]["stream"] = ["OCT"] * 4 + ["ICGA"] * 4
    cache = make_cache(tmp_path, exams, features)
    splits = tmp_path / "splits.csv"
    part = ["train"] * 18 + ["validation"] * 6 + ["test"] * 6
    splits.write_text("fold,exam,patient,part\n" + "".join(f"0,exam-{n},patient-{n},{part[n]}\n" for n in range(30)))
    done = coldframe("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", "--streams", "stream", "--splits", splits,
                     *quick("--epochs", 3))
    assert done.returncode == 0 and "'OCT': 2 exams with it, which no exam of the training part" in done.stderr, done.stderr
    done = coldframe("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "p.csv")
    assert done.returncode == 0 and "'OCT': 2 exams with it, which 1 of 1 model did not see" in done.stderr, done.stderr
    for number in (28, 29):
        features[number][:4] = 1000
    loud = make_cache(tmp_path, exams, features, name="loud.cache")
    succeed("predict", "--run", tmp_path / "run", "--cache", loud, "--out", tmp_path / "loud.csv")
    before, after = (pd.read_csv(tmp_path / name).p_1 for name in ["p.csv", "loud.csv"])
    np.testing.assert_allclose(before, after, rtol=0, atol=1e-6)


def test_a_label_of_frames_may_stand_in_any_stream_but_only_one_per_instant(tmp_path):
    labels = {"later": ["", "", "0", "1"], "other": ["0", "1", "1", "0"]}
    exams = [exam(n, 4, str(n % 2), time_s=[0, 1, 0, 1], frame_columns={"stream": ["FA", "FA", "ICGA", "ICGA"], **labels}) for n in range(18)]
    cache = make_cache(tmp_path, exams, [np.random.default_rng(n).normal(size=(4, 5)) for n in range(18)])
    words = ["train", "--cache", cache, "--streams", "stream", *quick("--folds", 3, "--epochs", 1)]
    succeed(*words, "--target", "later", "--out", tmp_path / "later")
    done = coldframe(*words, "--target", "other", "--out", tmp_path / "other")
    assert done.returncode == 3 and "frames of one instant of exam 'exam-0' have different values of 'other'" in done.stderr, done.stderr


@pytest.mark.parametrize("streams, said", [
    (["FA", "FA", "FA"], "names 1 stream"), (["FA", "", "ICGA"], "expected one of FA, ICGA"), (["FA", "a/b", "FA"], "cannot name a file"), (None, "no frame column"),
])
def test_columns_that_name_no_streams_are_refused(tmp_path, streams, said):
    exams = [exam(i, 3, str(i % 2), **({"frame_columns": {"stream": streams}} if streams else {})) for i in range(8)]
    cache = make_cache(tmp_path, exams, [np.zeros((3, 3))] * 8)
    done = coldframe("train", "--cache", cache, "--target", "label", "--streams", "stream", "--out", tmp_path / "run")
    assert done.returncode in (2, 3) and said in done.stderr, done.stderr


def test_streams_have_a_word_for_runs_without_them(cohort, tmp_path):
    done = coldframe("train", "--cache", cohort[0], "--target", "label", "--out", tmp_path / "run", "--compare", "only-FA", *quick())
    assert done.returncode == 2 and "--streams" in done.stderr
    done = coldframe("train", "--cache", cohort[0], "--target", "label", "--out", tmp_path / "run", "--fusion", "gated", *quick())
    assert done.returncode == 2 and "--streams" in done.stderr
