"""examples/export_clip_encoder.py: its module gives the features of torchvision's R(2+1)D."""

import json

import export_clip_encoder
import h5py
import numpy as np
import torch
from training_support import coldframe

MEAN, STD = (0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)


def test_features_are_torchvisions(tmp_path):
    torch.manual_seed(0)
    reference = export_clip_encoder.r2plus1d_18()
    torch.save(reference.state_dict(), tmp_path / "weights.pth")
    model = export_clip_encoder.export(tmp_path / "r2plus1d.pt", tmp_path / "weights.pth")
    video = np.random.default_rng(0).integers(0, 256, (40, 112, 112, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", video)
    done = coldframe(
        "extract", "--input", tmp_path / "a.npy", "--backbone", tmp_path / "r2plus1d.pt", "--clip", 16, "--clip-every", 2, "--clip-step", 8,
         "--image-size", 112, "--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)), "--device", "cpu", "--precision",
         "fp32", "--store", "float32", "--out", tmp_path / "x.h5")
    assert done.returncode == 0, done.stderr
    pixels = (torch.from_numpy(video).permute(3, 0, 1, 2) / 255 - torch.tensor(MEAN)[:, None, None, None]) / torch.tensor(STD)[:, None, None, None]
    clips = torch.stack([pixels[:, start:start + 31:2] for start in (0, 8)])
    with torch.inference_mode():
        expected = model(clips).numpy()
    with h5py.File(tmp_path / "x.h5") as file:
        found = file["features/clean"][:]
        assert json.loads(file.attrs["recipe"])["features"]["backbone"]["axes"] == "bcthw"
    assert found.shape == (2, 512) and np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
