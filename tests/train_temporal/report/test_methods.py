"""METHODS.md against the run's own config.json and summary.json."""
import csv
import json

import pytest
from training_support import quick, ramp_cache, succeed


def methods_of(cache, run, *words):
    succeed("train", "--cache", cache, "--out", run, *quick("--folds", 3, "--epochs", 2, *words))
    return (run / "METHODS.md").read_text(), *(json.loads((run / name).read_text()) for name in ("config.json", "summary.json"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return ramp_cache(tmp_path_factory.mktemp("methods"), 60, patients=30)


def test_the_methods_say_what_was_done(cache, tmp_path):
    text, config, summary = methods_of(cache, tmp_path / "run", "--target", "label", "--seeds", 2, "--compare", "mean,clock")
    assert "Exams: 60 found, 60 used. Patients: 30." in text and "- Target `label`, binary: `0`, `1`" in text
    for part in ("model", "fit"):
        for key, value in config[part].items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                assert f"{key.replace('_', ' ')} {value:g}" in text, key
    assert "Controls on the same splits: `mean`, `clock`." in text and f"Split: {summary['split']}, seed 0" in text
    assert all(f"- {line}" in text for line in summary["verdict"]) and config["feature_digest"] in text
    assert "Fits of a split whose predictions are averaged: 2." in text


def test_each_target_has_its_findings(cache, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("exam,side,si`ze\n" + "".join(f"exam-{i},{i % 2},{i % 7}\n" for i in range(60)))
    text, _, summary = methods_of(cache, tmp_path / "run", "--labels", labels, "--target", "side,si`ze:regression")
    assert "- Target `si'ze`, regression\n" in text  # a name ends no code span
    for result in summary["targets"]:
        found = text.split("Findings on `" + result["target"].replace("`", "'"))[1]
        assert len(result["verdict"]) > 0 and all(f"- {line}" in found for line in result["verdict"])


def test_folds_without_a_class_are_no_part_of_the_mean(cache, tmp_path):
    """Of three classes the rare one is in two of three folds: no page says three."""
    rare = {0, 1, 2, 3, 4, 10, 11, 12, 13, 14}  # of 30 patients, of whom each fold holds out ten
    labels, splits, first, run = (tmp_path / name for name in ("labels.csv", "splits.csv", "first", "run"))
    labels.write_text("exam,kind\n" + "".join(f"exam-{i},{2 if i % 30 in rare else i % 2}\n" for i in range(60)))
    succeed("train", "--cache", cache, "--out", first, *quick("--folds", 3, "--epochs", 2, "--target", "label"))
    rows = list(csv.DictReader((first / "splits.csv").open()))
    for row in rows:
        patient = int(row["exam"].split("-")[1]) % 30
        row["part"] = "test" if patient // 10 == int(row["fold"]) else "train" if patient % 5 else "val"
    with splits.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    succeed("train", "--cache", cache, "--out", run, "--labels", labels, "--splits", splits,
            *quick("--epochs", 2, "--target", "kind"))
    summary = json.loads((run / "summary.json").read_text())
    auroc = summary["models"][0]["metrics"]["auroc"]
    assert auroc["folds"] == {"with_figure": 2, "all": 3} and auroc["per_fold"].count(None) == 1
    assert "mean over 2 of 3 folds; over all folds" in summary["verdict"][0]
    methods = (run / "METHODS.md").read_text()
    assert "The AUROC is the mean over 2 of 3 folds" in methods
    assert f"{auroc['mean_over_classes_present']:.3f}" in methods
    listed = succeed("train", "--list", run).stdout
    assert "2 of 3 × 1" in listed
    assert json.loads(succeed("train", "--list", run, "--json").stdout)[0]["metric"]["folds"] == 2
