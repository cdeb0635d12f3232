"""train, evaluate and predict from the command line, on small made caches."""
import json
import os
import re

import numpy as np
import pandas as pd
import pytest
from run_support import interrupt
from sklearn.metrics import roc_auc_score
from training_support import coldframe, make_cache, quick, ramp_cache, ramp_exams, succeed


def train(cache, out, *more, **options):
    return coldframe("train", "--cache", cache, "--target", "label", "--out", out,
                     *quick(*more), **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    cache = ramp_cache(folder, 120, patients=60)
    run = folder / "run"
    result = train(cache, run, "--folds", 3, "--seeds", 2, "--compare", "mean,clock",
                   "--epochs", 40)
    assert result.returncode == 0, result.stderr
    return folder, cache, run, result


def test_a_run_folder_is_whole(trained):
    _, _, run, result = trained
    names = {path.name for path in run.iterdir()}
    assert names == {"config.json", "splits.csv", "metrics.csv", "summary.json", "predictions.csv",
                     "predictions-mean.csv", "predictions-clock.csv", "validation.csv", "models", "controls", "report.html",
                     "unlike_training.safetensors", "options.ini", "METHODS.md"}
    assert len(list((run / "models").iterdir())) == 6
    assert not run.with_name("run.unfinished").exists()
    assert "AUROC" in result.stdout and "clock" in result.stdout
    assert "<svg" in (run / "report.html").read_text()
    json.loads((run / "summary.json").read_text())


def test_every_exam_is_predicted_by_models_that_never_saw_its_patient(trained):
    _, _, run, _ = trained
    predictions = pd.read_csv(run / "predictions.csv")
    splits = pd.read_csv(run / "splits.csv")
    assert sorted(predictions.exam) == sorted({f"exam-{i}" for i in range(120)})
    for fold, rows in splits.groupby("fold"):
        held_out = set(predictions[predictions.fold == fold].exam)
        assert held_out == set(rows[rows.part == "test"].exam)
        parts = rows.groupby("part").patient.agg(set)
        assert not parts["test"] & (parts["train"] | parts["validation"])
        assert not parts["train"] & parts["validation"]


def test_the_gru_finds_what_only_the_order_tells(trained):
    _, _, run, _ = trained
    for name, low, high in [("", 0.95, 1.0), ("-mean", 0.3, 0.7), ("-clock", 0.3, 0.7)]:
        table = pd.read_csv(run / f"predictions{name}.csv")
        by_fold = [roc_auc_score(f.label, f.p_1) for _, f in table.groupby("fold")]
        assert low <= np.mean(by_fold) <= high, name


def test_the_same_command_gives_the_same_bytes(trained, tmp_path):
    _, cache, run, _ = trained
    again = train(cache, tmp_path / "again", "--folds", 3, "--seeds", 2, "--compare", "mean,clock",
                  "--epochs", 40, "--threads", 1)
    assert again.returncode == 0, again.stderr
    for name in ["metrics.csv", "predictions.csv", "splits.csv", "models/fold-1-seed-0.safetensors"]:
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes(), name


def test_a_run_can_follow_the_splits_of_another(trained, tmp_path):
    _, cache, run, _ = trained
    result = train(cache, tmp_path / "b", "--splits", run / "splits.csv")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "b" / "splits.csv").read_bytes() == (run / "splits.csv").read_bytes()


def test_evaluate_on_another_cohort(trained, tmp_path):
    _, _, run, _ = trained
    exams, features = ramp_exams(40, seed=5)
    for number, entry in enumerate(exams):
        entry["id"] = entry["patient"] = f"other-{number}"
    cache = make_cache(tmp_path, exams, features)
    out = tmp_path / "evaluation"
    result = succeed("evaluate", "--run", run, "--cache", cache, "--out", out, "--bootstrap", 50)
    table = pd.read_csv(out / "predictions.csv")
    assert roc_auc_score(table.label, table.p_1) > 0.95
    assert (out / "report.html").exists() and (out / "summary.json").exists()
    assert "same people" not in result.stderr and "not seen" in result.stdout


def test_evaluate_warns_of_exams_it_was_trained_on(trained):
    _, cache, run, _ = trained
    result = succeed("evaluate", "--run", run, "--cache", cache, "--bootstrap", 50)
    assert "the ids of 120 exams of this cohort: if these are the same people" in result.stderr
    assert "not seen" not in result.stdout


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_another_recipe_is_refused_key_by_key(trained, tmp_path, verb):
    _, _, run, _ = trained
    cache = ramp_cache(tmp_path, 10, recipe={"weights": {"sha256": "bb"}, "pool": "mean"})
    result = coldframe(verb, "--run", run, "--cache", cache, "--out", tmp_path / "out")
    assert result.returncode == 3
    assert "weights.sha256" in result.stderr and "bb" in result.stderr and "aa" in result.stderr
    assert "pool" not in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("model, epochs", [("gru", 300), ("transformer", 40), ("tcn", 40)])
def test_an_interrupted_run_resumes_to_the_same_bytes(tmp_path, model, epochs):
    cache = ramp_cache(tmp_path, 60)
    words = ["--model", model, "--folds", 3, "--seeds", 2, "--epochs", epochs, "--patience", 0, "--threads", 2]
    whole = train(cache, tmp_path / "whole", *words)
    assert whole.returncode == 0, whole.stderr
    command = ["train", "--cache", cache, "--target", "label", "--out", tmp_path / "cut",
               *quick(*words)]
    state = tmp_path / "cut.unfinished" / "state"
    for _ in range(8):  # a signal between two fits, which cuts none, is sent once more
        assert "--resume" in interrupt(command, tmp_path / "cut")
        assert not (tmp_path / "cut").exists()
        if list(state.glob("*.checkpoint")):
            break
    assert list(state.glob("*.checkpoint")), "the fit that was cut left no checkpoint"

    without = coldframe(*command)
    assert without.returncode == 2 and "--resume" in without.stderr
    otherwise = coldframe(*command, "--resume", "--batch", 8)
    assert otherwise.returncode == 2 and "batch" in otherwise.stderr
    succeed(*command, "--resume")
    for name in ["metrics.csv", "predictions.csv", "models/fold-2-seed-1.safetensors"]:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert coldframe(*command, "--resume").returncode == 0  # nothing is left to do


@pytest.mark.parametrize("model", ["gru", "attention", "transformer", "tcn"])
def test_a_memory_budget_holds_and_changes_nothing(tmp_path, model):
    cache = ramp_cache(tmp_path, 60, frames=64, dimension=48)
    words = ["--model", model, "--folds", 1, "--epochs", 3, "--batch", 256, "--hidden", 128,
             "--threads", 2]

    def summary(name, *more):
        result = train(cache, tmp_path / name, *words, *more)
        assert result.returncode == 0, result.stderr
        losses = pd.read_csv(tmp_path / name / "metrics.csv")[["train_loss", "validation_loss"]]
        memory = json.loads((tmp_path / name / "summary.json").read_text())["memory"]
        assert memory["resident_peak_bytes"] > memory["tensors_peak_bytes"]
        assert ("--memory-budget bounds tensors to" in result.stderr) == (memory["budget_bytes"] > 0)
        told = re.search(r"memory: tensors (.*) at most, of a budget of (.*); the process (.*) resident at most", result.stderr)
        assert bool(told) == (memory["budget_bytes"] > 0)
        return memory, losses.to_numpy()

    memory, losses = summary("whole")
    needed = memory["tensors_peak_bytes"]
    assert memory["budget_bytes"] == 0 and memory["exams_at_a_time"] == 256
    for percent in (25, 50, 100):
        budget = needed * percent // 100
        memory, cut = summary(f"at-{percent}", "--memory-budget", budget)
        assert 0 < memory["tensors_peak_bytes"] <= budget == memory["budget_bytes"]
        assert percent == 100 or memory["exams_at_a_time"] < 36
        np.testing.assert_allclose(cut, losses, rtol=1e-4)
        assert "headroom" in (tmp_path / f"at-{percent}" / "report.html").read_text()
    little = train(cache, tmp_path / "little", *words, "--memory-budget", "1KiB")
    assert little.returncode == 3 and "--memory-budget" in little.stderr
    assert re.search(r"takes? about \d+\.\d (K|M)iB", little.stderr), little.stderr


def test_a_finished_run_is_replaced_only_when_asked(trained, tmp_path):
    _, cache, _, _ = trained
    out = tmp_path / "run"
    assert train(cache, out, "--folds", 2, "--epochs", 1).returncode == 0
    before = (out / "metrics.csv").read_bytes()
    refused = train(cache, out, "--folds", 2, "--epochs", 2)
    assert refused.returncode == 2 and "--overwrite" in refused.stderr
    assert (out / "metrics.csv").read_bytes() == before
    assert train(cache, out, "--folds", 2, "--epochs", 2, "--overwrite").returncode == 0
    assert (out / "metrics.csv").read_bytes() != before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    kept = train(cache, tmp_path / "mine", "--overwrite")
    assert kept.returncode == 2 and "not a run" in kept.stderr
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_labels_from_a_csv_and_three_classes(tmp_path):
    cache = ramp_cache(tmp_path, 60)
    labels = tmp_path / "labels.csv"
    labels.write_text("exam,kind\n" + "".join(f"exam-{i},{'abc'[i % 3]}\n" for i in range(57)))
    out = tmp_path / "run"
    result = succeed("train", "--cache", cache, "--labels", labels, "--target", "kind", "--out",
                     out, *quick("--folds", 3, "--json"))
    json.loads(result.stdout)
    table = pd.read_csv(out / "predictions.csv")
    assert len(table) == 57
    np.testing.assert_allclose(table[["p_a", "p_b", "p_c"]].sum(axis=1), 1, atol=1e-9)


def test_exams_without_frames_are_left_out_and_said(tmp_path):
    exams, features = ramp_exams(40)
    exams[3]["present"] = [0] * 8
    features[3][:] = np.nan
    cache = make_cache(tmp_path, exams, features)
    result = train(cache, tmp_path / "run", "--folds", 2, "--epochs", 2)
    assert result.returncode == 0, result.stderr
    assert "1 exam without any readable frame" in result.stderr
    predicted = coldframe("predict", "--run", tmp_path / "run", "--cache", cache, "--out",
                          tmp_path / "p.csv")
    assert predicted.returncode == 1 and "1 exam without any readable frame" in predicted.stderr
    table = pd.read_csv(tmp_path / "p.csv")
    left_out = table[table.p_1.isna()]
    assert len(table) == 40 and list(left_out.exam) == ["exam-3"] and left_out.frames.item() == 0
    assert left_out.frames_missing.item() == 8 and left_out.failures.item() == "no frame could be read"
    assert table.failures.notna().sum() == 1


def one_class(folder):
    exams, features = ramp_exams(12)
    for entry in exams:
        entry["columns"]["label"] = "1"
    return make_cache(folder, exams, features)


def no_patients(folder):
    exams, features = ramp_exams(12)
    for entry in exams:
        entry["patient"] = ""
    return make_cache(folder, exams, features)


def some_patients(folder):
    exams, features = ramp_exams(12)
    exams[3]["patient"] = ""
    return make_cache(folder, exams, features)


def with_split_column(folder):
    exams, features = ramp_exams(12)
    for number, entry in enumerate(exams):
        entry["columns"]["split"] = "test" if number > 7 else "train"
    return make_cache(folder, exams, features)


def write_csv(folder, text):
    (folder / "file.csv").write_text(text)
    return folder / "file.csv"


def plain(folder):
    return ramp_cache(folder, 12)


def truncated(folder):
    cache = plain(folder)
    shard = next(cache.glob("*.h5"))
    os.truncate(shard, shard.stat().st_size // 2)
    return cache


# name: cache, more words (given the folder), exit code, what the message must hold
ERRORS = {
    "one class": (one_class, lambda f: [], 3, "class"),
    "fewer patients than folds": (plain, lambda f: ["--folds", 40], 2, "folds"),
    "no such column": (plain, lambda f: ["--target", "absent"], 2, "absent"),
    "no cache": (lambda f: f / "absent.cache", lambda f: [], 3, "absent.cache"),
    "cache cut short": (truncated, lambda f: [], 3, "shard"),
    "no patients": (no_patients, lambda f: [], 2, "--exam-is-patient"),
    "unknown positive": (plain, lambda f: ["--positive", "9"], 2, "9"),
    "labels without the column": (
        plain, lambda f: ["--labels", write_csv(f, "exam,x\nexam-1,1\n")], 3, "label"),
    "labels of other exams": (
        plain, lambda f: ["--labels", write_csv(f, "exam,label\nzzz,1\nyyy,0\n")], 3, "zzz"),
    "labels that contradict": (
        plain, lambda f: ["--labels", write_csv(f, "exam,label\nexam-1,1\nexam-1,0\n")], 3,
        "exam-1"),
    "no labels file": (plain, lambda f: ["--labels", f / "absent.csv"], 3, "absent.csv"),
    "splits of other exams": (
        plain, lambda f: ["--splits", write_csv(f, "repeat,fold,exam,patient,part\n"
                                                   "0,0,zzz,p,train\n")], 3, "zzz"),
    "no split column": (plain, lambda f: ["--split-column"], 3, "split"),
    "two ways to split": (plain, lambda f: ["--folds", 3, "--split-column"], 2, "--folds"),
    "unknown model": (plain, lambda f: ["--model", "perceiver"], 2, "perceiver"),
    "unknown option": (plain, lambda f: ["--fold", 3], 2, "folds"),
    "no epochs": (plain, lambda f: ["--epochs", 0], 2, "--epochs"),
    "certain dropout": (plain, lambda f: ["--dropout", 1.0], 2, "--dropout"),
    "unwritable": (plain, lambda f: ["--out", "/proc/run"], 3, "/proc"),
    "repeats of a split column": (
        with_split_column, lambda f: ["--repeats", 2], 2, "--repeats"),
    "some patients missing": (some_patients, lambda f: [], 2, "exam-3"),
    "no such device": (plain, lambda f: ["--device", "abacus"], 2, "abacus"),
    "too many threads": (plain, lambda f: ["--threads", 100000], 2, "--threads"),
    "layers of no GRU": (plain, lambda f: ["--model", "mean", "--layers", 2], 2, "--layers"),
    "both ways of no GRU": (
        plain, lambda f: ["--model", "single", "--compare", "clock", "--bidirectional"], 2,
        "--bidirectional"),
    "both ways of a TCN": (plain, lambda f: ["--model", "tcn", "--bidirectional"], 2, "--bidirectional"),
    "odd width": (plain, lambda f: ["--compare", "transformer", "--hidden", 33], 2, "even width"),
    "decay of a TCN": (plain, lambda f: ["--model", "tcn", "--time", "on", "--time-encoding", "decay"], 2, "decay"),
    "pooling of no GRU": (plain, lambda f: ["--model", "attention", "--temporal-pool", "last"], 2, "--temporal-pool"),
    "time of no GRU": (plain, lambda f: ["--model", "mean", "--time", "on"], 2, "--time on"),
    "hidden time encoded": (
        plain, lambda f: ["--time", "off", "--time-encoding", "decay"], 2, "--time off"),
    "even times encoded": (plain, lambda f: ["--time-encoding", "time2vec"], 2, "--time on"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_input_is_one_clear_error_and_leaves_nothing(tmp_path, case):
    cache_of, words, code, said = ERRORS[case]
    out = tmp_path / "run"
    command = {"--cache": cache_of(tmp_path), "--target": "label", "--out": out}
    more = words(tmp_path)
    given = [w for pair in command.items() if pair[0] not in more for w in pair]
    result = coldframe("train", *quick(*given, *more))
    assert result.returncode == code, result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and said in result.stderr, result.stderr
    assert not out.exists() and not (tmp_path / "run.unfinished").exists()
    assert result.stdout == ""


@pytest.mark.parametrize("words, code, said", [
    (["predict", "--run", "absent", "--cache", "c", "--out", "o.csv"], 2, "absent"),
    (["predict", "--cache", "c", "--out", "o.csv"], 2, "--run"),
    (["evaluate", "--run", "absent", "--cache", "c"], 2, "absent"),
    (["predict", "--run", "r", "--cache", "c", "--out", "o.csv", "--threads", "9999"], 2, "1024"),
    (["predict", "--run", "r", "--cache", "c", "--out", "no/o.csv"], 2, "no folder 'no'"),
    (["predict", "--run", "r", "--cache", "c", "--out", "o.csv", "--explain", "./o.csv"], 2,
     "the same file"),
    (["train"], 2, "--cache"),
    (["fit"], 2, "train"),
])
def test_wrong_words(tmp_path, words, code, said):
    result = coldframe(*words, cwd=tmp_path)
    assert result.returncode == code and said in result.stderr
    assert list(tmp_path.iterdir()) == []
