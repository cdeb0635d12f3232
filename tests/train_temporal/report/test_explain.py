"""predict --explain equals captum's integrated gradients on coldframe.models."""
import json

import numpy as np
import pandas as pd
import pytest
import torch
from captum.attr import IntegratedGradients
from training_support import coldframe, make_cache, present_frames, quick, ramp_exams, succeed, uneven_run

import fitted

torch.set_num_threads(1)
TOLERANCE = 1e-4
VARIANTS = {
    "gru-time": ["--time", "on"],
    "bigru-last": ["--model", "bigru", "--temporal-pool", "last"],
    "gru-attention-2": ["--temporal-pool", "attention", "--layers", 2],
    "decay": ["--time", "on", "--time-encoding", "decay"],
    "lstm": ["--model", "lstm"],
    "transformer-time": ["--model", "transformer", "--time", "on"],
    "tcn": ["--model", "tcn"],
    "attention": ["--model", "attention"],
    "mean": ["--model", "mean"],
    "single": ["--model", "single"],
}


def explain(run, cache, folder, *more):
    done = succeed("predict", "--run", run, "--cache", cache, "--out", folder / "p.csv",
                   "--explain", folder / "frames.csv", "--json", "--threads", 1, *more)
    return (pd.read_csv(folder / "p.csv"), pd.read_csv(folder / "frames.csv"),
            json.loads(done.stdout)["contributions"])


def check_sums(predictions, frames, exams):
    """Completeness, and one row for each frame of the cache with 0 where it is missing."""
    assert (frames.target == "label").all()
    for predicted, entry in zip(predictions.itertuples(), exams):
        rows = frames[frames.exam == entry["id"]]
        assert list(rows.frame) == list(range(len(entry["present"])))
        assert (rows.contribution[np.array(entry["present"]) == 0] == 0).all()
        assert rows.output.nunique() == rows.baseline.nunique() == 1
        difference = rows.output.iloc[0] - rows.baseline.iloc[0]
        assert rows.contribution.sum() == pytest.approx(difference, abs=2 * TOLERANCE)
        assert rows.output.iloc[0] == pytest.approx(
            getattr(predicted, "p_" + str(rows["class"].iloc[0])), abs=1e-5)


def by_captum(run, features, times):
    """Contributions of one exam's present frames to P(class 1), averaged over the models."""
    inputs, total, models = torch.as_tensor(features)[None], 0, fitted.models_of(run)
    for model in models:
        def probability(batch):
            return model.predictions(model(batch, torch.as_tensor(times).expand(len(batch), -1)))["label"][:, 1]

        gradients = IntegratedGradients(probability).attribute(
            inputs, model.feature_mean.expand_as(inputs), n_steps=100, method="gausslegendre")
        total = total + gradients[0].sum(1).detach().numpy() / len(models)
    return total


@pytest.mark.parametrize("variant", VARIANTS)
def test_contributions_equal_captums(tmp_path, variant):
    cache, run, exams, features = uneven_run(tmp_path, *VARIANTS[variant])
    predictions, frames, said = explain(run, cache, tmp_path)
    check_sums(predictions, frames, exams)
    assert said["tolerance"] == TOLERANCE and said["largest_gap"] <= TOLERANCE
    assert (frames["class"] == 1).all()
    rows, times = present_frames(exams, features)
    largest = 0
    for i in range(0, len(exams), 9):
        ours = frames.contribution[(frames.exam == exams[i]["id"])].to_numpy()
        ours = ours[np.array(exams[i]["present"], bool)]
        np.testing.assert_allclose(ours, by_captum(run, rows[i], times[i]), rtol=0, atol=2e-4)
        largest = max(largest, abs(ours).max())
    assert largest > 0.002, "contributions must be there for this to mean anything"


def test_frames_that_carry_nothing_get_nothing(tmp_path):
    """The label is in the third frame alone: it is what speaks."""
    random = np.random.default_rng(0)
    exams, features = ramp_exams(60)
    for number, values in enumerate(features):
        values[:] = random.normal(0, 0.1, values.shape)
        values[2, 0] = 1 if number % 2 else -1
    cache, run = make_cache(tmp_path, exams, features), tmp_path / "run"
    succeed("train", "--cache", cache, "--target", "label", "--out", run,
            *quick("--folds", 2, "--epochs", 30))
    _, frames, _ = explain(run, cache, tmp_path)
    strength = frames.contribution.abs().groupby(frames.frame).mean()
    assert strength.idxmax() == 2 and strength[2] > 3 * strength.drop(2).max()
    sign = np.sign(frames.contribution[frames.frame == 2].to_numpy())
    assert (sign == np.where(np.arange(60) % 2, 1, -1)).mean() > 0.9
    report = (run / "report.html").read_text()
    assert "Contributions over time of example exams" in report and "added to P(1)" in report


def test_controls_and_several_classes(tmp_path):
    exams, features = ramp_exams(45)
    for number, (entry, values) in enumerate(zip(exams, features)):
        entry["columns"]["label"] = "abc"[number % 3]
        values[:, 1] += number % 3
    cache = make_cache(tmp_path, exams, features)
    for model in ["shuffled", "clock"]:
        folder = tmp_path / model
        folder.mkdir()
        succeed("train", "--cache", cache, "--target", "label", "--out", folder / "run",
                *quick("--model", model, "--folds", 2))
        predictions, frames, _ = explain(folder / "run", cache, folder)
        check_sums(predictions, frames, exams)
        assert list(frames["class"][::8]) == list(predictions.predicted)
        assert (frames.contribution == 0).all() == (model == "clock")


def test_a_file_that_exists_is_kept(tmp_path):
    cache, run, _, _ = uneven_run(tmp_path)
    (tmp_path / "frames.csv").write_text("mine")
    words = ["predict", "--run", run, "--cache", cache, "--out", tmp_path / "p.csv", "--explain",
             tmp_path / "frames.csv"]
    refused = coldframe(*words)
    assert refused.returncode == 2 and "--explain" in refused.stderr
    assert not (tmp_path / "p.csv").exists() and (tmp_path / "frames.csv").read_text() == "mine"
    assert coldframe(*words, "--overwrite").returncode == 0
    assert (tmp_path / "frames.csv").read_text().startswith("exam,frame,time_s,target,class,contribution")


def test_numbers_and_grades_are_explained_as_captum_has_it(tmp_path):
    """Two targets in one model: the number in its unit, and the expected grade in steps."""
    random = np.random.default_rng(5)
    exams, features = ramp_exams(60)
    for number, (entry, values) in enumerate(zip(exams, features)):
        values[:] = random.normal(0, 0.2, values.shape)
        level = number % 4
        values[3, 1] = level - 1.5
        entry["columns"] = {"dose": str(500 + 100 * level + number % 3), "grade": str(level)}
    cache, run = make_cache(tmp_path, exams, features), tmp_path / "run"
    succeed("train", "--cache", cache, "--target", "dose:regression,grade:ordinal", "--out",
            run, *quick("--folds", 2, "--epochs", 30))
    predictions, frames, said = explain(run, cache, tmp_path)
    assert said["largest_gap"] <= TOLERANCE and frames["class"].isna().all()
    grades = predictions[[f"grade:p_{k}" for k in range(4)]].to_numpy() @ np.arange(4)
    x = np.stack(features).astype(np.float16).astype(np.float32)
    for target, said_of_exam, unit in [("dose", predictions["dose:predicted"], 100),
                                       ("grade", grades, 1)]:
        rows = frames[frames.target == target]
        outputs = rows.groupby("exam", sort=False).output.first().to_numpy()
        np.testing.assert_allclose(outputs, said_of_exam, rtol=0, atol=1e-4 * unit)
        sums = rows.groupby("exam", sort=False).contribution.sum().to_numpy()
        base = rows.groupby("exam", sort=False).baseline.first().to_numpy()
        np.testing.assert_allclose(sums, outputs - base, rtol=0, atol=2e-4 * unit)
        theirs = of_two_targets(run, x[:8], target)
        ours = rows.contribution.to_numpy().reshape(60, 8)[:8]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4 * unit)
        strength = np.abs(rows.contribution.to_numpy().reshape(60, 8)).mean(0)
        assert strength.argmax() == 3 and strength[3] > 0.02 * unit
    report = (run / "report.html").read_text()
    assert "added to dose" in report and "The highest and the lowest prediction" in report


def of_two_targets(run, x, target):
    """Contributions [exams, frames] to the first or the second target of test_numbers_and_grades…"""
    total, models = 0, fitted.models_of(run)
    for model in models:
        def output(batch):
            read = model.predictions(model(batch))[target]
            return read if target == "dose" else read @ torch.arange(4.0)

        inputs = torch.as_tensor(x)
        gradients = IntegratedGradients(output).attribute(
            inputs, model.feature_mean.expand_as(inputs), n_steps=100, method="gausslegendre")
        total = total + gradients.sum(2).detach().numpy() / len(models)
    return total


def test_what_has_no_single_output_is_refused(tmp_path):
    exams, features = ramp_exams(24)
    for entry in exams:
        entry["frame_columns"] = {"late": [str(int(t > 3)) for t in range(8)]}
    cache, run = make_cache(tmp_path, exams, features), tmp_path / "run"
    succeed("train", "--cache", cache, "--target", "late", "--out", run,
            *quick("--folds", 2, "--epochs", 2))
    refused = coldframe("predict", "--run", run, "--cache", cache, "--out", tmp_path / "p.csv",
                        "--explain", tmp_path / "f.csv")
    assert refused.returncode == 2 and "'late' has a value per frame" in refused.stderr
    assert not (tmp_path / "p.csv").exists()
