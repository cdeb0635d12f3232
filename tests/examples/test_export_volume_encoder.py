"""examples/export_volume_encoder.py: its module gives the features of MONAI's SegResEncoder."""

import export_volume_encoder
import h5py
import nibabel
import numpy as np
import torch
from monai.networks.nets.segresnet_ds import SegResEncoder
from safetensors.torch import save_file
from training_support import coldframe


def test_features_are_monais(tmp_path):
    torch.manual_seed(0)
    reference = SegResEncoder(init_filters=32, blocks_down=(1, 2, 2, 4, 4)).eval()
    save_file(reference.state_dict(), tmp_path / "model.safetensors")
    export_volume_encoder.export(tmp_path / "m.pt", tmp_path / "model.safetensors")
    values = np.random.default_rng(0).integers(-1024, 2048, (32, 40, 32)).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), tmp_path / "a.nii")
    done = coldframe(
        "extract", "--input", tmp_path / "a.nii", "--backbone", tmp_path / "m.pt", "--block", 32, "--window", "512,3072", "--device", "cpu",
         "--precision", "fp32", "--store", "float32", "--out", tmp_path / "x.h5")
    assert done.returncode == 0, done.stderr
    scaled = torch.tensor((values + 1024) / 3072, dtype=torch.float32)
    blocks = torch.stack([scaled[:, start:start + 32] for start in (0, 8)])[:, None]
    with torch.inference_mode():
        expected = reference(blocks)[-1].mean(dim=(2, 3, 4)).numpy()
    with h5py.File(tmp_path / "x.h5") as file:
        found = file["features/clean"][:]
    assert found.shape == (2, 512) and np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
