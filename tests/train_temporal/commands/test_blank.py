"""The control `blank` where exams differ in nothing that it sees: a constant that takes no steps."""
import csv
import json

import pytest
from safetensors import safe_open
from training_support import quick, ramp_cache, succeed


def trained(folder, *more, **options):
    cache = ramp_cache(folder, count=46, dimension=4, **options)
    return succeed("train", "--cache", cache, "--target", "label", "--out", folder / "run",
                   *quick("--folds", 3, "--epochs", 3, "--compare", "blank", *more)).stderr


def rows(path):
    return list(csv.DictReader(path.open()))


def architecture(run):
    with safe_open(run / "controls" / "blank" / "fold-0-seed-0.safetensors", "np") as file:
        return json.loads(file.metadata()["card"])["model"]["architecture"]


@pytest.mark.parametrize("model", ["gru", "auto", "summary", "mean"])
def test_without_times_it_is_what_the_training_part_holds(tmp_path, model):
    said = trained(tmp_path, "--model", model)
    assert "blank sees neither times nor differences of length here" in said
    assert architecture(tmp_path / "run") == "summary"
    label = {row["exam"]: int(row["label"]) for row in rows(tmp_path / "run" / "predictions.csv")}
    part = {(row["fold"], row["exam"]): row["part"] for row in rows(tmp_path / "run" / "splits.csv")}
    held_out = rows(tmp_path / "run" / "predictions-blank.csv")
    for fold in "012":
        learnt = [label[exam] for (of, exam), name in part.items() if of == fold and name != "test"]
        found = {float(row["p_1"]) for row in held_out if row["fold"] == fold}
        assert len(found) == 1 and found.pop() == pytest.approx(sum(learnt) / len(learnt), abs=1e-6)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["models"][1]["metrics"]["auroc"]["mean_over_folds"]["value"] == 0.5
    assert "families" not in summary["models"][1]


def test_lengths_and_times_that_it_sees_are_fitted(tmp_path):
    for name, more in {"lengths": {"ragged": True}, "times": {}}.items():
        (tmp_path / name).mkdir()
        shown = ["--time", "on"] if name == "times" else []
        assert "blank sees neither" not in trained(tmp_path / name, *shown, "--model", "gru", **more)
        assert architecture(tmp_path / name / "run") == "gru"
