"""The jobs of the package, with the programs of the build."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import coldframe
from coldframe import programs
from coldframe.tables import read_csv

RECIPE = {"random_weights": 0, "architecture": "vit_tiny_patch16_224", "pool": "mean", "mean": 0.5, "std": [0.5, 0.5, 0.5],
          "image_size": 32, "device": "cpu", "precision": "fp32"}


pytestmark = pytest.mark.usefixtures("programs_of_the_build")


@pytest.fixture(scope="module")
def study(tmp_path_factory, programs_of_the_build):
    folder = tmp_path_factory.mktemp("study")
    manifest = coldframe.make_exams(folder, exams=20, frames=3, size=64, seed=2)
    cache = coldframe.extract(manifest, folder / "exams.cache", keep_patient_id=True, **RECIPE, progress=False)
    run = coldframe.train(cache, folder / "run", target="label", folds=2, epochs=2, compare=["mean", "shuffled"], bootstrap=20,
                          time="off", progress=False)
    return folder, cache, run, coldframe.Bundle.make(run, folder / "x.bundle", progress=False)


def test_options_are_words_of_the_command_line():
    assert programs.words_of({"image_size": 224, "std": (0.5, 0.25), "compare": ["single", "mean"], "resume": True, "amp": False,
                              "labels": None, "weights": Path("a/b"), "cache": {"fa": Path("x"), "icga": "y"}, "lambda_": 1e-6}) == [
        "--image-size", "224", "--std", "0.5,0.25", "--compare", "single,mean", "--resume", "--weights", "a/b",
        "--cache", "fa=x,icga=y", "--lambda", "1e-06"]


def test_extract_gives_the_cache(study):
    folder, cache, _, _ = study
    assert len(cache) == 20 and cache.dimension == 192 and cache.failures.empty
    assert repr(cache) == f"<Cache {folder}/exams.cache: 20 exams, 60 frames of 192 features>"
    assert cache.recipe["features"]["preprocessing"]["std"] == [0.5, 0.5, 0.5]
    again = coldframe.extract(folder / "exams.csv", folder / "exams.cache", keep_patient_id=True, **RECIPE, progress=False)
    np.testing.assert_array_equal(again.features(3), cache.features(3))


def test_a_frame_that_cannot_be_read_is_in_the_failures(tmp_path):
    manifest = coldframe.make_exams(tmp_path, exams=2, frames=3, size=64)
    (tmp_path / "frames/E0001/01.jpg").write_bytes(b"no image")
    cache = coldframe.extract(manifest, tmp_path / "x.h5", **RECIPE, progress=False)
    assert list(cache.failures["exam"]) == ["E0001"] and cache.failures["source"][0].endswith("01.jpg")
    assert list(cache.present("E0001")) == [True, False, True] and np.isnan(cache.features("E0001")[1]).all()


def test_views_and_cuts_are_read(tmp_path):
    manifest = coldframe.make_exams(tmp_path, exams=1, frames=2, size=64)
    cache = coldframe.extract(manifest, tmp_path / "x.h5", views=1, augment="flip=1", cut=10, **RECIPE, progress=False)
    assert cache.views == ["clean", "view1"]
    assert np.abs(cache.features(0) - cache.features(0, "view1")).max() > 0.001
    assert cache.cut(0).shape == (2, 5, 192) and cache.cut(0, "view1").dtype == np.float16


def test_a_run_is_tables(study):
    folder, cache, run, _ = study
    assert set(run.predictions["exam"]) == set(cache.exams["exam"]) and len(run.predictions) == 20
    np.testing.assert_allclose(run.predictions["p_0"] + run.predictions["p_1"], 1, atol=1e-9)
    assert set(run.folds["part"]) == {"train", "validation", "test"} and set(run.folds["fold"]) == {0, 1}
    assert set(run.epochs["model"]) >= {"auto"} and run.epochs["epoch"].max() == 1
    assert list(run.control("mean").columns) == list(run.predictions.columns)
    assert run.config["target"] == "label" and run.report.is_file()
    metrics = run.metrics.set_index(["model", "metric"])
    told = run.summary["models"][0]["metrics"]["auroc"]
    assert metrics.loc[("auto", "auroc"), "value"] == told[told["primary"]]["value"]
    assert metrics.loc[("auto", "brier"), "pooled"] == run.summary["models"][0]["metrics"]["brier"]["pooled"]["value"]
    assert set(run.metrics["model"]) == {"auto", "mean", "shuffled"} and set(run.metrics["target"]) == {"label"}


def test_the_page_s_batches_go_through_a_model(study):
    """Of common/python/README.md."""
    _, cache, run, bundle = study
    page = Path(coldframe.__file__).parents[1] / "README.md"
    block = page.read_text().split("## Models in PyTorch")[1].split("```python\n")[1].split("```")[0]
    names = {"coldframe": coldframe, "run": run, "cache": cache}
    exec(block, names)
    assert names["probabilities"].shape == (4, 2) and names["logits"].requires_grad


def test_a_bundle_s_models_are_its_run_s(study):
    _, _, run, bundle = study
    for control in (None, "mean"):
        theirs, found = run.models(control), bundle.models(control)
        assert [model.card["fold"] for model in found] == [0, 1]
        for a, b in zip(theirs, found, strict=True):
            assert all(torch.equal(tensor, b.state_dict()[name]) for name, tensor in a.state_dict().items())
    with pytest.raises(FileNotFoundError, match="no model at .*controls/clock; expected"):
        bundle.models("clock")


def test_several_targets_have_metrics_each(study, tmp_path):
    _, cache, _, _ = study
    labels = cache.exams[["exam", "label"]].assign(age=np.linspace(40, 80, 20).round(1))
    labels.to_csv(tmp_path / "labels.csv", index=False)
    run = coldframe.train(cache, tmp_path / "run", target="label,age", labels=tmp_path / "labels.csv", folds=2, epochs=1, bootstrap=20,
                          progress=False)
    assert set(run.metrics["target"]) == {"label", "age"}
    assert not run.metrics.query("target == 'age' and metric == 'mae'").empty


def test_evaluate_gives_a_run(study, tmp_path):
    folder, cache, run, bundle = study
    by_run = coldframe.evaluate(run, tmp_path / "a", cache=cache, target="label", progress=False)
    by_bundle = coldframe.evaluate(bundle, tmp_path / "b", input=folder / "exams.csv", target="label", keep_patient_id=True,
                                   device="cpu", precision="fp32", progress=False)
    pd.testing.assert_frame_equal(by_run.predictions, by_bundle.predictions, atol=1e-6)
    assert by_run.metrics.query("model == 'gru' and metric == 'auroc'")["value"].between(0, 1).all()


def test_a_bundle_predicts_paths(study):
    folder, cache, _, bundle = study
    options = {"device": "cpu", "precision": "fp32", "progress": False}
    images = [folder / "frames/E0000" / f"{frame:02}.jpg" for frame in range(3)]
    by_name = bundle.predict({"0012": images, "=odd": images[0]}, **options)
    assert list(by_name["exam"]) == ["0012", "=odd"] and by_name["p_1"].between(0, 1).all()
    pd.testing.assert_series_equal(bundle.predict(images[:1], **options)["p_1"], by_name["p_1"][1:].reset_index(drop=True))
    whole = bundle.predict(folder / "exams.csv", out=folder / "predicted.csv", **options)
    assert list(whole["exam"]) == list(cache.exams["exam"])
    pd.testing.assert_frame_equal(read_csv(folder / "predicted.csv"), whole)
    with pytest.raises(ValueError, match="several paths have one file name"):
        bundle.predict([folder / "a/x.mp4", folder / "b/x.mp4"])
    assert bundle.facts["targets"][0]["name"] == "label"


def test_features_of_another_program_become_a_cache(tmp_path):
    values = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    columns = pd.DataFrame({"label": ["ill", "well"], "patient": ["P1", "P2"], "age": [61, 47]}, index=["b", "a"])
    cache = coldframe.import_features({"b": values[:2], "a": values[2:]}, tmp_path / "x.h5", describe="made up", columns=columns, store="float32")
    assert list(cache.exams["exam"]) == ["b", "a"] and list(cache.exams["label"]) == ["ill", "well"] and list(cache.exams["age"]) == [61, 47]
    np.testing.assert_array_equal(cache.features("a"), values[2:])
    with pytest.raises(KeyError, match="no row in `columns` for the exam 'c'"):
        coldframe.import_features({"c": values}, tmp_path / "y.h5", describe="made up", columns=columns)
    with pytest.raises(ValueError, match=r"widths are \[3, 4\]"):
        coldframe.import_features({"c": values, "d": values[:, :3]}, tmp_path / "y.h5", describe="made up")


def test_a_text_that_a_spreadsheet_would_compute_stays_as_it_is(tmp_path):
    texts = ["=odd", "'=odd", "''odd", "'odd"]
    notes, dose = ["=odd", "\todd", "\rodd", "o\rdd"], np.array([61.3, 0.1, 2, 3], np.float32)
    cache = coldframe.import_features({text: np.zeros((1, 2)) for text in texts}, tmp_path / "x.h5", describe="made up",
                                      columns=pd.DataFrame({"note": notes, "dose": dose}, index=texts))
    programs.run("cache", "export", tmp_path / "x.npy", cache.path, progress=False)
    exported = read_csv(tmp_path / "x.exams.csv")
    assert list(cache.exams["exam"]) == list(exported["exam"]) == texts
    assert list(cache.exams["note"]) == list(exported["note"]) == notes
    assert list(exported["dose"]) == [61.3, 0.1, 2, 3]


def test_errors_are_exceptions_with_the_programs_message(study, tmp_path):
    folder, cache, _, _ = study
    with pytest.raises(coldframe.UsageError, match="^unknown option '--fold'; did you mean '--folds'\\?$") as caught:
        coldframe.train(cache, tmp_path / "run", target="label", fold=5, progress=False)
    assert caught.value.exit_code == 2
    with pytest.raises(coldframe.JobError, match="nowhere"):
        coldframe.extract(tmp_path / "nowhere.csv", tmp_path / "x.cache", **RECIPE, progress=False)
    with pytest.raises(FileNotFoundError, match="no finished run at"):
        coldframe.Run(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="no bundle at"):
        coldframe.Bundle(tmp_path / "x.bundle")


def test_missing_programs_are_said(monkeypatch, tmp_path):
    monkeypatch.setenv("COLDFRAME_PROGRAMS", str(tmp_path))
    with pytest.raises(coldframe.JobError, match="this package was installed without Coldframe's programs"):
        programs.run("--version")


def test_progress_is_shown_as_it_comes(study, tmp_path, capfd):
    folder, _, _, _ = study
    coldframe.extract(folder / "exams.csv", tmp_path / "x.h5", **RECIPE)
    assert "20 exams" in capfd.readouterr().err


def test_an_interrupt_stops_the_program_in_order(study, tmp_path):
    """Ctrl-C in a notebook: the job ends by itself, and what is there can be continued."""
    folder, cache, _, _ = study
    # Python leaves SIGINT ignored where it is when Python starts, as it is in jobs that a shell starts with &.
    code = ("import signal, sys, coldframe\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "try:\n    coldframe.train(sys.argv[1], sys.argv[2], target='label', epochs=100000, patience=100000)\n"
            "except coldframe.Stopped as stopped:\n    sys.exit(f'stopped: {stopped}')\n")
    python = dict(os.environ, PYTHONPATH=str(Path(coldframe.__file__).parents[1]))
    job = subprocess.Popen([sys.executable, "-c", code, str(cache.path), str(tmp_path / "run")], stderr=subprocess.PIPE, text=True, env=python)
    told = []
    for line in job.stderr:
        told.append(line)
        if "fit" in line or "fold" in line:
            break
    os.kill(job.pid, 2)
    told += job.stderr.readlines()
    assert job.wait() == 1 and "stopped: " in told[-1] and "--resume" in told[-1], told
    with pytest.raises(FileNotFoundError, match="train with resume=True"):
        coldframe.Run(tmp_path / "run")


def test_names_of_the_package_are_there():
    assert all(getattr(coldframe, name) for name in coldframe.__all__)
    with pytest.raises(AttributeError, match="no attribute 'predict'"):
        coldframe.predict
    assert issubclass(coldframe.Stopped, coldframe.ColdframeError)
