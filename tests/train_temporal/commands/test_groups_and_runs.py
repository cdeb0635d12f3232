"""Splits by a column, and two runs compared."""
import json

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk
from study_cohort import SITES, column_of, made_exams, made_run, predictions_of, summary_of
from training_support import coldframe, exam, make_cache, quick, succeed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("made"))


def trained(tmp_path, cache, *words):
    succeed("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", *quick("--epochs", 1), *words)
    return pd.read_csv(tmp_path / "run" / "splits.csv")


def test_each_site_is_held_out_once(made, tmp_path):
    splits = trained(tmp_path, made[0], "--folds", "groups", "--group", "site", "--subgroups", "site")
    splits["site"] = column_of(splits, "site")
    held_out = splits[splits.part == "test"]
    assert held_out.groupby("fold").site.unique().map(list).tolist() == [[site] for site in SITES]
    for _, fold in splits.groupby("fold"):
        assert not set(fold[fold.part == "test"].site) & set(fold[fold.part != "test"].site)
    assert "each site held out once" in (tmp_path / "run" / "summary.json").read_text()


def test_sites_that_were_not_seen_have_figures_of_their_own_and_a_wide_interval(tmp_path):
    """Two of three sites are easy; in the third the label is the other way round."""
    random = np.random.default_rng(0)
    exams, features = [], []
    for number in range(150):
        label, site = number % 2, SITES[number // 2 % 3]
        entry = exam(number, 4, str(label), f"P{number}")
        entry["columns"]["site"] = site
        exams.append(entry)
        features.append(random.normal(size=(4, 5)) + 2 * (label if site != "west" else 1 - label))
    out = tmp_path / "run"
    succeed("train", "--cache", make_cache(tmp_path, exams, features), "--target", "label", "--out", out,
            "--folds", "groups", "--group", "site", *quick("--epochs", 20))
    summary = json.loads((out / "summary.json").read_text())
    groups = {entry["value"]: entry["metrics"]["auroc"]["mean_over_folds"]["value"]
              for entry in summary["subgroups"]["site"]["groups"]}
    assert set(groups) == set(SITES) and groups["west"] < 0.2
    assert summary["verdict"][0].startswith("On 3 groups of 'site' that it has not seen")
    assert any("'west' of 'site' lies below chance" in warning for warning in summary["warnings"]), summary["warnings"]
    figure = summary["models"][0]["metrics"]["auroc"]["mean_over_folds"]
    values = np.array(list(groups.values()))
    reach = 4.303 * values.std(ddof=1) / np.sqrt(3)
    assert figure["low"] <= max(figure["value"] - reach, 0) + 0.02 and figure["high"] >= min(figure["value"] + reach, 1) - 0.02


def test_patients_of_several_sites_hold_these_together(tmp_path):
    exams, features = made_exams()
    exams[0]["patient"] = exams[1]["patient"]  # north and south
    splits = trained(tmp_path, make_cache(tmp_path, exams, features), "--folds", "groups", "--group", "site")
    splits["site"] = column_of(splits, "site")
    held_out = splits[splits.part == "test"].groupby("fold").site.unique().map(sorted).tolist()
    assert held_out == [["north", "south"], ["west"]]


def test_a_column_stays_on_one_side(tmp_path):
    exams, features = made_exams(count=96, of_patient=2)
    family = {}
    for number, entry in enumerate(exams):
        entry["columns"]["family"] = family[entry["id"]] = f"F{number // 6}"
    splits = trained(tmp_path, make_cache(tmp_path, exams, features), "--folds", 4, "--group", "family")
    splits["family"] = splits["exam"].map(family)
    for name in ["family", "patient"]:
        assert splits.groupby(["fold", name]).part.nunique().max() == 1
    assert sorted(splits[splits.part == "test"].exam) == sorted(family)


@pytest.mark.parametrize("words, said", [
    (["--folds", "groups"], "needs --group"), (["--group", "site", "--folds", "patients"], "--folds groups"),
    (["--group", "site", "--folds", "4"], "3 groups with a label, but --folds 4 needs at least 4"),
    (["--group", "empty"], "96 labelled exams without a value"), (["--group", "colour"], "no such column"),
    (["--group", "site", "--folds", "groups", "--repeats", "2"], "one way only"),
])
def test_groups_that_cannot_be_held_apart_are_refused(made, tmp_path, words, said):
    done = coldframe("train", "--cache", made[0], "--target", "label", "--out", tmp_path / "run", *words)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def numbers_in(entry, place=""):
    """Every number in a JSON object, by its place."""
    if isinstance(entry, dict | list):
        items = entry.items() if isinstance(entry, dict) else enumerate(entry)
        return {key: value for name, inner in items for key, value in numbers_in(inner, f"{place}/{name}").items()}
    return {place: entry} if isinstance(entry, float) else {}


def test_two_runs_are_compared_on_what_both_held_out(made, tmp_path):
    other = tmp_path / "other"
    succeed("train", "--cache", made[0], "--target", "label", "--out", other,
            *quick("--model", "mean", "--folds", 3, "--epochs", 6))
    done = succeed("evaluate", "--run", made[1], "--against", other, "--out", tmp_path / "out", "--bootstrap", 50)
    summary, control = summary_of(tmp_path / "out"), summary_of(made[1])["models"][1]
    assert summary["models"][1]["name"] == "run other"
    # The same models and folds as the run's own control: the same figures and differences.
    for part in ["metrics", "first_model_minus_this"]:
        ours, theirs = numbers_in(summary["models"][1][part]), numbers_in(control[part])
        assert ours.keys() == theirs.keys() and ours == pytest.approx(theirs, abs=1e-12, nan_ok=True)
    assert "run other" in done.stdout and "run run" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "summary.json"]


def test_training_ends_with_the_comparison_that_was_asked_for(made, tmp_path):
    words = ["train", "--cache", made[0], "--target", "label", "--out", tmp_path / "new", "--json", "--against"]
    done = succeed(*words, made[1], *quick("--folds", 3, "--epochs", 2))
    compared = coldframe("evaluate", "--run", tmp_path / "new", "--against", made[1], "--json", "--bootstrap", 50)
    assert json.loads(done.stdout)["against"] == json.loads(compared.stdout) == summary_of(tmp_path / "new")["against"]
    assert "run new against run run" in (tmp_path / "new" / "against.html").read_text()
    done = coldframe(*words, made[1], *quick("--folds", 3, "--epochs", 2, "--resume"))
    assert done.returncode == 0 and json.loads(done.stdout) == json.loads(compared.stdout), done.stderr
    (tmp_path / "no-run").mkdir()
    done = coldframe(*words, tmp_path / "no-run", *quick("--folds", 3, "--epochs", 2, "--overwrite"))
    assert done.returncode == 2 and "not a finished run" in done.stderr, done.stderr


def test_runs_of_one_folder_name_are_told_apart(made, tmp_path):
    twin = tmp_path / "twin" / "run"
    twin.mkdir(parents=True)
    for file in ["predictions.csv", "config.json"]:
        (twin / file).write_text((made[1] / file).read_text())
    done = succeed("evaluate", "--run", made[1], "--against", twin, "--json", "--bootstrap", 50)
    names = [model["name"] for model in json.loads(done.stdout)["models"]]
    assert names == [f"run {made[1].parent.name}/run", "run twin/run"]
    config = json.loads((twin / "config.json").read_text())
    config["targets"][0].update(task="regression", classes=[])
    (twin / "config.json").write_text(json.dumps(config))
    done = coldframe("evaluate", "--run", twin, "--against", twin, "--prevalence", 0.1)
    assert done.returncode == 2 and "are for a binary target" in done.stderr, done.stderr


def test_runs_of_other_folds_are_compared_with_all_exams_together(made, tmp_path):
    other = tmp_path / "other"
    succeed("train", "--cache", made[0], "--target", "label", "--out", other, *quick("--folds", 2, "--epochs", 2))
    done = coldframe("evaluate", "--run", made[1], "--against", other, "--json", "--bootstrap", 50)
    assert done.returncode == 0 and "divided the exams differently" in done.stderr, done.stderr
    ours = json.loads(done.stdout)["models"][0]
    assert "all folds ranked together" in " ".join(json.loads(done.stdout)["verdict"])
    a, b = predictions_of(made[1]), predictions_of(other)
    assert ours["metrics"]["auroc"]["mean_over_folds"]["value"] == pytest.approx(sk.roc_auc_score(a.label, a.p_1), abs=1e-9)
    both = a.merge(b, on="exam")
    difference = json.loads(done.stdout)["models"][1]["first_model_minus_this"]["auroc"]["mean_over_folds"]
    ahead = sk.roc_auc_score(both.label_x, both.p_1_x) - sk.roc_auc_score(both.label_y, both.p_1_y)
    assert difference["value"] == pytest.approx(ahead, abs=1e-9) and difference["low"] < ahead < difference["high"]


def test_runs_that_cannot_be_paired_are_refused(made, tmp_path):
    exams, features = made_exams()
    for entry in exams:
        entry["columns"]["label"] = str(1 - int(entry["columns"]["label"]))
    flipped = tmp_path / "flipped"
    succeed("train", "--cache", make_cache(tmp_path, exams, features), "--target", "label", "--out", flipped,
            *quick("--folds", 2, "--epochs", 1))
    for words, said in [(["--against", flipped], "has the label '0' in run run and '1' in run flipped"),
                        (["--against", tmp_path], "not a finished run"),
                        (["--against", flipped, "--subgroups", "sex"], "--subgroups needs --cache"),
                        (["--against", flipped, "--device", "cpu"], "--device needs --cache")]:
        done = coldframe("evaluate", "--run", made[1], *words)
        assert done.returncode in (2, 3) and said in done.stderr, done.stderr


@pytest.mark.parametrize("name, column, value, said", [
    ("predictions.csv", "label", "2", "column 'label' has '2'; expected one of 0, 1"),
    ("predictions.csv", "predicted", "x", "expected one of 0, 1"), ("predictions.csv", "fold", "-1", "expected a whole number"),
    ("predictions.csv", "p_1", "high", "expected a number"), ("config.json", "binary", "guess", "unknown task 'guess'"),
    ("config.json", "targets", "other", "does not say what the run learnt"),
])
def test_runs_whose_files_were_changed_are_refused(made, tmp_path, name, column, value, said):
    run = tmp_path / "changed"
    run.mkdir()
    for file in ["predictions.csv", "config.json"]:
        (run / file).write_text((made[1] / file).read_text())
    if name == "config.json":
        (run / name).write_text((run / name).read_text().replace(f'"{column}"', f'"{value}"'))
    else:
        frame = pd.read_csv(run / name).astype({column: str})
        frame.loc[3, column] = value
        frame.to_csv(run / name, index=False)
    done = coldframe("evaluate", "--run", run, "--against", made[1])
    assert done.returncode == 3 and said in done.stderr, done.stderr
