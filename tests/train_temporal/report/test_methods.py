"""METHODS.md against the run's own config.json and summary.json."""
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
