"""Images that are not square, against timm's models of that img_size with the same weights."""

import pytest
import torch

import parity
from timm_models import build, expected_features, save_folder
from timm_rows import build_on_meta
from vit_features import HALF_COSINE, Refused, cosine, features

PATCH_ROWS, PATCH_COLUMNS = 4, 7
# Learnt positions, EVA-02's and DINOv3's rotary ones, learnt frequencies, and RoPE-ViT's grid of reference.
MODELS = ["vit_tiny_patch16_224", "vit_small_patch14_reg4_dinov2", "eva02_tiny_patch14_224", "vit_small_patch16_dinov3",
          "vit_small_patch16_rope_mixed_224", "vit_base_patch16_siglip_224", "vit_pe_core_tiny_patch16_384"]


def oblong_images(patch):
    torch.manual_seed(3)
    return torch.randn(3, 3, PATCH_ROWS * patch, PATCH_COLUMNS * patch)


@pytest.mark.parametrize("name", MODELS)
def test_features_are_timms(name, tmp_path):
    patch = build_on_meta(name).patch_embed.patch_size[0]
    arguments = {"img_size": 6 * patch, "depth": 2}
    model = build(name, **arguments)
    save_folder(model, tmp_path, name, **arguments)
    model.set_input_size(img_size=(PATCH_ROWS * patch, PATCH_COLUMNS * patch))
    images = oblong_images(patch)
    is_equal, worst = parity.compare(tmp_path, images, expected_features(model, images))
    assert is_equal, worst


def test_half_precision_is_near(tmp_path):
    name, arguments = "vit_small_patch16_dinov3", {"img_size": 96, "depth": 2}
    save_folder(build(name, **arguments), tmp_path, name, **arguments)
    images = oblong_images(16)
    exact, _ = features(tmp_path, images)
    for precision in ("bf16", "fp16"):
        found, _ = features(tmp_path, images, precision=precision)
        assert cosine(found, exact) >= HALF_COSINE


def test_relative_positions_are_for_their_square_only(tmp_path):
    name, arguments = "beit_base_patch16_224", {"img_size": 64, "depth": 1}
    save_folder(build(name, **arguments), tmp_path, name, **arguments)
    with pytest.raises(Refused, match="64×112 does not go with the relative positions.*--image-size 64"):
        features(tmp_path, torch.zeros(1, 3, 64, 112), pool="mean")


def test_no_multiple_of_the_patch():
    with pytest.raises(Refused, match="--image-size: 50 is no multiple of the backbone's patch size 16"):
        features(None, torch.zeros(1, 3, 32, 50), seed=0, architecture="vit_tiny_patch16_224")
