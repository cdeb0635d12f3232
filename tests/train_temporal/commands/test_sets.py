"""Sets equal MAPIE's on the same numbers (its formula, in numpy), cross-conformal ones their definition, by patient."""
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from training_support import coldframe, exam, make_cache, quick, succeed

PATIENTS, NEEDED_OF_80 = 70, 4


def cohort(folder, name, seed, exams_each=1, kind="class"):
    """Noisy exams whose level tells a class or a number a little; patients have 1 to `exams_each`."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for patient in range(PATIENTS):
        level = random.normal()
        label = str(int(level + random.normal() > 0.3)) if kind == "class" else f"{10 * level + 5 * random.normal():.4f}"
        for _ in range(1 + patient % exams_each):
            values = 0.3 * random.normal(size=(6, 4))
            values[:, 0] += level + 0.3 * random.normal()
            entry = exam(len(exams), 6, label, patient=f"{name}-{patient}")
            entry["id"] = f"{name}-{len(exams)}"
            entry["columns"]["site"] = "AB"[patient % 2]
            exams.append(entry)
            features.append(values)
    return make_cache(folder, exams, features, name=f"{name}.cache")


def trained(folder, *words, exams_each=1, kind="class"):
    cache = cohort(folder, "own", 1, exams_each, kind)
    succeed("train", "--cache", cache, "--target", "label", "--out", folder / "run", *quick(*words))
    return folder / "run", cohort(folder, "new", 2, 1, kind)


def predicted(run, cache, *words):
    succeed("predict", "--run", run, "--cache", cache, "--out", run.parent / "p.csv", "--overwrite", *words)
    return pd.read_csv(run.parent / "p.csv")


def held_out(run):
    return pd.read_csv(run / "predictions.csv", dtype={"label": str})


def mapie_quantile(scores, level):
    """mapie.utils._compute_classification_quantile of MAPIE 1.6."""
    return np.quantile(scores, np.ceil((len(scores) + 1) * level) / len(scores), method="lower")


def test_with_one_part_held_out_sets_are_those_of_split_conformal_prediction(tmp_path):
    run, new = trained(tmp_path, "--folds", 1)
    known, table = held_out(run), predicted(run, new, "--sets", 0.8)
    sizes = set()
    for name in "01":
        own = known[known.label == name]
        assert own.patient.is_unique and len(own) > NEEDED_OF_80
        expected = 1 - table[f"p_{name}"] <= mapie_quantile(1 - own[f"p_{name}"], 0.8)
        assert (table[f"set_{name}"] == expected).all() and 0 < expected.mean() < 1
    assert set(table.set_0 + table.set_1) <= {0, 1, 2}


def test_with_one_part_held_out_intervals_are_those_of_split_conformal_prediction(tmp_path):
    run, new = trained(tmp_path, "--folds", 1, kind="number")
    known, table = held_out(run), predicted(run, new, "--sets", 0.8)
    reach = mapie_quantile((known.label.astype(float) - known.predicted).abs(), 0.8)
    assert (table.set_high - table.predicted).to_numpy() == pytest.approx(reach, abs=1e-9)
    assert (table.predicted - table.set_low).to_numpy() == pytest.approx(reach, abs=1e-9)


def by_fold(run, new):
    """Predictions of the models of each fold alone."""
    tables = []
    for fold in range(3):
        alone = run.parent / f"alone-{fold}" / "run"
        shutil.copytree(run, alone)
        for file in (alone / "models").iterdir():
            if not file.name.startswith(f"fold-{fold}-"):
                file.unlink()
        tables.append(predicted(alone, new))
    return tables


def test_exams_are_held_against_each_held_out_one_by_the_models_that_did_not_see_it(tmp_path):
    run, new = trained(tmp_path, "--folds", 3, "--seeds", 2, exams_each=3)
    known, table, alone = held_out(run), predicted(run, new, "--sets", 0.8), by_fold(run, new)
    for name in "01":
        own = known[known.label == name]
        weight = 1 / own.groupby("patient").patient.transform("size").to_numpy()
        score, of = 1 - own[f"p_{name}"].to_numpy(), own.fold.to_numpy()
        new_score = np.array([1 - one[f"p_{name}"] for one in alone])  # [fold, exam]
        rank = 1 + (weight[:, None] * (score[:, None] >= new_score[of] - 1e-12)).sum(0)
        needed = (1 - 0.8) * (own.patient.nunique() + 1)
        assert (table[f"set_{name}"] == (rank > needed + 1e-9)).all()
        assert 0 < table[f"set_{name}"].mean() < 1


def test_too_few_patients_of_a_class_are_refused_with_the_number_that_is_needed(tmp_path):
    run, new = trained(tmp_path, "--folds", 2, "--epochs", 1)
    counts = held_out(run).label.value_counts()
    few = int(counts.min())
    done = coldframe("predict", "--run", run, "--cache", new, "--out", tmp_path / "p.csv", "--sets", 0.99)
    assert done.returncode == 2 and "--sets 0.99 needs 99 patients of each class" in done.stderr
    assert f"'{counts.idxmin()}' of 'label' has {few}; ask for at most {np.floor(1000 * few / (few + 1)) / 1000}, or" in done.stderr
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("kind", ["class", "number"])
def test_the_report_says_how_often_sets_of_other_folds_held(tmp_path, kind):
    run, _ = trained(tmp_path, "--folds", 3, "--subgroups", "site", kind=kind)
    known, found = held_out(run), json.loads((run / "summary.json").read_text())["sets"]
    known["score"] = ((known.label.astype(float) - known.predicted).abs() if kind == "number" else
                      1 - np.where(known.label == "1", known.p_1, known.p_0))
    for fold in known.fold.unique():
        for label in known.label.unique() if kind == "class" else [None]:
            same = (known.label == label) if kind == "class" else True
            most = mapie_quantile(known[(known.fold != fold) & same].score, 0.9)
            known.loc[(known.fold == fold) & same, "held"] = known.score <= most
    site = known.patient.str.split("-").str[1].astype(int) % 2
    expected = {"all": known.held.mean(), "A": known[site == 0].held.mean(), "B": known[site == 1].held.mean()}
    expected |= {name: known[known.label == name].held.mean() for name in "01" if kind == "class"}
    figures = {one["value"]: one["held"] for one in found["coverage"]}
    assert {name: one["value"] for name, one in figures.items()} == pytest.approx({k: float(v) for k, v in expected.items()})
    assert all(one["low"] <= one["value"] <= one["high"] for one in figures.values())
    assert "Sets that hold the truth" in (run / "report.html").read_text()


def test_a_site_that_is_held_out_meets_the_sets_of_the_others(tmp_path):
    run, _ = trained(tmp_path, "--folds", "groups", "--group", "site")
    figures = {one["value"]: one["held"] for one in json.loads((run / "summary.json").read_text())["sets"]["coverage"]}
    known = held_out(run)
    known["score"] = 1 - np.where(known.label == "1", known.p_1, known.p_0)
    site = known.patient.str.split("-").str[1].astype(int) % 2
    for number, name in enumerate("AB"):
        held = [own.score <= mapie_quantile(known[(site != number) & (known.label == label)].score, 0.9)
                for label, own in known[site == number].groupby("label")]
        assert figures[name]["value"] == pytest.approx(np.concatenate(held).mean())
        assert figures[name]["low"] is not None
    assert figures["all"]["low"] is None  # two groups do not show how groups differ
