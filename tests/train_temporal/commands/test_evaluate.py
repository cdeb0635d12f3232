"""evaluate: whom the run knows, and how its folder appears."""
import json

import numpy as np
import pandas as pd
import pytest
from training_support import coldframe, make_cache, quick, ramp_cache, ramp_exams, succeed

FILES = ["predictions.csv", "report.html", "summary.json"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    cache, run = ramp_cache(folder, 40), folder / "run"
    succeed("train", "--cache", cache, "--target", "label", "--out", run,
            *quick("--folds", 2, "--epochs", 1))
    return cache, run


def evaluate(made, *more):
    return coldframe("evaluate", "--run", made[1], "--cache", made[0], "--bootstrap", 50, *more)


def test_other_exams_of_known_patients_are_known(made, tmp_path):
    exams, features = ramp_exams(40, seed=5)
    for number, entry in enumerate(exams):
        entry["id"] = f"other-{number}"
        entry["patient"] = entry["patient"].upper() if number < 10 else entry["id"]
    cache = make_cache(tmp_path, exams, features)
    result = evaluate((cache, made[1]))
    assert "the ids of 10 exams of this cohort: if these are the same people" in result.stderr
    assert "say so by --other-patients" in result.stderr and "some may have taken part" in result.stdout
    for words in [["--exam-is-patient"], ["--other-patients"]]:
        result = evaluate((cache, made[1]), *words)
        assert "of this cohort" not in result.stderr and "not seen" in result.stdout


def test_the_folder_is_replaced_as_a_whole(made, tmp_path):
    out = tmp_path / "out"
    assert evaluate(made, "--out", out).returncode == 0
    assert sorted(p.name for p in out.iterdir()) == FILES
    refused = evaluate(made, "--out", out)
    assert refused.returncode == 2 and "--overwrite" in refused.stderr
    (out / "report.html").write_text("old")
    result = evaluate(made, "--out", str(out) + "/", "--overwrite")
    assert result.returncode == 0, result.stderr
    assert sorted(p.name for p in out.iterdir()) == FILES
    assert (out / "report.html").read_text() != "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["models/a.safetensors", "thesis.txt"])
def test_folders_that_are_no_evaluations_are_kept(made, tmp_path, name):
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    result = evaluate(made, "--out", tmp_path / "out", "--overwrite")
    assert result.returncode == 2 and "not the folder of an evaluation" in result.stderr
    assert mine.read_text() == "mine"


def test_positive_is_not_an_option_of_evaluate(made):
    result = evaluate(made, "--positive", "0")
    assert result.returncode == 2 and "positive" in result.stderr


def test_exams_of_no_part_are_not_counted(made, tmp_path):
    splits = tmp_path / "splits.csv"
    parts = ["train"] * 4 + ["val"] * 2 + ["test"] * 4
    splits.write_text("exam,part\n" + "".join(f"exam-{i},{p}\n" for i, p in enumerate(parts)))
    result = succeed("train", "--cache", made[0], "--target", "label", "--splits", splits,
                     "--out", tmp_path / "run", "--json", *quick("--epochs", 1))
    assert '"exams": 10' in result.stdout
    assert str(tmp_path) not in (tmp_path / "run" / "summary.json").read_text()


def test_features_of_another_recipe_are_refused_with_what_differs(made, tmp_path):
    other = make_cache(tmp_path, *ramp_exams(12), recipe={"weights": {"sha256": "aa"}, "pool": "cls"})
    for words in [("predict", "--out", tmp_path / "q.csv"), ("evaluate", "--target", "label")]:
        done = coldframe(*words, "--run", made[1], "--cache", other)
        assert done.returncode == 3 and 'pool: cache has "cls", the run "mean"' in done.stderr, done.stderr
    assert not (tmp_path / "q.csv").exists()


def new_exams(count=40, **options):
    exams, features = ramp_exams(count, seed=5, **options)
    for number, entry in enumerate(exams):
        entry["id"] = entry["patient"] = f"other-{number}"
    return exams, features


def test_controls_are_examined_on_another_cohort(tmp_path):
    run = tmp_path / "run"
    succeed("train", "--cache", ramp_cache(tmp_path, 60), "--target", "label", "--out", run,
            *quick("--folds", 2, "--epochs", 25, "--compare", "mean,shuffled,clock"))
    assert sorted(path.name for path in (run / "controls").iterdir()) == ["clock", "mean", "shuffled"]
    cache = make_cache(tmp_path, *new_exams(), name="other.cache")
    result = evaluate((cache, run), "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert [model["name"] for model in summary["models"]] == ["gru", "clock", "mean", "shuffled"]
    assert any("The order of frames carries" in line for line in summary["verdict"]), summary["verdict"]
    damaged = next((run / "controls" / "mean").iterdir())
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    result = evaluate((cache, run))
    assert result.returncode == 3 and "mean" in result.stderr, result.stderr


def test_predict_warns_of_exams_that_it_knows_and_of_lengths_that_it_does_not(made, tmp_path):
    def predict(cache, *more):
        result = succeed("predict", "--run", made[1], "--cache", cache, "--out", tmp_path / "p.csv", "--overwrite", *more)
        return result.stderr
    assert "the ids of 40 exams of this cohort" in predict(made[0])
    assert "lengths far" not in predict(made[0])
    assert "the ids of" not in predict(made[0], "--other-patients")
    warned = predict(make_cache(tmp_path, *new_exams(12, frames=20)))
    assert "the ids of" not in warned
    assert "12 exams of lengths far from those of the training (20 to 20 frames here, 8 to 8 there)" in warned


def test_what_a_hold_out_tested_is_not_known(tmp_path):
    cache, run = ramp_cache(tmp_path, 40), tmp_path / "run"
    words = ["--target", "label", "--out", run, *quick("--folds", 1, "--epochs", 1)]
    assert coldframe("train", "--cache", cache, *words).returncode == 0
    splits = pd.read_csv(run / "splits.csv")
    known = int((splits.part != "test").sum())
    assert 0 < known < 40
    result = coldframe("predict", "--run", run, "--cache", cache, "--out", tmp_path / "p.csv")
    assert f"the ids of {known} exams of this cohort" in result.stderr, result.stderr


def test_predictions_of_the_validation_parts_are_kept(tmp_path):
    run = tmp_path / "run"
    succeed("train", "--cache", ramp_cache(tmp_path, 40), "--target", "label", "--out", run,
            *quick("--folds", 2, "--seeds", 2, "--epochs", 3))
    table, splits = (pd.read_csv(run / name) for name in ["validation.csv", "splits.csv"])
    expected = splits[splits.part == "validation"]
    assert set(zip(table.fold, table.exam)) == set(zip(expected.fold, expected.exam))
    assert list(table)[4:] == ["label", "p_0", "p_1", "predicted", "sd_0", "sd_1"]
    assert (table.sd_1 > 0).all() and np.allclose(table.sd_0, table.sd_1)
