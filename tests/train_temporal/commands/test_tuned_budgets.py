"""train --tune within a memory budget: exams in turn or together, runs that are killed and go on, the same results."""
import contextlib
import json
import re
import subprocess
import time

import numpy as np
import pandas as pd
import pytest
from training_support import PROGRAM, succeed
from tuning_support import CUT, content, cut_cache, train, tuned, words


def losses(run):
    return pd.read_csv(run / "metrics.csv")[["train_loss", "validation_loss"]].to_numpy()


def test_micro_batches_and_budgets_change_roundings_only(cache, weights, tmp_path):
    plain = ["--dropout", 0.2, "--tune-dropout", 0.1, "--tune-drop-path", 0.2]
    found = []
    for name, more in [("a", []), ("b", ["--micro-batch", 3]), ("c", ["--memory-budget", "100MiB"]), ("d", ["--jobs", 1])]:
        train(cache, tmp_path / name, *tuned(weights), *plain, *more)
        found.append(losses(tmp_path / name))
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=2e-4)


def killed(command, state, writes):
    """Kills it once it has written so often into `state`; False when it was done before."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = set()
    while process.poll() is None and len(seen) < writes:
        with contextlib.suppress(FileNotFoundError):  # a file is replaced, or the run has ended, just now
            seen.update((path.name, path.stat().st_mtime_ns) for path in state.glob("*"))
        time.sleep(0.002)  # the run needs the core
    process.kill()
    return process.wait() != 0


def begin_with_costs_of(whole, command, unfinished):
    """Begins a run and gives it the costs that another one measured: schedules that are chosen by two measurements may
    round differently."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    config = unfinished / "config.json"
    while process.poll() is None and not config.exists():
        time.sleep(0.002)
    process.kill()
    process.wait()
    begun = json.loads(config.read_text())
    begun["vit_costs"] = json.loads((whole / "config.json").read_text())["vit_costs"]
    config.write_text(json.dumps(begun))
    for path in (unfinished / "state").glob("*"):  # of fits by the other costs
        path.unlink()


def test_killed_and_resumed_equals_uninterrupted(cache, weights, tmp_path):
    equals_uninterrupted(cache, weights, tmp_path, [])


def part_of_a_step(done, part):
    """The --memory-budget that leaves a tuning step this part of what it took in a run within 60 MiB."""
    step, there = map(float, re.search(r"goes by cheap.*: ([0-9.]+) MiB of ([0-9.]+) MiB", done.stderr).groups())
    return ["--memory-budget", f"{60 - there + part * step}MiB"]


def test_killed_and_resumed_with_coupled_exams_equals_uninterrupted(cache, weights, tmp_path):
    """Within 95 % of what a step takes with nothing but what is cheap computed again."""
    more = [*tuned(weights), "--mixup", 0.3, "--tune-dropout", 0.1]
    one = train(cache, tmp_path / "one", *more, "--epochs", 1, "--memory-budget", "60MiB", "--threads", 2)
    said = equals_uninterrupted(cache, weights, tmp_path, ["--mixup", 0.3, *part_of_a_step(one, 0.95)])
    assert "tuning goes by" in said and "micro-batches" not in said


def test_killed_and_resumed_with_exams_in_turn_equals_uninterrupted(cache, weights, tmp_path):
    one = train(cache, tmp_path / "one", *tuned(weights), "--epochs", 1, "--tune-dropout", 0.1, "--memory-budget", "60MiB",
                "--threads", 2)
    assert "a tuning step goes in micro-batches" in equals_uninterrupted(cache, weights, tmp_path, part_of_a_step(one, 0.8))


def train_on(target, cache, out, *more):
    command = words(cache, out, *more)
    command[command.index("--target") + 1] = target
    return succeed(*command)


@pytest.fixture(scope="module")
def uneven(exams, weights, tmp_path_factory):
    """Exams of one frame and of two, a target of frames, one of times to an event, and a rare class."""
    manifest = pd.read_csv(exams)
    manifest = manifest[(manifest["exam"].str[5:].astype(int) % 3 > 0) | manifest["path"].str.endswith("-0.png")]
    number = manifest["exam"].str[5:].astype(int)
    manifest["bright"] = manifest["label"] * manifest["path"].str.contains("-1").astype(int)
    manifest["years"], manifest["died"] = 1 + number % 7, number % 2
    manifest["rare"] = (number % 5 == 0).astype(int)
    manifest.to_csv(exams.parent / "uneven.csv", index=False)
    return cut_cache(exams.parent / "uneven.csv", weights, tmp_path_factory.mktemp("uneven") / "made.cache", CUT,
                     "--frame-columns", "bright")


@pytest.mark.parametrize("target, more", [
    ("label", []), ("rare", ["--class-weights", "--label-smoothing", 0.1]), ("rare", ["--sampler", "balanced"]),
    ("label,coin", []), ("bright", []), ("label", ["--micro-batch", 3, "--train-frames", 1, "--tune-drop-path", 0.2])])
def test_exams_in_turn_change_roundings_only(uneven, weights, tmp_path, target, more):
    same = [*tuned(weights), "--tune-dropout", 0.1, *more]
    done = train_on(target, uneven, tmp_path / "together", *same, "--memory-budget", "60MiB")
    assert "micro-batches" not in done.stderr
    done = train_on(target, uneven, tmp_path / "in turn", *same, *part_of_a_step(done, 0.8))
    assert "a tuning step goes in micro-batches" in done.stderr
    memory = json.loads((tmp_path / "in turn" / "summary.json").read_text())["memory"]
    assert 0.7 * memory["budget_bytes"] < memory["tensors_peak_bytes"] <= memory["budget_bytes"]
    assert 0.9 < memory["step_predicted_bytes"] / memory["step_peak_bytes"] < 1.1
    assert memory["tensors_predicted_bytes"] == pytest.approx(memory["tensors_peak_bytes"], rel=0.15)
    assert losses(tmp_path / "in turn") == pytest.approx(losses(tmp_path / "together"), abs=2e-5)


@pytest.mark.parametrize("target, more", [("years:died", []), ("label", ["--mixup", 0.3])])
def test_exams_that_are_coupled_go_together(uneven, weights, tmp_path, target, more):
    same = [*tuned(weights), *more]
    roomy = train_on(target, uneven, tmp_path / "roomy", *same, "--memory-budget", "60MiB")
    tight = train_on(target, uneven, tmp_path / "tight", *same, *part_of_a_step(roomy, 0.8))
    assert "tuning goes by" in tight.stderr and "micro-batches" not in tight.stderr
    assert losses(tmp_path / "tight")[:, 0] == pytest.approx(losses(tmp_path / "roomy")[:, 0], abs=2e-5)


def equals_uninterrupted(cache, weights, tmp_path, memory):
    more = [*tuned(weights), "--epochs", 6, "--patience", 0, "--folds", 2, "--tune-dropout", 0.1, "--compare", "frozen",
            "--jobs", 1, "--threads", 2, *memory]
    done = train(cache, tmp_path / "whole", *more)
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["threads_per_fit"] == 2
    random, kills = np.random.default_rng(0), 0
    cut, unfinished = tmp_path / "cut", tmp_path / "cut.unfinished"
    begin_with_costs_of(tmp_path / "whole", [PROGRAM, *words(cache, cut, *more)], unfinished)
    while kills < 5 and not cut.exists():
        command = [PROGRAM, *words(cache, cut, *more)]
        before = len(list((unfinished / "state").glob("*")))
        elsewhere = ["--resume", "--threads", 1]  # on a machine of other cores
        kills += killed(command + elsewhere * unfinished.exists(), unfinished / "state", before + random.integers(1, 6))
    if not cut.exists():
        train(cache, cut, *more, *["--resume"] * unfinished.exists())
    assert kills > 0 and content(cut) == content(tmp_path / "whole")
    return done.stderr
