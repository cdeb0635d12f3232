"""train --search: every fold chooses its setting on its inner validation part alone."""
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from run_support import command, interrupt
from safetensors import safe_open
from training_support import coldframe, make_cache, quick, ramp_cache, ramp_exams, succeed

SEARCH = ["--folds", 3, "--epochs", 6, "--search", 3]


def train(cache, out, *more):
    return succeed("train", "--cache", cache, "--target", "label", "--out", out, *quick(*more, model=None))


def content(run):
    return {path.name: path.read_bytes() for path in [*run.glob("models/*"), *run.glob("*.csv")]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    cache = ramp_cache(folder, 60)
    return folder, cache, train(cache, folder / "run", *SEARCH, "--seeds", 2, "--compare", "mean")


def test_every_fold_takes_the_setting_of_the_lowest_validation_loss(made):
    folder, _, result = made
    table = pd.read_csv(folder / "run" / "search.csv")
    assert len(table) == 9 and list(table.setting) == [0, 1, 2] * 3
    for _, fold in table.groupby("fold"):
        best = fold.validation_loss.idxmin()
        assert list(fold.chosen) == [int(row == best) for row in fold.index]
    assert "are 9 fits, of 6 epochs at most; with the run's own there are 24" in result.stderr


def test_the_given_setting_is_tried_first_and_what_was_asked_for_stays(made):
    table = pd.read_csv(made[0] / "run" / "search.csv")
    assert set(table.hidden) == {16} and set(table.lr) == {0.005}  # quick() gives both
    assert table[table.setting > 0].dropout.nunique() > 1
    config = json.loads((made[0] / "run" / "config.json").read_text())
    first = table[table.setting == 0].iloc[0]
    assert first.dropout == config["model"]["dropout"] and first.noise == config["fit"]["noise"]


KINDS = {"gru", "bigru", "lstm", "transformer", "tcn"}


@pytest.fixture(scope="module")
def kinds(made):
    """A search of all that there is to search, by folds of which each has a summary as a rival."""
    folder, cache, _ = made
    return folder / "kinds", cache, train(cache, folder / "kinds", "--folds", 3, "--epochs", 4, "--search", 8, "--compare",
                                          "shuffled")


def test_the_kind_of_model_its_inputs_and_its_pooling_are_drawn(kinds):
    run, _, result = kinds
    table = pd.read_csv(run / "search.csv")
    first = table[table.setting == 0].iloc[0]
    assert [first.model, first.inputs, first.temporal_pool] == ["gru", "level", "attention"]
    assert set(table.model) <= KINDS and table.model.nunique() > 2
    assert set(table.inputs) == {"level", "change", "both"} and table.temporal_pool.nunique() > 1
    for _, fold in table.groupby("fold"):
        assert list(fold[fold.chosen == 1].index) == [fold.validation_loss.idxmin()]


def card_of(path):
    with safe_open(path, "np") as file:
        return json.loads(file.metadata()["card"])


def test_the_report_says_what_each_fold_took(kinds):
    run, _, result = kinds
    table = pd.read_csv(run / "search.csv")
    summary, page = json.loads((run / "summary.json").read_text()), (run / "report.html").read_text()
    chosen = table[table.chosen == 1].set_index("fold")
    taken = [fold["setting"] for fold in summary["folds"]]
    for fold, setting in enumerate(taken):
        assert set(setting) > {"model", "inputs", "temporal_pool"}
        assert all(chosen.loc[fold, option] == value for option, value in setting.items())
    main, names = summary["models"][0], {setting["model"] for setting in taken}
    kinds, last = main["taken"]
    assert main["name"] == "auto" and set(kinds.split("/")) == names and last == "summary"
    assert sum(main["taken"].values()) == 3 and "auto took " in result.stdout
    assert "auto reaches an AUROC" in summary["verdict"][0]
    assert "Search took" in result.stdout and "<h2>Search</h2>" in page
    for text in (result.stdout, (run / "METHODS.md").read_text()):
        assert all(f"{setting['inputs']} in " in text and f"{setting['model']} in " in text for setting in taken)
    listed = json.loads(coldframe("train", "--list", run, "--json").stdout)
    fits = ", ".join(f"{kind} {count}" for kind, count in main["taken"].items())
    assert listed[0]["model"] == f"auto ({fits}) + 1"


def test_a_twin_is_of_the_kind_that_its_fold_took(kinds):
    run, _, _ = kinds
    for fold, entry in enumerate(json.loads((run / "summary.json").read_text())["folds"]):
        name = f"fold-{fold}-seed-0.safetensors"
        kind = {"bigru": "gru"}.get(entry["setting"]["model"], entry["setting"]["model"])
        for folder in (run / "models", run / "controls" / "shuffled"):
            model = card_of(folder / name)["model"]
            assert model["architecture"] in (kind, "summary")
            if model["architecture"] == kind:
                assert model.get("inputs", "level") == entry["setting"]["inputs"]


def test_folds_of_several_kinds_predict_and_are_evaluated(kinds, tmp_path):
    run, cache, _ = kinds
    succeed("predict", "--run", run, "--cache", cache, "--out", tmp_path / "new.csv")
    assert pd.read_csv(tmp_path / "new.csv").p_1.between(0, 1).all()
    done = succeed("evaluate", "--run", run, "--cache", cache, "--out", tmp_path / "evaluated", "--json")
    own = json.loads((run / "summary.json").read_text())
    assert [one["name"] for one in json.loads(done.stdout)["models"]] == [one["name"] for one in own["models"]]


def test_what_is_given_is_not_searched(made, tmp_path):
    given = {"model": "lstm", "inputs": "both", "temporal-pool": "mean", "lr": 0.002}  # the last is the default
    words = [word for option, value in given.items() for word in (f"--{option}", value)]
    train(made[1], tmp_path / "run", "--folds", 1, "--epochs", 1, "--search", 8, *words)
    table = pd.read_csv(tmp_path / "run" / "search.csv")
    for option, value in given.items():
        assert set(table[option.replace("-", "_")]) == {value}
    assert table.dropout.nunique() > 2


def test_kinds_that_lack_what_is_asked_for_are_not_drawn(made, tmp_path):
    """An odd width is none of a transformer's, and decay is a GRU's."""
    words = ["--folds", 1, "--epochs", 1, "--search", 30]
    train(made[1], tmp_path / "odd", *words, "--hidden", 5)
    assert set(pd.read_csv(tmp_path / "odd" / "search.csv").model) == KINDS - {"transformer"}
    train(made[1], tmp_path / "decay", *words, "--time", "on", "--time-encoding", "decay")
    assert set(pd.read_csv(tmp_path / "decay" / "search.csv").model) == {"gru"}


def test_a_target_of_frames_is_searched_without_pooling(tmp_path):
    exams, features = ramp_exams(30)
    for entry in exams:
        entry["frame_columns"] = {"phase": [str(t // 4) for t in range(8)]}
    cache = make_cache(tmp_path, exams, features)
    succeed("train", "--cache", cache, "--target", "phase", "--out", tmp_path / "run",
            *quick("--folds", 2, "--epochs", 1, "--search", 6, model=None))
    table = pd.read_csv(tmp_path / "run" / "search.csv", keep_default_na=False)
    kinds = set(table[table.chosen == 1].model)
    assert set(json.loads((tmp_path / "run" / "summary.json").read_text())["models"][0]["name"].split("/")) == kinds
    assert set(table.temporal_pool) == {"none"} and table.model.nunique() > 1 and table.inputs.nunique() > 1


def test_the_test_parts_have_no_say(made, tmp_path):
    folder, _, _ = made
    splits = pd.read_csv(folder / "run" / "splits.csv")
    test = splits[(splits.fold == 0) & (splits.part == "test")].exam
    exams, features = ramp_exams(60)
    for entry in exams:
        if entry["id"] in set(test):
            entry["columns"]["label"] = str(1 - int(entry["columns"]["label"]))
    one_fold = tmp_path / "splits.csv"
    splits[splits.fold == 0].to_csv(one_fold, index=False)
    other = make_cache(tmp_path, exams, features)
    words = ["--epochs", 6, "--search", 3, "--splits", one_fold]
    train(made[1], tmp_path / "as it is", *words)
    train(other, tmp_path / "turned round", *words)
    tables = [(tmp_path / run / "search.csv").read_text() for run in ("as it is", "turned round")]
    assert tables[0] == tables[1]


def test_a_run_is_evaluated_with_the_settings_of_its_folds(made, tmp_path):
    folder, cache, _ = made
    succeed("predict", "--run", folder / "run", "--cache", cache, "--out", tmp_path / "p.csv")
    assert np.isfinite(pd.read_csv(tmp_path / "p.csv").p_1).all()


def test_the_report_counts_the_settings(made):
    assert "<dt>search</dt><dd>3</dd>" in (made[0] / "run" / "report.html").read_text()


def test_settings_are_short_numbers(made, tmp_path):
    succeed("train", "--cache", made[1], "--target", "label", "--out", tmp_path / "run", "--folds", 1, "--epochs", 1,
            "--search", 12, "--hidden", 8, "--model", "gru")
    table = pd.read_csv(tmp_path / "run" / "search.csv", dtype=str)
    assert table.lr.nunique() > 2
    for value in [*table.lr, *table.weight_decay]:
        assert float(value) == float(f"{float(value):.2g}") and len(value) <= 8, value


@pytest.mark.parametrize("words, says", [
    (["--model", "single", "--single-frame", "best"], "name first, middle or last"),
    (["--model", "gru", "--temporal-pool", "last", "--dropout", 0.11, "--noise", 0.11, "--weight-decay", 0.011],
     "nothing left to search"),
])
def test_a_search_without_a_meaning_is_refused(made, tmp_path, words, says):
    done = coldframe("train", "--cache", made[1], "--target", "label", "--out", tmp_path / "run",
                     *quick("--search", 3, *words))
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert not list(tmp_path.glob("run*"))


def test_a_search_of_which_all_settings_diverge_says_so(made, tmp_path):
    done = coldframe("train", "--cache", made[1], "--target", "label", "--out", tmp_path / "run",
                     *quick("--search", 2, "--lr", 1e30, "--folds", 2, "--model", "gru"))
    assert done.returncode == 3
    assert done.stderr.count("the setting counts as the worst") == 4
    assert "no setting of --search: the loss is not a finite number in the first epoch" in done.stderr


def test_a_setting_that_diverges_counts_as_the_worst_of_several(made, tmp_path):
    # A step multiplies weights by 1 − lr · weight_decay, in drawn settings alike but for the decay: 30
    # steps of one exam overflow with most of them, and not with the smallest.
    result = train(made[1], tmp_path / "run", "--search", 4, "--lr", 5000, "--batch", 1, "--folds", 2, "--epochs", 2,
                   "--model", "gru")
    table = pd.read_csv(tmp_path / "run" / "search.csv")
    diverged = table[table.validation_loss.isna()]
    assert set(diverged.fold) == {0, 1} and set(diverged.epochs) == {0}
    assert result.stderr.count("the setting counts as the worst") == len(diverged)
    for _, fold in table.groupby("fold"):
        chosen = fold[fold.chosen == 1]
        assert list(chosen.index) == [fold.validation_loss.idxmin()]
        assert list(chosen.weight_decay) == [fold.weight_decay.min()]
    assert pd.read_csv(tmp_path / "run" / "predictions.csv").p_1.notna().all()


def test_a_search_that_was_interrupted_resumes_to_the_same_bytes(made, tmp_path):
    cache, words = made[1], ["--folds", 2, "--epochs", 300, "--patience", 0, "--search", 2, "--model", "auto"]
    train(cache, tmp_path / "whole", *words)
    interrupt(command(cache, tmp_path / "run", *words), tmp_path / "run")
    train(cache, tmp_path / "run", *words, "--resume")
    assert content(tmp_path / "run") == content(tmp_path / "whole")
    shutil.rmtree(tmp_path / "run")
