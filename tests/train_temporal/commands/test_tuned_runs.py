"""train --tune: the end of the ViT and the temporal model, from a cache's cut."""
import json
import os
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import timm
import torch
from training_support import PROGRAM, coldframe, ramp_cache, succeed
from tuning_support import BLOCKS, CUT, PIXELS, SIDE, cut_cache, extract, tiny_vit, train, tuned, words

from coldframe import Cache
from fitted import predict


def folder_of(run, fold=0):
    return run / "models" / f"fold-{fold}-seed-0"


@pytest.fixture(scope="module")
def frozen(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("frozen") / "run"
    train(cache, out, "--lr", 5e-4)
    return out


@pytest.fixture(scope="module")
def run(cache, weights, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "tuned"
    said = train(cache, out, *tuned(weights), "--lr", 5e-4, "--compare", "frozen,shuffled")
    return out, said.stdout


def test_a_tuned_run_reports_what_tuning_gave(run, frozen):
    out, said = run
    summary = json.loads((out / "summary.json").read_text())
    assert [model["name"] for model in summary["models"]] == ["gru", "frozen", "shuffled"]
    (line,) = [line for line in summary["verdict"] if line.startswith("Tuning the ViT")]
    assert line in said and line[:40] in (out / "report.html").read_text()
    assert "difference" in line and ("keep the frozen one" in line) != ("paid: gru" in line)
    config = json.loads((out / "config.json").read_text())
    assert config["tune"] == {"cut": CUT, "blocks": BLOCKS - CUT, "lora_rank": 0, "learning_rate": 1e-4, "dropout": 0.0,
                              "drop_path": 0.0, "from": ""}
    epochs = pd.read_csv(out / "metrics.csv").query("model == 'gru'")
    assert len(epochs) == 4 and epochs["learning_rate"].iloc[0] == 0  # what it went on from, then the three
    assert 0 < epochs["learning_rate"].max() <= 5e-5  # a tenth of --lr: the model is fitted already
    assert "went on at 0.1 times its learning rate" in (out / "METHODS.md").read_text()
    # The frozen control is what a run without --tune fits.
    assert (out / "predictions-frozen.csv").read_bytes() == (frozen / "predictions.csv").read_bytes()
    assert (out / "predictions-frozen.csv").read_bytes() != (out / "predictions.csv").read_bytes()


def test_a_frozen_run_can_be_gone_on_from(run, cache, weights, frozen, tmp_path):
    train(cache, tmp_path / "b", *tuned(weights), "--lr", 5e-4, "--from", frozen, "--compare", "frozen")
    for name in ("predictions.csv", "predictions-frozen.csv"):
        assert (tmp_path / "b" / name).read_bytes() == (run[0] / name).read_bytes()


def test_a_bundle_computes_the_cut_of_raw_exams(run, exams, weights, cache, tmp_path):
    made = tmp_path / "tuned.bundle"
    succeed("bundle", "make", run[0], "--weights", weights, "--out", made)
    assert json.loads((made / "bundle.json").read_text())["backbone"]["cut"] == CUT
    succeed("predict", "--bundle", made, "--input", exams, "--device", "cpu", "--precision", "fp32", "--out", tmp_path / "raw.csv")
    succeed("predict", "--bundle", made, "--cache", cache, "--out", tmp_path / "cached.csv")
    raw, cached = (pd.read_csv(tmp_path / name).set_index("exam")["p_1"] for name in ("raw.csv", "cached.csv"))
    assert list(raw.index) == list(cached.index)
    assert raw.to_numpy() == pytest.approx(cached.to_numpy(), abs=1e-5)


def test_tuned_backbones_make_caches_with_the_features_of_the_run(run, exams, weights, cache, tmp_path):
    out = run[0]
    options = ["--config", folder_of(out) / "extract.ini", "--weights", folder_of(out), "--store",
               "float32", "--precision", "fp32"]
    own = Cache(extract(exams, tmp_path / "own.cache", *options))
    succeed("predict", "--run", out, "--cache", cache, "--out", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv").set_index("exam")["p_1"]
    for exam in own.exams["exam"]:
        assert predict(out, own.features(exam))["1"] == pytest.approx(predicted[exam], abs=2e-5)
    held_out = pd.read_csv(out / "predictions.csv").set_index("exam")["p_1"]
    assert held_out.to_numpy() == pytest.approx(predicted[held_out.index].to_numpy(), abs=1e-6)
    shared = safetensors.torch.load_file(folder_of(out) / "model-00001-of-00002.safetensors")
    source = safetensors.torch.load_file(weights)
    assert shared and all(torch.equal(tensor, source[name]) for name, tensor in shared.items())
    frozen = Cache(cache)
    changed = max(np.abs(own.features(exam) - frozen.features(exam)).max() for exam in own.exams["exam"])
    epochs = pd.read_csv(out / "metrics.csv").query("model == 'gru'")
    assert (changed > 1e-4) == (epochs["best"].to_numpy().argmax() > 0)


def test_a_config_beside_tuned_weights_of_a_published_model_answers_all(exams, tmp_path):
    random = ["--random-weights", 3, "--architecture", "vit_tiny_patch16_224"]
    cache = extract(exams, tmp_path / "a.cache", *random, *PIXELS, "--cut", 11, "--precision", "fp32")
    train(cache, tmp_path / "run", *tuned("random"), "--epochs", 1, "--folds", 2)
    shards = [folder_of(tmp_path / "run", fold) / "model-00001-of-00002.safetensors" for fold in (0, 1)]
    assert os.path.samefile(*shards)
    own = extract(exams, tmp_path / "own.cache", "--weights", folder_of(tmp_path / "run"), "--precision", "fp32")
    recipes = [Cache(path).recipe["features"] for path in (cache, own)]
    assert recipes[0]["preprocessing"] == recipes[1]["preprocessing"]
    assert recipes[0]["backbone"]["architecture"] == recipes[1]["backbone"]["architecture"]
    assert recipes[0]["backbone"]["pooling"] == recipes[1]["backbone"]["pooling"]


def test_trained_rotations_are_each_folds_own(exams, tmp_path):
    weights = tmp_path / "rope.safetensors"
    torch.manual_seed(1)
    model = timm.create_model("vit_small_patch16_rope_mixed_224", img_size=SIDE, num_classes=0, depth=1)
    safetensors.torch.save_file(model.state_dict(), weights)
    cache = cut_cache(exams, weights, tmp_path / "a.cache", 0)
    train(cache, tmp_path / "run", *tuned(weights), "--folds", 2, "--epochs", 1)
    files = [set(folder_of(tmp_path / "run", fold).glob("*.safetensors")) for fold in (0, 1)]
    assert not any(os.path.samefile(a, b) for a in files[0] for b in files[1])  # all is trained
    for own in files:
        assert any("rope.freqs" in safetensors.torch.load_file(file) for file in own)


def test_predict_evaluate_and_explain_run_the_tuned_vit(run, exams, weights, cache, tmp_path):
    done = coldframe("evaluate", "--run", run[0], "--cache", cache, "--target", "label", "--out", tmp_path / "e")
    assert done.returncode == 0 and "frozen" in done.stdout and "Tuning the ViT" in done.stdout, done.stderr
    done = coldframe("predict", "--run", run[0], "--cache", cache, "--out", tmp_path / "p.csv", "--explain",
                     tmp_path / "x.csv")
    assert done.returncode == 0 and "missed" not in done.stdout, done.stdout + done.stderr
    pixels = cut_cache(exams, weights, tmp_path / "pixels.cache", 0)  # an earlier cut does as well
    succeed("predict", "--run", run[0], "--cache", pixels, "--out", tmp_path / "q.csv")
    a, b = (pd.read_csv(tmp_path / name)["p_1"].to_numpy() for name in ("p.csv", "q.csv"))
    assert a == pytest.approx(b, abs=1e-4)


@pytest.mark.parametrize("more", [
    ["--lora", 2], ["--tune-blocks", 1], ["--tune-dropout", 0.2], ["--tune-drop-path", 0.3], ["--mixup", 0.4], ["--train-frames", 1], ["--amp", "bf16"],
    ["--model", "attention"], ["--model", "single"], ["--micro-batch", 3], ["--memory-budget", "120MiB"],
    ["--early-stopping-metric", "metric"], ["--seeds", 2], ["--jobs", 2, "--folds", 2]])
def test_options_go_with_tuning(cache, weights, tmp_path, more):
    train(cache, tmp_path / "run", *tuned(weights), *more)
    assert len(pd.read_csv(tmp_path / "run" / "predictions.csv")) > 5


def test_views_of_the_cut_are_drawn(exams, weights, tmp_path):
    cache = cut_cache(exams, weights, tmp_path / "views.cache", CUT, "--views", 1)
    done = train(cache, tmp_path / "all", *tuned(weights))
    assert "draws one of 2 views" in done.stderr
    train(cache, tmp_path / "clean", *tuned(weights), "--views", "clean")
    both = [pd.read_csv(tmp_path / name / "metrics.csv")["train_loss"].to_numpy() for name in ("all", "clean")]
    assert np.abs(both[0] - both[1]).max() > 1e-3


def test_a_target_per_frame_is_tuned(exams, weights, tmp_path):
    manifest = pd.read_csv(exams)
    manifest["label"] = manifest.groupby("exam").cumcount()
    manifest["path"] = [str(exams.parent / path) for path in manifest["path"]]
    manifest.to_csv(tmp_path / "frames.csv", index=False)
    frames = cut_cache(tmp_path / "frames.csv", weights, tmp_path / "frames.cache", CUT, "--frame-columns", "label")
    done = train(frames, tmp_path / "run", *tuned(weights), "--epochs", 2, "--json")
    held_out = pd.read_csv(tmp_path / "run" / "predictions.csv")
    assert set(held_out["frame"]) == {0, 1}
    assert json.loads(done.stdout)["folds"][0]["test"]["exams"] == held_out["exam"].nunique()
    succeed("predict", "--run", tmp_path / "run", "--cache", frames, "--out", tmp_path / "predicted.csv")
    both = held_out.merge(pd.read_csv(tmp_path / "predicted.csv"), on=["exam", "frame"], suffixes=("", "_again"))
    assert len(both) == len(held_out)
    np.testing.assert_allclose(both["p_1"], both["p_1_again"], atol=1e-6)


def test_a_benchmark_measures_steps_of_the_tuned_vit(cache, weights, tmp_path):
    done = succeed(*words(cache, tmp_path / "run", *tuned(weights), "--benchmark", "--json"))
    assert not (tmp_path / "run").exists()
    found = json.loads(done.stdout)
    assert found["fits"] == 2  # the head on cached features, then both
    assert found["step_seconds"] > 0
    assert 0.9 < found["run_predicted_bytes"] / found["fit_measured_bytes"] < 1.2


def refused(*command):
    done = coldframe(*command)
    assert done.returncode in (2, 3) and done.stderr.count("error: ") == 1, done.stderr
    return done.stderr


def test_what_does_not_fit_is_refused_before_anything_is_fitted(cache, weights, frozen, exams, tmp_path):
    uncut = extract(exams, tmp_path / "uncut.cache", "--weights", weights, *PIXELS)
    other = tmp_path / "other.safetensors"
    tiny_vit(other, seed=2)
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(weights.read_bytes()[:-7])
    ramps = ramp_cache(tmp_path)
    cases = [
        (uncut, tuned(weights), "extract with --cut"),
        (ramps, tuned(weights), "extract with --cut"),
        (cache, tuned(other), "SHA-256"),
        (cache, tuned(torn), "torn.safetensors"),
        (cache, tuned(tmp_path / "none"), "none"),
        (cache, tuned("random"), "weights"),
        (cache, tuned(weights, "--tune-blocks", 3), "extract with --cut 1"),
        (cache, tuned(weights, "--tune-blocks", 9), "at most 2"),
        (cache, tuned(weights, "--tune-blocks", -1), "0 to 1000"),
        (cache, tuned(weights, "--lora", -1), "--lora"),
        (cache, ["--tune", weights, "--tune-lr", 0], "--tune-lr"),
        (cache, tuned(weights, "--tune-dropout", 1), "--tune-dropout"),
        (cache, tuned(weights, "--search", 3), "--search"),
        (cache, tuned(weights, "--model", "clock"), "clock"),
        (cache, tuned(weights, "--from", tmp_path), "not a finished run"),
        (cache, tuned(weights, "--from", frozen, "--seed", 5), "--splits"),
        (cache, tuned(weights, "--from", frozen, "--hidden", 8), "hidden"),
        (cache, tuned(weights, "--from", frozen, "--seeds", 2), "fold-0-seed-1"),
        (cache, tuned(weights, "--memory-budget", "2MiB"), "--memory-budget"),
        (cache, ["--lora", 4], "--tune WEIGHTS"),
        (cache, ["--from", frozen], "--tune WEIGHTS"),
        (cache, ["--compare", "frozen"], "--tune"),
    ]
    for number, (at, more, says) in enumerate(cases):
        message = refused(*words(at, tmp_path / f"run{number}", *more))
        assert says in message, (more, message)
        assert "fits" not in message and not (tmp_path / f"run{number}").exists()


def test_a_cache_without_the_cut_is_refused(run, exams, weights, tmp_path):
    uncut = extract(exams, tmp_path / "uncut.cache", "--weights", weights, *PIXELS)
    late = cut_cache(exams, weights, tmp_path / "late.cache", 3)
    for cache, says in [(uncut, "has no cut"), (late, "is cut at block 3")]:
        for command in (["predict", "--out", tmp_path / "p.csv"], ["evaluate", "--target", "label"]):
            message = refused(command[0], "--run", run[0], "--cache", cache, *command[1:])
            assert says in message and "extract these exams with --cut 2" in message


def test_a_tuned_backbone_that_is_not_the_models_is_refused(run, cache, tmp_path):
    shutil.copytree(run[0], tmp_path / "run")
    shard = folder_of(tmp_path / "run") / "model-00002-of-00002.safetensors"
    damaged = bytearray(shard.read_bytes())
    damaged[-5] ^= 1
    shard.write_bytes(damaged)
    message = refused("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "p.csv")
    assert "SHA-256" in message
    shutil.rmtree(folder_of(tmp_path / "run"))
    refused("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "p.csv")


def test_parts_of_other_threads_make_one_tuned_run(cache, weights, tmp_path):
    def command(threads, *more):
        return words(cache, tmp_path / "two", *tuned(weights), "--threads", threads, *more)

    commands = [[PROGRAM, *command(part + 1, "--part", f"{part}/2")] for part in range(2)]
    processes = [subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    succeed(*command(1, "--resume"))
    threads = json.loads((tmp_path / "two" / "config.json").read_text())["threads_per_fit"]  # of the one that began
    train(cache, tmp_path / "one", *tuned(weights), "--threads", threads)
    assert (tmp_path / "two" / "metrics.csv").read_bytes() == (tmp_path / "one" / "metrics.csv").read_bytes()


def test_a_run_goes_on_at_the_rate_that_it_began_with(cache, weights, tmp_path):
    run = words(cache, tmp_path / "run", *tuned(weights), "--folds", 2, "--lr", 5e-4)
    succeed(*run, "--part", "0/2")  # the first fold
    config, = tmp_path.glob("run*/config.json")
    begun = json.loads(config.read_text())
    assert begun.pop("tuned_model_rate") == 0.1
    config.write_text(json.dumps(begun))  # as runs from before had it, which went on at the whole rate
    succeed(*run, "--resume")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["tuned_model_rate"] == 1
    assert "went on at 1 times its learning rate" in (tmp_path / "run" / "METHODS.md").read_text()
    rates = pd.read_csv(tmp_path / "run" / "metrics.csv").query("model == 'gru'").groupby("fold")["learning_rate"].max()
    assert 10 * rates[0] == pytest.approx(rates[1])


def test_stored_costs_of_other_steps_are_measured_again(cache, weights, tmp_path):
    run = words(cache, tmp_path / "run", *tuned(weights), "--epochs", 1)
    succeed(*run, "--part", "0/2")
    config, = tmp_path.glob("run*/config.json")
    begun = json.loads(config.read_text())
    costs = begun["vit_costs"]
    costs["kinds"] = ["block, 7 trained" for _ in costs["kinds"]]
    costs["steps"] = {"block, 7 trained": costs["steps"].popitem()[1]}
    config.write_text(json.dumps(begun))
    assert "measured again" in succeed(*run, "--resume").stderr
    assert "measured again" not in succeed(*run, "--overwrite").stderr


def test_cox_s_loss_of_a_tuned_batch_is_the_same_in_pieces(cache, weights, tmp_path):
    losses = []
    for name, more in [("whole", []), ("pieces", ["--micro-batch", 3])]:
        command = words(cache, tmp_path / name, *tuned(weights), "--lr", 5e-4, *more)
        command[command.index("label")] = "label:coin"  # times of 0 and 1
        succeed(*command)
        losses.append(pd.read_csv(tmp_path / name / "metrics.csv").train_loss)
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert len(losses[0]) > 1 and losses[0].nunique() > 1
