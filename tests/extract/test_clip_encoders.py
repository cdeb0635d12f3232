"""`coldframe extract` with folders and files of ViTs of clips, as a user runs it: its rows hold what transformers gives for
the windows' own pixels."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import coldframe as package
import loaded_program

sys.path.insert(0, str(Path(__file__).parent / "vit"))
import clip_models  # noqa: E402

SIDE, FRAMES = 48, 8  # of clip_models' small models
MEAN, STD = [0.45, 0.4, 0.5], [0.25, 0.2, 0.3]


def coldframe(*arguments, expect=0):
    done = loaded_program.coldframe(*map(str, arguments))
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two exams of 20 and 9 frames in the encoder's size, and folders of two families."""
    folder = tmp_path_factory.mktemp("study")
    rng, rows, pixels = np.random.default_rng(5), ["exam,path,time,patient"], {}
    for exam, count in {"a": 20, "b": 9}.items():
        pixels[exam] = rng.integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)
        for number, frame in enumerate(pixels[exam]):
            Image.fromarray(frame).save(folder / f"{exam}{number}.png")
            rows.append(f"{exam},{exam}{number}.png,{0.1 * number:.1f},p{exam}")
    (folder / "exams.csv").write_text("\n".join(rows) + "\n")
    models = {"videomae": clip_models.videomae("Model"), "vjepa2": clip_models.vjepa2()}
    for name, model in models.items():
        model.save_pretrained(folder / name)
        (folder / name / "preprocessor_config.json").write_text(json.dumps({
            "do_resize": True, "size": {"shortest_edge": SIDE}, "do_center_crop": True, "crop_size": {"height": SIDE, "width": SIDE},
            "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": MEAN, "image_std": STD}))
    return folder, pixels, models


def clip_of(pixels, begin, every):
    frames = pixels[begin:begin + FRAMES * every:every]
    frames = np.concatenate([frames, np.repeat(frames[-1:], FRAMES - len(frames), 0)])  # --clip-pad repeat-last
    normalised = (frames / 255 - MEAN) / STD
    return torch.tensor(normalised, dtype=torch.float32).permute(0, 3, 1, 2)[None]


@pytest.mark.parametrize("name", ["videomae", "vjepa2"])
@pytest.mark.parametrize("pool", ["mean", "time"])
@pytest.mark.parametrize("precision", ["fp32", "auto", "bf16"])
def test_rows_are_what_transformers_gives_for_their_windows(study, tmp_path, name, pool, precision):
    folder, pixels, models = study
    # V-JEPA's folders enlarge before they crop; frames of the encoder's own size stay as they are with --crop-pct 1.
    words = ["extract", "--input", folder / "exams.csv", "--weights", folder / name, "--clip-every", 2, "--pool", pool, "--precision", precision,
             "--crop-pct", 1, "--device", "cpu", "--store", "float32", "--json"]
    told = json.loads(coldframe(*words, "--out", tmp_path / "x.cache").stdout)
    assert told["clip_frames"] == FRAMES
    # Of 20 frames one whole window of 8 × 2 fits, of 9 none: one padded from its fifth frame on.
    cache = package.open(tmp_path / "x.cache")
    steps = FRAMES // 2 if pool == "time" else 1
    for exam, seen in {"a": FRAMES, "b": 5}.items():
        expected = clip_models.transformers_features(models[name], clip_of(pixels[exam], 0, 2))[pool].reshape(steps, -1).numpy()
        found = np.asarray(cache.features(exam))
        kept = -(-seen // 2) if pool == "time" else 1  # steps of padding alone are no rows
        assert found.shape == (kept, 64)
        cosine = np.sum(found * expected[:kept], 1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected[:kept], axis=1)
        assert cosine.min() > (0.9999 if precision != "fp32" else 1 - 1e-6)
    again = json.loads(coldframe(*words, "--out", tmp_path / "x.cache").stdout)
    assert again["unchanged"] == 2  # the same command goes on with the same recipe


def test_a_dry_run_knows_the_windows_of_a_folder(study):
    folder = study[0]
    told = coldframe("extract", "--input", folder / "exams.csv", "--weights", folder / "videomae", "--clip-every", 2, "--dry-run").stdout
    assert f"of {FRAMES} frames" in told


def test_what_is_missing_is_asked_for(study, tmp_path):
    folder, _, models = study
    words = ["extract", "--input", folder / "exams.csv", "--out", tmp_path / "x.cache", "--device", "cpu"]
    assert "give --clip-every N" in coldframe(*words, "--weights", folder / "videomae", expect=2).stderr
    assert "clips of 7 frames (of --clip, or else of the config) do not go with" in coldframe(*words, "--weights", folder / "vjepa2", "--clip-every", 1, "--clip", 7, expect=2).stderr
    assert "--clip-axes is for a compiled module" in coldframe(
        *words, "--weights", folder / "vjepa2", "--clip-every", 1, "--clip-axes", "bcthw", expect=2).stderr
    config = json.loads((folder / "videomae/config.json").read_text())
    for frames, code, said in [(0, 3, "'num_frames' is 0, expected 1 to 4096"), (15, 2, "clips of 15 frames (of --clip, or else of the config) do not go with")]:
        (tmp_path / str(frames)).mkdir()
        for path in (folder / "videomae").iterdir():
            (tmp_path / str(frames) / path.name).write_bytes(path.read_bytes())
        (tmp_path / str(frames) / "config.json").write_text(json.dumps({**config, "num_frames": frames}))
        assert said in coldframe(*words, "--weights", tmp_path / str(frames), "--clip-every", 1, expect=code).stderr


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_file_that_states_no_length_asks_for_it(tmp_path, study, precision):
    """The tensors of the authors' V-JEPA 2 fit clips of any length."""
    folder = study[0]
    model = clip_models.authors("vjepa2", width=384, heads=6, depth=1)
    torch.save({"target_encoder": {f"module.backbone.{name}": tensor for name, tensor in model.state_dict().items()}}, tmp_path / "vjepa2.pt")
    done = coldframe("extract", "--input", folder / "exams.csv", "--out", tmp_path / "x.cache", "--weights", tmp_path / "vjepa2.pt", "--mean", 0.5, "--std", 0.5,
                     "--image-size", SIDE, "--pool", "mean", "--clip-every", 1, "--precision", precision, "--device", "cpu", expect=2)
    assert "the weights take clips" in done.stderr and "give --clip N" in done.stderr
