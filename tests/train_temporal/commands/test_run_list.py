"""train --list: a line for each run, whole, unfinished and damaged."""
import json
import shutil

import pytest
from run_support import LONG, command, interrupt
from training_support import coldframe, quick, ramp_cache, succeed


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    cache = ramp_cache(folder, 40)
    for name, words in {"run-10": ["--folds", 2, "--compare", "mean"],
                        "run-2": ["--folds", 2, "--seeds", 2, "--repeats", 2, "--model", "mean"]}.items():
        succeed("train", "--cache", cache, "--target", "label", "--out",
                folder / "runs" / name, *quick("--epochs", 2, *words))
    interrupt(command(cache, folder / "runs" / "run-3", *LONG), folder / "runs" / "run-3")
    return folder / "runs"


def listed(*words, code=0):
    done = coldframe("train", *words)
    assert done.returncode == code, done.stderr
    return done


def test_a_folder_of_runs(runs):
    found = json.loads(listed("--list", runs, "--json").stdout)
    assert [run["name"] for run in found] == ["run-2", "run-3", "run-10"]
    for run in found:
        assert run["target"] == "label" and run["features"] == "aa"
        assert run["date"].startswith("20")
        if not run["finished"]:
            continue
        summary = json.loads((runs / run["name"] / "summary.json").read_text())
        metric = summary["models"][0]["metrics"]["auroc"]
        auroc = {k: metric["mean_over_folds"][k] for k in ["value", "low", "high"]}
        assert run["metric"] == {"name": "auroc", **auroc, "folds": metric["folds"]["with_figure"]}
        assert run["tensors_peak_bytes"] == summary["memory"]["tensors_peak_bytes"] > 0
        assert run["seconds"] == summary["seconds"] > 0
    two, unfinished, ten = found
    assert (two["model"], two["folds"], two["seeds"]) == ("mean", 4, 2)
    assert (ten["model"], ten["folds"], ten["seeds"]) == ("gru + 1", 2, 1)
    assert two["fits"] == {"done": 8, "all": 8} and ten["fits"] == {"done": 4, "all": 4}
    assert not unfinished["finished"] and "metric" not in unfinished
    assert 1 <= unfinished["fits"]["done"] < unfinished["fits"]["all"] == 4


def test_the_table_says_the_same(runs):
    lines = listed("--list", runs / "run-10", runs / "run-3").stdout.splitlines()
    assert len(lines) == 3 and lines[0].startswith("RUN") and lines[1].startswith("run-10")
    assert "auroc" in lines[1] and "2 × 1" in lines[1] and "gru + 1" in lines[1]
    assert lines[2].startswith("run-3") and "unfinished: " in lines[2] and " of 4 fits" in lines[2]


@pytest.mark.parametrize("file, content", [
    ("summary.json", "{"), ("summary.json", "{}"), ("summary.json", '{"models": [{"metrics": 3}]}'),
    ("summary.json", '{"models": [], "seconds": "x"}'), ("config.json", "[]"),
    ("config.json", '{"target": "x", "folds": "many"}'), ("config.json", '{"recipe": 3}'),
])
def test_a_damaged_run_is_said_and_the_others_are_shown(runs, tmp_path, file, content):
    shutil.copytree(runs / "run-10", tmp_path / "whole")
    shutil.copytree(runs / "run-10", tmp_path / "damaged")
    (tmp_path / "damaged" / file).write_text(content)
    done = listed("--list", tmp_path, code=1)
    assert "damaged': " in done.stderr and "cannot be read" in done.stdout
    assert any(line.startswith("whole") and "auroc" in line for line in done.stdout.splitlines())
    assert "problem" in json.loads(listed("--list", tmp_path, "--json", code=1).stdout)[0]


def test_what_holds_no_runs_is_refused(runs, tmp_path):
    for path in [tmp_path, tmp_path / "none", runs / "run-10" / "config.json"]:
        done = listed("--list", path, code=2)
        assert str(path) in done.stderr and "run folders" in done.stderr
    assert "Usage: coldframe train --list" in listed("--list", runs, "--help").stdout


def test_list_has_a_help_of_its_own():
    for words in [("--list", "--help"), ("--help", "--list"), ("--list", "-h")]:
        text = listed(*words).stdout
        assert "coldframe train --list RUNS" in text and "--epochs" not in text
