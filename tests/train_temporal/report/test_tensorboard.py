"""Event files as TensorBoard itself reads them, also of runs that were interrupted."""
import numpy as np
import pandas as pd
import pytest
from run_support import LONG, command, interrupt
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from training_support import make_cache, quick, ramp_cache, ramp_exams, succeed

TAGS = {"loss/train": "train_loss", "loss/validation": "validation_loss",
        "learning_rate": "learning_rate"}
MEASURED = ["validation/auroc", "time/step", "time/epoch"]


def scalars(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}


def check_fit(folder, epochs):
    """Every epoch once, in order, with the losses of metrics.csv; returns all scalars."""
    found = scalars(folder)
    for tag, column in TAGS.items():
        assert [event.step for event in found[tag]] == list(epochs.epoch)
        np.testing.assert_allclose([event.value for event in found[tag]], epochs[column], rtol=1e-6)
        times = [event.wall_time for event in found[tag]]
        assert times == sorted(times) and times[0] > 1.6e9
    return found


def check_run(run):
    metrics = pd.read_csv(run / "metrics.csv")
    fits = {}
    for (model, repeat, fold, seed), epochs in metrics.groupby(["model", "repeat", "fold", "seed"]):
        name = f"{model}/repeat-{repeat}-fold-{fold}-seed-{seed}"
        fits[name] = check_fit(run / "tensorboard" / name, epochs)
    files = [path for path in (run / "tensorboard").rglob("*") if path.is_file()]
    assert len(files) == len(fits)
    return fits


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return ramp_cache(tmp_path_factory.mktemp("made"), 40)


def test_every_fit_has_its_epochs(cache, tmp_path):
    run = tmp_path / "run"
    succeed("train", "--cache", cache, "--target", "label", "--out", run, "--compare",
            "mean,clock", *quick("--folds", 2, "--seeds", 2, "--epochs", 4))
    fits = check_run(run)
    assert len(fits) == 3 * 2 * 2
    for found in fits.values():
        assert sorted(found) == sorted([*TAGS, *MEASURED])
        assert all(0 <= event.value <= 1 for event in found["validation/auroc"])
        step, epoch = ([event.value for event in found[tag]] for tag in ["time/step", "time/epoch"])
        assert all(0 < s < e for s, e in zip(step, epoch))
    best = max(event.value for event in fits["gru/repeat-0-fold-0-seed-0"]["validation/auroc"])
    assert best > 0.6, "the ramps can be told apart"


def test_other_tasks_have_figures_of_their_own(tmp_path):
    exams, features = ramp_exams(30)
    for number, entry in enumerate(exams):
        entry["columns"] = {"dose": str(number * 1.5), "grade": str(number % 3)}
        entry["frame_columns"] = {"late": [str(int(t > 3)) for t in range(8)]}
    made = make_cache(tmp_path, exams, features)
    for target, tags in [
            ("dose", ["validation/r2", "validation/mae"]),
            ("grade:ordinal,dose", ["validation/grade/quadratic_kappa", "validation/grade/class_mae",
                                    "validation/dose/r2", "validation/dose/mae"]),
            ("late", ["validation/auroc"])]:
        run = tmp_path / target.replace(":", "-")
        succeed("train", "--cache", made, "--target", target, "--out", run,
                *quick("--folds", 2, "--epochs", 2))
        for found in check_run(run).values():
            assert sorted(found) == sorted([*TAGS, *tags, "time/step", "time/epoch"])
            if "validation/mae" in found:
                assert all(1 < event.value < 60 for event in found["validation/mae"])


def test_a_resumed_run_has_every_epoch_once(cache, tmp_path):
    out, working, unfinished = tmp_path / "run", tmp_path / "run.unfinished", []
    for _ in range(10):  # until the signal does not fall between two fits
        interrupt(command(cache, out, *LONG), out)
        unfinished = [path.stem for path in (working / "state").glob("*.checkpoint")]
        if unfinished:
            break
    assert unfinished, "no fit was interrupted half-way"
    for number, stem in enumerate(unfinished):
        model, fit = stem.split("-", 1)
        path = working / "tensorboard" / model / fit / "events.out.tfevents.coldframe"
        if number == 0:  # an event torn by a kill
            path.write_bytes(path.read_bytes()[:-9])
        else:
            path.unlink()
    succeed(*command(cache, out, *LONG), "--resume")
    check_run(out)
