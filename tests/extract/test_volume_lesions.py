"""A lesion that shows in three dimensions only: of the dots in each slice one stays at its place through eight slices, or none
does. An encoder of volumes finds it, slices do not."""

import csv
import json

import numpy as np
import pytest
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


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """64 volumes, and a run of an encoder of volumes on them."""
    folder, rng = tmp_path_factory.mktemp("study"), np.random.default_rng(4)
    rows = ["exam,path,patient,label"]
    for number in range(64):
        write_nifti(folder / f"e{number}.nii", made_volume(rng, number % 2), affine_of((1, 1, 1)))
        rows.append(f"e{number},e{number}.nii,p{number},{number % 2}")
    (folder / "x.csv").write_text("\n".join(rows) + "\n")
    save(Rods(), folder / "rods.pt")
    extract(folder / "x.csv", folder / "blocks.h5", folder / "rods.pt", "--block", "20,20,16", "--pool", "volume", "--window", "500,1000")
    return folder, auroc(folder / "blocks.h5", folder / "run")


def test_an_encoder_of_volumes_finds_what_slices_do_not_show(study, tmp_path):
    folder, of_volumes = study
    extract(folder / "x.csv", tmp_path / "slices.h5", save(Slices(), tmp_path / "slices.pt"), "--image-size", 20, "--window", "500,1000",
            "--mean", 0, "--std", 1)
    of_slices = auroc(tmp_path / "slices.h5", tmp_path / "run")
    assert of_volumes > 0.95 and of_slices < 0.75, (of_volumes, of_slices)
    assert "embedded each block of a volume once" in (folder / "run/METHODS.md").read_text()


def test_training_warns_of_models_that_read_blocks_in_order(study, tmp_path):
    folder, _ = study
    extract(folder / "x.csv", tmp_path / "x.h5", folder / "rods.pt", "--block", "12,12,12", "--window", "500,1000")
    words = ["--cache", tmp_path / "x.h5", "--target", "label", "--folds", 2, "--epochs", 1, "--bootstrap", 10]
    for model, warns in (("gru", True), ("mean", False)):
        done = coldframe("train", *words, "--model", model, "--out", tmp_path / model)
        assert ("--model mean or --model attention reads them as a set" in done.stderr) == warns


def test_a_bundle_reads_files_as_the_cache_was_made(study, tmp_path):
    folder, _ = study
    coldframe("bundle", "make", folder / "run", "--weights", folder / "rods.pt", "--license", "x", "--out", tmp_path / "x.bundle")
    words = ["--other-patients", "--without-times", "--out"]
    coldframe("predict", "--bundle", tmp_path / "x.bundle", "--input", folder / "x.csv", *words, tmp_path / "files.csv")
    coldframe("predict", "--run", folder / "run", "--cache", folder / "blocks.h5", *words, tmp_path / "cache.csv")
    a, b = (list(csv.DictReader((tmp_path / name).open())) for name in ("files.csv", "cache.csv"))
    assert [row["exam"] for row in a] == [row["exam"] for row in b]
    assert np.allclose([float(row["p_1"]) for row in a], [float(row["p_1"]) for row in b], atol=1e-5)
