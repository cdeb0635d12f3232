"""ViTs of volumes (3DINO) against timm's blocks behind a convolution of cubes: the same features."""
import h5py
import nibabel
import numpy as np
import pytest
import torch
from torch import nn

import loaded_program
from vit_features import FP32_DIFFERENCE, HALF_COSINE, Refused, cosine, difference, features
from volume_models import made, volumes_of


def save_teacher(model, path, blocks_of_a_chunk=1):
    """As the authors' training writes it: blocks in chunks, heads beside the backbone."""
    state = {}
    for name, tensor in model.state_dict().items():
        if name.startswith("blocks."):
            name = name.replace("blocks.", f"blocks.{int(name.split('.')[1]) // blocks_of_a_chunk}.", 1)
        state[f"backbone.{name}"] = tensor
    torch.save({"teacher": {**state, "dino_head.last_layer.weight_g": torch.ones(3, 1)}}, path)
    return path


@pytest.mark.parametrize("settings", [{}, {"precision": "bf16"}, {"precision": "fp16"}])
def test_features_are_the_authors(settings, tmp_path):
    model = made()
    volumes = volumes_of(48, 48, 48)
    path = save_teacher(model, tmp_path / "teacher_checkpoint.pth")
    for pool, expected in model.features(volumes).items():
        found, description = features(path, volumes, pool=pool, heads=4, block=48, **settings)
        if settings:
            assert cosine(found, expected) >= HALF_COSINE
        else:
            assert difference(found, expected) <= FP32_DIFFERENCE
    assert description["architecture"]["tubelet"] == description["architecture"]["patch"] == 16


def test_axes_are_not_exchanged(tmp_path):
    """x is first: volumes whose axes lie otherwise give other features."""
    model = made()
    path = save_teacher(model, tmp_path / "teacher.pth")
    volumes = volumes_of(48, 48, 48)
    found, _ = features(path, volumes.permute(0, 1, 4, 3, 2), pool="cls", heads=4, block=48)
    assert difference(found, model.features(volumes)["cls"]) > 30 * FP32_DIFFERENCE


def test_the_published_size_needs_no_name(tmp_path):
    model = made(width=1024, depth=2, heads=16, side=7)
    volumes = volumes_of(112, 112, 112, batch=1)
    path = save_teacher(model, tmp_path / "3dino_vit_weights.pth", blocks_of_a_chunk=2)
    found, description = features(path, volumes, pool="cls", block=112)
    assert difference(found, model.features(volumes)["cls"]) <= FP32_DIFFERENCE
    assert description["architecture"]["heads"] == 16 and description["architecture"]["frames"] == 112


def test_other_sizes_and_positions_are_refused(tmp_path):
    path = save_teacher(made(), tmp_path / "teacher.pth")
    with pytest.raises(Refused, match="blocks of 64×48×48"):
        features(path, volumes_of(64, 48, 48), pool="cls", heads=4, block=64)
    with pytest.raises(Refused, match="takes volumes in blocks; give --block 48"):
        features(path, torch.zeros(1, 48, 3, 48, 48), pool="cls", heads=4, frames=48)
    with pytest.raises(Refused, match="--block: 40 is no multiple of the backbone's patch size 16"):
        features(path, torch.zeros(1, 1, 40, 48, 48), pool="cls", heads=4, block=40)
    model = made()
    model.pos_embed = nn.Parameter(torch.zeros(1, 1 + 20, 64))
    with pytest.raises(Refused, match="pos_embed has 21 rows, expected those of a cube of patches and 1 prefix token"):
        features(save_teacher(model, tmp_path / "wrong.pth"), volumes_of(48, 48, 48), pool="cls", heads=4, block=48)


@pytest.mark.parametrize("precision", ["auto", "bf16", "fp32"])
def test_extract_reads_volumes_with_its_weights(tmp_path, precision):
    """A NIfTI file of several blocks: a row for each, or one of all, of class tokens."""
    model = made()
    path = save_teacher(model, tmp_path / "teacher_checkpoint.pth")
    values = np.random.default_rng(4).integers(-1000, 1000, (80, 48, 48)).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(values, np.diag([2.0, 2.0, 2.0, 1])), tmp_path / "a.nii")
    scaled = torch.from_numpy(np.clip((values + 800.0) / 1600, 0, 1) * 2 - 1).float()
    blocks = torch.stack([scaled[begin:begin + 48][None] for begin in (0, 32)])
    expected = model.features(blocks)
    words = ["--input", tmp_path / "a.nii", "--weights", path, "--heads", 4, "--activation", "gelu", "--block", 48, "--block-overlap", 1 / 3,
             "--window", "0,1600", "--mean", 0.5, "--std", 0.5, "--precision", precision, "--store", "float32", "--device", "cpu"]
    for pool, rows in (("cls", expected["cls"]), ("mean", expected["mean"]), ("volume", expected["cls"].mean(0, keepdim=True))):
        done = loaded_program.coldframe("extract", *words, "--pool", pool, "--out", tmp_path / f"{pool}.h5")
        assert done.returncode == 0, done.stderr
        with h5py.File(tmp_path / f"{pool}.h5") as file:
            found = torch.from_numpy(file["features/clean"][:])
        if precision == "fp32":
            assert difference(found, rows) <= FP32_DIFFERENCE
        else:
            assert cosine(found, rows) >= HALF_COSINE


@pytest.mark.parametrize("words, message", [
    (["--pool", "cls"], "give --block 48 and --window"),
    (["--pool", "cls", "--block", 64, "--window", "0,1600"], "blocks of 64×64×64 voxels do not go with the positions of these weights"),
    (["--pool", "map", "--block", 48, "--window", "0,1600"], "of volumes it is cls, mean or cls+mean"),
    (["--block", 48, "--window", "0,1600"], "--pool must be given"),
])
def test_extract_says_what_weights_of_volumes_need(tmp_path, words, message):
    path = save_teacher(made(), tmp_path / "teacher.pth")
    nibabel.save(nibabel.Nifti1Image(np.zeros((50, 50, 50), np.int16), np.eye(4)), tmp_path / "a.nii")
    done = loaded_program.coldframe("extract", "--input", tmp_path / "a.nii", "--weights", path, "--heads", 4, "--activation", "gelu", "--mean",
                                    0.5, "--std", 0.5, "--device", "cpu", "--out", tmp_path / "x.h5", *words)
    assert done.returncode != 0 and message in done.stderr, done.stderr
    assert not (tmp_path / "x.h5").exists()
