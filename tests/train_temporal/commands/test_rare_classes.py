"""Classes that few patients have: folds without them, leaving them out, and learning them with others."""
import csv
import json

import numpy as np
import pytest
from training_support import coldframe, exam, make_cache, quick, succeed

CLASSES = ["well"] * 14 + ["mild"] * 12 + ["severe"] * 10 + ["viral"] * 3


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    random = np.random.default_rng(1)
    order = random.permutation(len(CLASSES))
    exams = [exam(number, 4, CLASSES[of]) for number, of in enumerate(order)]
    return make_cache(tmp_path_factory.mktemp("rare"), exams, [random.normal(size=(4, 3)) for _ in exams])


def words(cache, out, *more, target="label"):
    return ["train", "--cache", cache, "--target", target, "--out", out, *quick("--epochs", 2, *more, model="mean")]


def rows(path):
    return list(csv.DictReader(path.open()))


def test_a_class_of_fewer_patients_than_folds_is_missing_in_some_and_that_is_said(cache, tmp_path):
    said = succeed(*words(cache, tmp_path / "run", "--folds", 5)).stderr
    told = "2 of 5 folds are tested without class 'viral'"
    assert told in said, said
    assert told in (tmp_path / "run/report.html").read_text().replace("&#39;", "'")
    viral = [row for row in rows(tmp_path / "run/predictions.csv") if row["label"] == "viral"]
    assert len({row["fold"] for row in viral}) == 3
    exams = {row["exam"] for row in viral}
    learnt = {row["fold"] for row in rows(tmp_path / "run/splits.csv") if row["part"] == "train" and row["exam"] in exams}
    assert learnt == set("01234")


def test_classes_are_left_out_and_merged_and_that_is_recorded(cache, tmp_path):
    changes = ["--drop-class", "viral", "--merge-classes", "mild+severe=ill"]
    said = succeed(*words(cache, tmp_path / "run", "--folds", 2, *changes)).stderr
    assert "'label' without 'viral': 3 labels" in said and "'mild' and 'severe' as 'ill': 22 labels" in said
    table = rows(tmp_path / "run/predictions.csv")
    assert {row["label"] for row in table} == {"well", "ill"} and len(table) == 36
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["targets"][0]["class_changes"] == [{"from": ["viral"]}, {"from": ["mild", "severe"], "to": "ill"}]
    assert "learnt without `viral`, `mild` and `severe` as `ill`" in (tmp_path / "run/METHODS.md").read_text()
    ini = (tmp_path / "run/options.ini").read_text()
    assert "drop-class = viral" in ini and "merge-classes = mild+severe=ill" in ini, ini
    again = succeed("train", "--config", tmp_path / "run/options.ini", "--cache", cache, "--out", tmp_path / "again")
    assert (tmp_path / "again/predictions.csv").read_bytes() == (tmp_path / "run/predictions.csv").read_bytes(), again.stderr


def test_another_cohort_is_read_in_the_same_way(cache, tmp_path):
    changes = ["--drop-class", "viral", "--merge-classes", "mild+severe=ill"]
    succeed(*words(cache, tmp_path / "run", "--folds", 2, *changes))
    succeed("evaluate", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "elsewhere")
    table = rows(tmp_path / "elsewhere/predictions.csv")
    assert {row["label"] for row in table} == {"well", "ill"} and len(table) == 36


@pytest.mark.parametrize("target, more, message", [
    ("label", ["--drop-class", "bacterial"], "column 'label' has no class 'bacterial' to leave out or to merge"),
    ("label", ["--merge-classes", "mild=ill"], "expected two classes or more with + between them"),
    ("label", ["--merge-classes", "mild+severe"], "expected two classes or more with + between them"),
    ("label", ["--merge-classes", "mild+severe=ill,well+mild=other"], "each class once"),
    ("label,label2", ["--drop-class", "viral"], "are for the classes of a single target"),
])
def test_what_cannot_be_meant_is_refused(cache, tmp_path, target, more, message):
    done = coldframe(*words(cache, tmp_path / "run", *more, target=target))
    assert done.returncode == 2 and message in done.stderr, done.stderr


@pytest.mark.parametrize("changes, message", [
    (["--drop-class", "mild", "--merge-classes", "mild+severe=ill"], "class 'mild' of column 'label' is left out or merged twice"),
    (["--merge-classes", "mild+severe=well"], "has a class 'well' already"),
])
def test_changes_of_classes_that_contradict_each_other_are_refused(cache, tmp_path, changes, message):
    done = coldframe(*words(cache, tmp_path / "run", "--folds", 2, *changes))
    assert done.returncode == 2 and message in done.stderr and not (tmp_path / "run").exists(), done.stderr
