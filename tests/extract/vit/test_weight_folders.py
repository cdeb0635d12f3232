"""Weights as people have them: folders with a config, shards, training checkpoints."""

import json
import subprocess

import pytest
import safetensors.torch
import torch
from PIL import Image

import timm_models
import vit_features
from hub_folders import ARGUMENTS, NAME, SETTINGS, change_config, split_into_shards


def test_shards_with_their_index(folder, images, expected):
    index = split_into_shards(folder)
    for given in (folder, index):
        found, description = vit_features.features(given, images, **SETTINGS)
        assert vit_features.difference(found, expected) <= vit_features.FP32_DIFFERENCE
        assert len(description["sha256"]) == 64


@pytest.mark.parametrize("kind", ["bin", "pth", "ckpt", "half", "bfloat16", "dinov2_training", "fsdp", "open_clip_trunk"])
def test_files_of_every_kind(kind, folder, model, images, expected):
    state = model.state_dict()
    (folder / "model.safetensors").unlink()
    tolerance = vit_features.FP32_DIFFERENCE
    if kind == "ckpt":
        torch.save({"state_dict": {f"model.{key}": value for key, value in state.items()}, "epoch": 3}, folder / "last.ckpt")
    elif kind in ("half", "bfloat16"):
        rounded = {key: value.to(getattr(torch, kind)) for key, value in state.items()}
        model = timm_models.build(NAME, **ARGUMENTS)
        model.load_state_dict(rounded)
        expected = timm_models.expected_features(model, images)["cls"]
        safetensors.torch.save_file(rounded, folder / "model.safetensors")
    elif kind == "dinov2_training":  # teacher and student in one dict, blocks in chunks
        def chunked(key):
            return key.replace("blocks.", "blocks.0.", 1)
        torch.save({"model": {f"{who}.backbone.{chunked(key)}": value * (2 if who == "student" else 1)
                              for who in ("teacher", "student") for key, value in state.items()}}, folder / "run.pth")
    elif kind == "fsdp":
        torch.save({"model": {f"_fsdp_wrapped_module.{key}".replace("attn.", "_checkpoint_wrapped_module.attn."): value
                              for key, value in state.items()}}, folder / "run.pth")
    elif kind == "open_clip_trunk":
        torch.save({**{f"visual.trunk.{key}": value for key, value in state.items()}, "logit_scale": torch.ones(()),
                    "text.transformer.weight": torch.ones(3, 3)}, folder / "run.pth")
    else:
        torch.save(state, folder / ("pytorch_model.bin" if kind == "bin" else "weights.pth"))
    found, _ = vit_features.features(folder, images, **SETTINGS)
    assert vit_features.difference(found, expected) <= tolerance


def test_a_grey_patch_embedding(folder, images):
    model = timm_models.build(NAME, **ARGUMENTS, in_chans=1)
    timm_models.save_folder(model, folder, NAME, **ARGUMENTS, in_chans=1)
    grey = images[:, :1]
    found, _ = vit_features.features(folder, grey.expand(-1, 3, -1, -1), **SETTINGS)
    assert vit_features.difference(found, timm_models.expected_features(model, grey)["cls"]) <= vit_features.FP32_DIFFERENCE


def test_arguments_of_the_config(folder, images):
    changed = {**ARGUMENTS, "act_layer": "quick_gelu", "num_heads": 6, "init_values": 1e-5, "reg_tokens": 2}
    model = timm_models.build(NAME, **changed)
    timm_models.save_folder(model, folder, NAME, **changed)
    found, description = vit_features.features(folder, images, **SETTINGS)
    assert vit_features.difference(found, timm_models.expected_features(model, images)["cls"]) <= vit_features.FP32_DIFFERENCE
    assert description["architecture"]["activation"] == "quick_gelu" and description["architecture"]["heads"] == 6


def test_arguments_of_null_are_left_out(folder, images, expected):
    change_config(folder, model_args={**ARGUMENTS, "num_heads": None, "act_layer": None, "block_fn": None})
    found, _ = vit_features.features(folder, images, **SETTINGS)
    assert vit_features.difference(found, expected) <= vit_features.FP32_DIFFERENCE


def test_a_config_with_a_long_table_of_classes(folder, images, expected):
    change_config(folder, label_descriptions={f"n{i}": "a class" for i in range(21_841)})
    found, _ = vit_features.features(folder, images, **SETTINGS)
    assert vit_features.difference(found, expected) <= vit_features.FP32_DIFFERENCE


def test_shards_in_the_hubs_cache(folder, images, expected):
    """snapshots/REVISION/NAME are links to ../../blobs/DIGEST."""
    split_into_shards(folder)
    (folder / "snapshots" / "1a2b").mkdir(parents=True)
    (folder / "blobs").mkdir()
    for number, file in enumerate(sorted(file for file in folder.iterdir() if file.is_file())):
        file.rename(folder / "blobs" / f"digest{number}")
        (folder / "snapshots" / "1a2b" / file.name).symlink_to(f"../../blobs/digest{number}")
    found, _ = vit_features.features(folder / "snapshots" / "1a2b", images, **SETTINGS)
    assert vit_features.difference(found, expected) <= vit_features.FP32_DIFFERENCE


def test_options_go_before_the_config(folder, images):
    model = timm_models.build(NAME, **ARGUMENTS, act_layer="gelu_tanh", num_heads=6)
    timm_models.save_folder(model, folder, NAME, **ARGUMENTS)
    found, description = vit_features.features(folder, images, **SETTINGS, heads=6, activation="gelu_tanh")
    assert vit_features.difference(found, timm_models.expected_features(model, images)["cls"]) <= vit_features.FP32_DIFFERENCE
    assert description["architecture"]["activation"] == "gelu_tanh"


def test_a_config_of_something_else_beside_a_file(folder, images, expected):
    (folder / "config.json").write_text('{"name": "a web page"}')
    found, _ = vit_features.features(folder / "model.safetensors", images, **SETTINGS)
    assert vit_features.difference(found, expected) <= vit_features.FP32_DIFFERENCE


def test_a_changed_config_is_named_when_a_cache_goes_on(folder, tmp_path):
    (tmp_path / "exam").mkdir()
    Image.fromarray(vit_features.pictures()[0]).save(tmp_path / "exam" / "0.png")
    command = [vit_features.BUILD / "bin" / "coldframe", "extract", "--input", tmp_path, "--weights", folder,
               "--out", tmp_path / "x.h5", "--device", "cpu"]
    change_config(folder, pretrained_cfg={"input_size": [3, 48, 48], "crop_pct": 0.9, "mean": [0.5], "std": [0.5]})
    subprocess.run(command, check=True, capture_output=True)
    change_config(folder, pretrained_cfg={"input_size": [3, 48, 48], "crop_pct": 1.0, "mean": [0.5], "std": [0.5]})
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 3
    assert f"'{folder / 'config.json'}' next to the weights says what holds" in refused.stderr, refused.stderr
    assert "crop_pct" in refused.stderr
