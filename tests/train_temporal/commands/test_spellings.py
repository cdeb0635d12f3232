"""One patient, or one site, in two spellings is one, wherever such names are compared."""
import unicodedata

import pandas as pd
import pytest
from training_support import coldframe, make_cache, quick, ramp_exams, succeed

PAIRS = {
    "composed": ("Müller {}", unicodedata.normalize("NFD", "Müller {}")),
    "sharp s": ("Großmann {}", "GROSSMANN {}"),
    "zero width": ("Meier {}", "Mei\u200ber {}"),
    "byte order mark": ("Schmidt {}", "\ufeffschmidt {}"),
    "full width": ("P{}", "\uff30{}"),
}
NUMBERS = {"float": ("{}", "{}.0"), "zeros": ("{}", "0{}")}


def exams_of(patients, columns=lambda number: {}):
    exams, features = ramp_exams(len(patients))
    for number, (entry, patient) in enumerate(zip(exams, patients)):
        entry["patient"] = patient
        entry["columns"] |= columns(number)
    return exams, features


def pairs(spellings, count=20):
    """Two exams of each patient."""
    return [spelling.format(person + 100) for person in range(count) for spelling in spellings]


def train(cache, out, *more):
    folds = [] if "--folds" in more else ["--folds", 4]
    return coldframe("train", "--cache", cache, "--target", "label", "--out", out, *quick(*folds, "--epochs", 1, *more))


def parts_of(run):
    """Of every fold and pair of exams, the parts that its exams are in."""
    splits = pd.read_csv(run / "splits.csv", dtype=str)
    splits["pair"] = splits["exam"].str.removeprefix("exam-").astype(int) // 2
    return splits.groupby(["fold", "pair"])["part"].nunique()


@pytest.mark.parametrize("name", PAIRS)
def test_a_patient_in_two_spellings_is_on_one_side(tmp_path, name):
    cache = make_cache(tmp_path, *exams_of(pairs(PAIRS[name])))
    done = train(cache, tmp_path / "run")
    assert done.returncode == 0 and "are taken as one person" in done.stderr, done.stderr
    assert parts_of(tmp_path / "run").max() == 1
    predictions = pd.read_csv(tmp_path / "run/predictions.csv", dtype=str)
    assert predictions["patient"].nunique() == 20

    apart = pd.read_csv(tmp_path / "run/splits.csv", dtype=str)
    person = apart.loc[apart["part"] == "train", "patient"].iloc[0]
    rows = apart.index[(apart["fold"] == "0") & (apart["patient"] == person)]
    apart.loc[rows[0], ["part", "patient"]] = ["test", unicodedata.normalize("NFD", person).upper()]
    apart.to_csv(tmp_path / "apart.csv", index=False)
    refused = coldframe("train", "--cache", cache, "--target", "label", "--out", tmp_path / "no", "--splits", tmp_path / "apart.csv", *quick())
    assert refused.returncode == 3 and "all exams of a patient must be in one" in refused.stderr

    others = make_cache(tmp_path, *exams_of([PAIRS[name][1].format(person + 100) for person in range(20)]), name="others.cache")
    for verb, out in (("evaluate", "e"), ("predict", "p.csv")):
        known = succeed(verb, "--run", tmp_path / "run", "--cache", others, "--out", tmp_path / out)
        assert "the ids of 20 exams of this cohort" in known.stderr


@pytest.mark.parametrize("name", NUMBERS)
def test_patients_that_are_equal_as_numbers_are_asked_about(tmp_path, name):
    cache = make_cache(tmp_path, *exams_of(pairs(NUMBERS[name])))
    asked = train(cache, tmp_path / "run")
    first, second = (spelling.format(100) for spelling in NUMBERS[name])
    assert asked.returncode == 2 and f"the patients '{first}' (exam 'exam-0') and '{second}' (exam 'exam-1')" in asked.stderr
    assert "--equal-numbers same" in asked.stderr and not (tmp_path / "run").exists()
    for answer, people in (("same", 20), ("different", 40)):
        done = train(cache, tmp_path / answer, "--equal-numbers", answer)
        assert done.returncode == 0, done.stderr
        assert pd.read_csv(tmp_path / answer / "predictions.csv", dtype=str)["patient"].nunique() == people
    assert parts_of(tmp_path / "same").max() == 1
    others = make_cache(tmp_path, *exams_of([NUMBERS[name][1].format(person + 100) for person in range(20)]), name="others.cache")
    known = succeed("evaluate", "--run", tmp_path / "same", "--cache", others, "--equal-numbers", "same")
    assert "the ids of 20 exams of this cohort" in known.stderr


def test_a_site_in_two_spellings_is_one_group(tmp_path):
    spellings = ["Zürich", unicodedata.normalize("NFD", "Zürich"), "ZÜRICH", "Bern", "\ufeffBern", "Basel", "Ba\u00adsel"]
    cache = make_cache(tmp_path, *exams_of(pairs(["P{}", "P{}"]), lambda number: {"site": spellings[number // 2 % 7]}))
    done = train(cache, tmp_path / "run", "--group", "site", "--subgroups", "site", "--folds", "groups")
    assert done.returncode == 0 and "are taken as one" in done.stderr, done.stderr
    assert pd.read_csv(tmp_path / "run/splits.csv", dtype=str)["fold"].nunique() == 3
    codes = make_cache(tmp_path, *exams_of(pairs(["P{}", "P{}"]), lambda number: {"site": ["01", "1", "2"][number // 2 % 3]}), name="codes.cache")
    refused = train(codes, tmp_path / "no", "--group", "site")
    assert refused.returncode == 2 and "'01' and '1' are equal as numbers" in refused.stderr
