"""A lesion that shows in three dimensions only: of the dots in each slice one stays at its place through eight slices, or none
does. An encoder of volumes finds it, slices do not."""

import json

import numpy as np
import torch

from volumes import affine_of, coldframe, extract, save, write_nifti

SHAPE, DOTS, LENGTH = (20, 20, 16), 6, 8


def made_volume(rng, label):
    values = rng.normal(0, 40, SHAPE)
    places = rng.integers(0, 20, (SHAPE[2], DOTS, 2))
    if label:
        start = rng.integers(0, SHAPE[2] - LENGTH + 1)
        places[start:start + LENGTH, 0] = places[start, 0]
    for k, dots in enumerate(places):
        values[dots[:, 0], dots[:, 1], k] = 1000
    return values.astype(np.int16)


class Rods(torch.nn.Module):
    """What is bright over six voxels along the third axis, and overall."""

    def forward(self, x):
        along = torch.nn.functional.avg_pool3d(x, [1, 1, 6], stride=1)
        return torch.stack([along.amax(dim=(1, 2, 3, 4)), x.mean(dim=(1, 2, 3, 4)), x.amax(dim=(1, 2, 3, 4))], 1)


class Slices(torch.nn.Module):
    """Sums over neighbourhoods of a slice at several scales."""

    def forward(self, x):
        scales = [torch.nn.functional.avg_pool2d(x[:, :1], size, stride=1) for size in (1, 3, 6)]
        return torch.cat([torch.stack([s.mean(dim=(1, 2, 3)), s.std(dim=(1, 2, 3)), s.amax(dim=(1, 2, 3))], 1) for s in scales], 1)


def auroc(cache, run):
    coldframe("train", "--cache", cache, "--target", "label", "--folds", 4, "--model", "mean", "--epochs", 60, "--bootstrap", 10, "--out", run)
    (model,) = json.loads((run / "summary.json").read_text())["models"]
    return model["metrics"]["auroc"]["mean_over_folds"]["value"]


def test_an_encoder_of_volumes_finds_what_slices_do_not_show(tmp_path):
    rng = np.random.default_rng(4)
    rows = ["exam,path,patient,label"]
    for number in range(64):
        write_nifti(tmp_path / f"e{number}.nii", made_volume(rng, number % 2), affine_of((1, 1, 1)))
        rows.append(f"e{number},e{number}.nii,p{number},{number % 2}")
    (tmp_path / "x.csv").write_text("\n".join(rows) + "\n")
    extract(tmp_path / "x.csv", tmp_path / "blocks.h5", save(Rods(), tmp_path / "rods.pt"), "--block", "20,20,16", "--window", "500,1000")
    extract(tmp_path / "x.csv", tmp_path / "slices.h5", save(Slices(), tmp_path / "slices.pt"), "--image-size", 20, "--window", "500,1000",
            "--mean", 0, "--std", 1)
    blocks, slices = auroc(tmp_path / "blocks.h5", tmp_path / "blocks"), auroc(tmp_path / "slices.h5", tmp_path / "slices")
    assert blocks > 0.95 and slices < 0.75, (blocks, slices)
