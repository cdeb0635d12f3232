"""ONNX files that our encoder writes, checked by onnx and computed by ONNX Runtime: equal to our models, whole and frame
by frame."""
import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from training_support import BUILD, REPO, exam, loaded, make_cache, quick, succeed

import fitted
from coldframe.models import TemporalModel, time_inputs

sys.path.append(str(REPO / "tests" / "extract" / "vit"))
import vit_features

WIDTH = 12

MODELS = {
    "gru": [],
    "gru-mean-time": ["--temporal-pool", "mean", "--time", "on"],
    "gru-last-deep": ["--temporal-pool", "last", "--layers", 2],
    "gru-time2vec": ["--time", "on", "--time-encoding", "time2vec"],
    "gru-elapsed": ["--layers", 2],
    "lstm-time": ["--model", "lstm", "--time", "on", "--layers", 2],
    "tcn": ["--model", "tcn"],
    "tcn-last-time": ["--model", "tcn", "--time", "on", "--temporal-pool", "last", "--layers", 2],
    "transformer": ["--model", "transformer", "--time", "off", "--hidden", 32],
    "transformer-mean-time": ["--model", "transformer", "--time", "on", "--temporal-pool", "mean"],
    "attention": ["--model", "attention"],
    "mean": ["--model", "mean"],
    "single-first": ["--model", "single", "--single-frame", "first"],
    "single-last": ["--model", "single", "--single-frame", "last"],
    "streams": ["--streams", "stream", "--time", "on"],
    "streams-gated": ["--streams", "stream", "--fusion", "gated", "--model", "attention"],
    "covariates": ["--covariates", "age,grade:category"],
    "covariates-frames": ["--covariates", "age,grade:category", "--covariates-at", "frames", "--model", "lstm"],
}


def driver(*words):
    return loaded(BUILD / "tests" / "onnx_driver").run(words)


def session(path):
    onnx.checker.check_model(str(path), full_check=True)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def time_rows(seconds, start=None):
    """What the graphs are told of times, [T, 2 V]: the values, then whether each is known."""
    since = None if start is None else torch.tensor([start])
    return torch.cat(time_inputs(torch.as_tensor(seconds)[None], since, 2 if start is None else 3), -1)[0].float().numpy()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return made(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def elapsed_cache(tmp_path_factory):
    """The same, of exams that start at different times after one zero."""
    return made(tmp_path_factory.mktemp("elapsed"), 7.0)


def made(folder, apart=None):
    random = np.random.default_rng(0)
    exams, features = [], []
    for number in range(24):
        values = random.normal(size=(9 + number % 3, WIDTH))
        entry = exam(number, len(values), str(number % 2))
        entry["frame_columns"] = {"stream": ["AB"[t % 3 > 1] for t in range(len(values))]}
        entry["time_s"] = list(np.cumsum(random.uniform(0.05, 2, len(values))))
        entry["columns"].update({"grade": str(number % 3), "age": f"{40 + number / 7:.3f}", "v1": str(number % 2),
                                 "/value_1": str(number % 2), "time": str(number % 2),
                                 "days": str(number % 7 + 1), "died": str(number % 4 // 2)})
        if apart:
            entry["elapsed_start"] = apart * number
        exams.append(entry)
        features.append(values)
    recipe = {"backbone": {"kind": "random", "generator": "splitmix64-irwin-hall-1", "seed": 0, "pooling": "cls",
                           "architecture": {"patch": 8, "width": WIDTH, "depth": 1, "heads": 2, "mlp_hidden": 24,
                                            "class_token": True, "registers": 0, "layer_scale": False, "qkv_bias": True,
                                            "position_grid": 2, "prefix_positions": True, "norm": "norm"}},
              "preprocessing": {"image_size": 16, "resampler": "pillow", "mean": [0.5] * 3, "std": [0.5] * 3}}
    return make_cache(folder, exams, features, recipe=recipe)


def trained(cache, folder, *words, target="label"):
    succeed("train", "--cache", cache, "--target", target, "--out", folder / "run",
            *quick("--folds", 2, "--epochs", 2, *words))
    return folder / "run"


def run_in(model, features, times, state, covariates=None):
    """Outputs by name for some frames of one sequence, and the next state."""
    wanted = {entry.name: entry for entry in model.get_inputs()}
    feed = {"features": features[None]}
    assert ("covariates" in wanted) == (covariates is not None)
    if covariates is not None:
        feed["covariates"] = covariates
    if "time" in wanted:
        feed["time"] = times[None]
    for name, entry in wanted.items():
        if name not in feed:
            feed[name] = state.get(name, np.zeros((1, entry.shape[1]), np.float32))
    names = [entry.name for entry in model.get_outputs()]
    found = dict(zip(names, model.run(None, feed)))
    return found, {name[5:]: value for name, value in found.items() if name.startswith("next_")}


@pytest.mark.parametrize("name", MODELS)
def test_temporal_models_are_equal_whole_and_frame_by_frame(cache, elapsed_cache, tmp_path, name):
    run = trained(elapsed_cache if "elapsed" in name else cache, tmp_path, *MODELS[name])
    done = driver("run", run, tmp_path / "onnx")
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (tmp_path / "onnx").iterdir()} == {"fold-0-seed-0.onnx", "fold-1-seed-0.onnx", "vit.onnx"}
    random = np.random.default_rng(1)
    features = random.normal(size=(7, WIDTH)).astype(np.float32)
    if "--streams" in MODELS[name]:
        there = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [0, 1], [1, 0], [1, 1]])
        features = np.concatenate([np.where(there[:, s:s + 1], features + s, np.nan) for s in range(2)] + [there], 1).astype(np.float32)
    seconds = np.cumsum(random.uniform(0.05, 2, 7))
    seconds, start = seconds - seconds[0], seconds[0] if "elapsed" in name else None
    times = time_rows(seconds, start)
    for path in sorted((tmp_path / "onnx").glob("fold-*.onnx")):
        ours = TemporalModel.load(run / "models" / f"{path.stem}.safetensors")
        model, state = session(path), {}
        known = {"age": 41.5, "grade": 2}
        beside = ours.encode_covariates([known]).numpy() if "covariates" in ours.card else None
        for t in range(7):  # each prefix: as the module that predict equals has it, whole, and from the carried state
            expected = fitted.outputs_of(ours, features[:t + 1], seconds[:t + 1], known, start)[None]
            readings = ours.predictions(expected)["label"].numpy()
            whole, _ = run_in(model, features[:t + 1], times[:t + 1], {}, beside)
            step, state = run_in(model, features[t:t + 1], times[t:t + 1], state, beside)
            for found in (whole,) if name.startswith("transformer") else (whole, step):
                np.testing.assert_allclose(found["outputs"], expected.numpy(), rtol=0, atol=1e-6)
                np.testing.assert_allclose(found["label"], readings, rtol=0, atol=1e-6)


@pytest.mark.parametrize("covariates", [[], ["--covariates", "age,grade:category"]])
def test_summaries_are_equal(cache, tmp_path, covariates):
    """Of all families that a graph can have."""
    run = trained(cache, tmp_path, "--model", "summary", *covariates)
    ours, known = fitted.models_of(run)[0], {"age": 41.5, "grade": 2}
    beside = ours.encode_covariates([known]).numpy() if covariates else None
    random = np.random.default_rng(3)
    features = random.normal(size=(7, WIDTH)).astype(np.float32)
    seconds = np.cumsum(random.uniform(0.05, 2, 7))
    seconds[4] = np.nan
    seconds -= seconds[0]
    for family, per_second in [*((family, 0) for family in range(8)), (7, 1)]:
        out = tmp_path / f"onnx-{family}-{per_second}"
        done = driver("family", run, out, family, per_second)
        assert done.returncode == 0, done.stderr
        ours.family[:], ours.per_second[:] = family, per_second
        model = session(out / "fold-0-seed-0.onnx")
        assert ("time" in {entry.name for entry in model.get_inputs()}) == bool(per_second)
        for frames in (1, 7):
            expected = fitted.outputs_of(ours, features[:frames], seconds[:frames], known)[None]
            found, _ = run_in(model, features[:frames], time_rows(seconds[:frames]), {}, beside)
            np.testing.assert_allclose(found["outputs"], expected.numpy(), rtol=1e-5, atol=1e-5)
            readings = ours.predictions(expected)["label"].numpy()
            np.testing.assert_allclose(found["label"], readings, rtol=0, atol=1e-5)


@pytest.mark.parametrize("survival", ["cox", "hazards"])
def test_targets_of_every_task_are_read(cache, tmp_path, survival):
    run = trained(cache, tmp_path, "--time", "off", target=f"label,grade:ordinal,age:regression,days:died:{survival}")
    assert driver("run", run, tmp_path / "onnx").returncode == 0
    features = np.random.default_rng(2).normal(size=(5, WIDTH)).astype(np.float32)
    path = tmp_path / "onnx" / "fold-0-seed-0.onnx"
    found, _ = run_in(session(path), features, None, {})
    model = fitted.models_of(run)[0]
    for name, expected in model.predictions(fitted.outputs_of(model, features)[None]).items():
        np.testing.assert_allclose(found[name], expected.numpy().reshape(1, -1), rtol=1e-6, atol=1e-6)
    facts = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert [target["name"] for target in json.loads(facts["targets"])] == ["label", "grade", "age", "days"]


def test_targets_have_names_of_their_own(cache, tmp_path):
    run = trained(cache, tmp_path, target="v1")
    assert driver("run", run, tmp_path / "onnx").returncode == 0
    model = session(tmp_path / "onnx" / "fold-0-seed-0.onnx")
    assert "v1" in [output.name for output in model.get_outputs()]
    for name in ["/value_1", "time"]:
        folder = tmp_path / name.strip("/")
        folder.mkdir()
        done = driver("run", trained(cache, folder, "--time", "on", target=name), folder / "onnx")
        assert done.returncode == 2 and f"'{name}'" in done.stderr and "--target" in done.stderr


@pytest.mark.parametrize("words, why", [(["--model", "bigru"], "bigru"), (["--model", "clock"], "clock"),
                                        (["--time", "on", "--time-encoding", "decay"], "decay"),
                                        (["--covariates", "age", "--model", "covariates"], "covariates")])
def test_what_cannot_be_carried_is_refused_by_name(cache, tmp_path, words, why):
    done = driver("run", trained(cache, tmp_path, *words), tmp_path / "onnx")
    assert done.returncode == 2 and why in done.stderr
    assert not (tmp_path / "onnx").exists()


VITS = [("vit_tiny_patch16_224", "cls", 48), ("vit_small_patch14_dinov2", "cls+mean", 56),
        ("vit_small_patch14_reg4_dinov2", "register-mean", 56), ("eva02_tiny_patch14_224", "mean", 56),
        ("deit_tiny_distilled_patch16_224", "prefix-mean", 48), ("vit_small_patch16_dinov3", "cls", 48),
        ("vit_base_patch16_siglip_224", "map", 48), ("vit_small_patch16_18x2_224", "cls", 48),
        ("vit_pwee_patch16_reg1_gap_256", "mean", 48), ("vit_base_patch16_rpn_224", "mean", 48),
        ("vit_dwee_patch16_reg1_gap_256", "mean", 48)]


@pytest.mark.parametrize("name, pool, size", VITS)
def test_vits_are_equal(tmp_path, name, pool, size):
    path = tmp_path / "vit.onnx"
    done = driver("vit", name, pool, size, 1000 if pool == "cls" else 1 << 30, path)
    assert done.returncode == 0, done.stderr
    assert path.with_name("vit.onnx.data").exists() == (pool == "cls")
    images = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, size, size)).astype(np.float32))
    found = session(path).run(["features"], {"images": images.numpy()})[0]
    expected, _ = vit_features.features("", images, architecture=name, seed=0, pool=pool)
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=1e-4)
