"""examples/mednet: made frames, its settings from the split to a tuned run, and the GRU of it as MedNet has one."""

import json
import os
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors import safe_open

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "mednet"
COLDFRAME = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build")) / "bin" / "coldframe"
BACKBONE = ["--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--image-size", 32, "--store", "float32",
            "--precision", "fp32", "--device", "cpu"]


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A split of MedNet's form whose exams have 3 to 14 frames, its frames, and a cache."""
    folder = tmp_path_factory.mktemp("mednet")
    random, split = np.random.default_rng(0), {}
    for p, (part, count) in enumerate({"train": 20, "validation": 10, "test": 10}.items()):
        split[part] = [{"exam": f"Train/{100 * p + e}_L", "label": e % 5,
                        "frames": [{"file": f"{t}.jpg", "elapsed_seconds": float(s)}
                                   for t, s in enumerate(np.sort(random.integers(5, 1200, 3 + e % 12)))]} for e in range(count)]
    (folder / "split.json").write_text(json.dumps(split))
    run(sys.executable, EXAMPLE / "make_frames.py", folder / "split.json", folder / "frames", "--side", 48)
    run(COLDFRAME, "extract", "--config", EXAMPLE / "vitgru.ini", "--input", folder / "split.json", "--root", folder / "frames",
        "--sort", "time", "--cut", 10, "--out", folder / "fa.h5", *BACKBONE)
    return folder


def train(made, out, *words):
    run(COLDFRAME, "train", "--config", EXAMPLE / "vitgru.ini", "--cache", made / "fa.h5", "--target", "label", "--out", out,
        "--epochs", 2, "--bootstrap", 10, *words)
    return pd.read_csv(out / "predictions.csv").set_index("exam").filter(like="p_")


def test_frames_are_drawn_as_the_split_names_them(made, tmp_path):
    frame = Image.open(made / "frames" / "Train" / "3_L" / "0.jpg")
    assert frame.mode == "L" and frame.size == (96, 98)
    split = json.loads((made / "frames" / "split.json").read_text())
    assert split == json.loads((made / "split.json").read_text())
    run(sys.executable, EXAMPLE / "make_frames.py", made / "split.json", tmp_path, "--side", 48, "--exams", 4, "--frames", 3,
        "--classes", 2)
    split = json.loads((tmp_path / "split.json").read_text())
    assert [exam["label"] for exam in split["train"]] == [0, 1, 0, 1] and len(split["test"]) == 2
    assert max(len(exam["frames"]) for part in split.values() for exam in part) == 3
    again = tmp_path / "Train" / "1_L" / "0.jpg"
    assert again.read_bytes() == (made / "frames" / "Train" / "1_L" / "0.jpg").read_bytes()


def test_the_trained_gru_is_mednets_with_its_inputs_folded(made, tmp_path):
    """ViTGRU of MedNet: torch.nn.GRU on the features as they are, the last state, a linear layer."""
    ours = train(made, tmp_path / "run")
    (path,) = (tmp_path / "run" / "models").glob("*.safetensors")
    with safe_open(path, "pt") as file:
        temperature = json.loads(file.metadata()["card"])["targets"][0]["temperature"]
        w = {name: file.get_tensor(name) for name in file.keys()}
    project = w["project.weight"] / w["feature_std"]
    gru, head = torch.nn.GRU(project.shape[1], 256, batch_first=True), torch.nn.Linear(256, 5)
    gru.load_state_dict({"weight_ih_l0": w["gru.weight_ih_l0"] @ project, "weight_hh_l0": w["gru.weight_hh_l0"],
                         "bias_hh_l0": w["gru.bias_hh_l0"],
                         "bias_ih_l0": w["gru.bias_ih_l0"] + w["gru.weight_ih_l0"] @ (w["project.bias"] - project @ w["feature_mean"])})
    head.load_state_dict({"weight": w["head.weight"], "bias": w["head.bias"]})
    compared = 0
    with h5py.File(made / "fa.h5") as h5:
        offset = h5["exams/offset"][:]
        for number, name in enumerate(h5["exams/id"][:]):
            if name.decode() not in ours.index:
                continue
            frames = torch.from_numpy(h5["features/clean"][offset[number]:offset[number + 1]])
            assert len(frames) <= 12
            with torch.no_grad():
                theirs = (head(gru(frames[None])[1][0]) / temperature).softmax(1)[0]
            np.testing.assert_allclose(ours.loc[name.decode()], theirs, rtol=0, atol=1e-5)
            compared += 1
    assert compared == len(ours) == 10


def test_the_last_blocks_are_trained_with_drop_path(made, tmp_path):
    words = ["--tune", "random", "--tune-blocks", 2, "--tune-lr", 9.68e-6]
    losses = []
    for name, more in {"without": [], "dropped": ["--tune-drop-path", 0.5]}.items():
        assert len(train(made, tmp_path / name, *words, *more)) == 10
        metrics = pd.read_csv(tmp_path / name / "metrics.csv")
        losses.append(metrics[metrics.model == "gru"].train_loss.to_numpy())
    assert len(losses[0]) == 3 and (abs(losses[0] - losses[1])[1:] > 1e-3).all(), losses  # the first: before any step
