"""METHODS.md against the run's own config.json and summary.json."""
import csv
import json
import re

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
    assert "precision float32." in text and config["fit"]["precision"] == "Float"


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
    assert re.search(r"mean over 2 of 3 folds; 0\.\d+ over all 3 folds, each by the classes that it holds", summary["verdict"][0])
    methods = (run / "METHODS.md").read_text()
    assert "The macro AUROC is the mean over 2 of 3 folds" in methods
    assert f"{auroc['mean_over_classes_present']:.3f}" in methods
    listed = succeed("train", "--list", run).stdout
    assert "2 of 3 × 1" in listed
    assert json.loads(succeed("train", "--list", run, "--json").stdout)[0]["metric"]["folds"] == 2


def test_conventions_are_those_of_the_targets(cache, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("exam,side,kind,size\n" + "".join(f"exam-{i},{i % 2},{i % 3},{i % 7}\n" for i in range(60)))
    several = ["Balanced accuracy is macro recall", "sums the squared errors over all classes", "over the highest probability"]
    nominal = ["Kappa is Cohen's (1960)", "linear discriminants (Fisher, 1936)"]
    kinds = {"side": [*nominal, "(Youden, 1950)", "mean squared error of the probability of the second",
                      "over the probability of the second"],
             "kind": [*nominal, *several, "the most probable one",
                      "macro figures: unweighted means over the classes, each against the rest"],
             "kind:ordinal": [*several, "the median of their predicted distribution", "quadratic weights (Cohen, 1968)",
                              "F1 of grades is macro", "ridge-penalised logistic regression for each step"],
             "size:regression": ["Numbers have ridge regression (Hoerl and Kennard, 1970)"]}
    said = set().union(*kinds.values())
    for number, (target, own) in enumerate(kinds.items()):
        text, _, _ = methods_of(cache, tmp_path / f"run-{number}", "--labels", labels, "--target", target, "--model", "auto")
        assert {part for part in said if part in text} == set(own), target
        assert ("Guo" in text) == (target != "size:regression")
        assert ("calibrated on the validation part" in text) <= (target in ("side", "kind"))
        check_references(text)


def check_references(text):
    """Each is cited, and what is cited is among them."""
    body, _, list_of = text.partition("## References\n")
    entries = re.findall(r"- ([\w-]+) .*?\b(\d{4})\b[^\d]*$", list_of, re.MULTILINE)
    assert len(entries) == list_of.count("\n- ") and entries == sorted(entries)
    cited = re.findall(r"([A-Z]\w+)(?:(?:, \w+)? and \w+| et al\.)?, (\d{4})|Cohen's \((1960)\)", body)
    assert cited
    for name, year, kappa in cited:
        assert any(year_of == (year or kappa) and (not name or name in list_of) for _, year_of in entries), (name, year)
    for name, year in entries:
        assert name == "Efron" or re.search(rf"{name}.{{0,40}}{year}", body), name


def test_a_given_threshold_is_named(cache, tmp_path):
    text, _, _ = methods_of(cache, tmp_path / "run", "--target", "label", "--threshold", "0.3")
    assert "from a probability of 0.3 on, which was given." in text and "Youden" not in text


def test_sets_are_named_where_the_report_shows_them(cache, tmp_path):
    text, _, summary = methods_of(cache, tmp_path / "run", "--target", "label", "--seeds", 3, "--compare", "mean")
    assert "too_few" not in summary["sets"] and "(Cameron" not in text
    for part in ("those of a fold rest on the held-out predictions of the other folds", "cross-conformal, Vovk, 2015",
                 "each is calibrated by itself (Vovk, 2012)", "two-way clustering, Cameron, Gelbach and Miller, 2011"):
        assert part in text
    check_references(text)
    few, _, summary = methods_of(cache, tmp_path / "numbers", "--target", "label:regression")
    assert "CV+, Barber et al., 2021" in few and "Vovk, 2015" not in few and "Cameron" not in few
    check_references(few)
