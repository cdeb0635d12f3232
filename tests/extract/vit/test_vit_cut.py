"""What enters a block, as the backbone keeps it behind the features, against timm's, caught by a hook."""

import pathlib
import tempfile

import numpy
import pytest
import safetensors.torch
import torch

from timm_models import build, expected_features, images_of
from vit_features import FP32_DIFFERENCE, Refused, cosine, difference, run

# With registers, with a norm before the blocks (CLIP), with rotary positions, without a class token, with a map pooling;
# the last two run on LibTorch's operators: norms behind attention and perceptron, and two of each side by side.
MODELS = [("vit_tiny_patch16_224", 64, "cls"), ("vit_small_patch14_reg4_dinov2", 70, "cls+mean"),
          ("vit_base_patch32_clip_224", 64, "cls"), ("eva02_tiny_patch14_224", 70, "mean"),
          ("vit_medium_patch16_gap_240", 64, "mean"), ("vit_base_patch16_siglip_224", 64, "map"),
          ("vit_base_patch16_rpn_224", 64, "mean"), ("vit_small_patch16_18x2_224", 64, "cls")]


def entering(model, images, block):
    kept = []
    hook = model.blocks[block].register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    with torch.inference_mode():
        model.forward_features(images)
    hook.remove()
    return kept[0]


def kept(model, images, name, block, **settings):
    """The driver's features, and the tokens behind them."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        safetensors.torch.save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "w.safetensors")
        images.contiguous().numpy().tofile(folder / "images.bin")
        described = run("vit_driver", "features", f"input={folder / 'images.bin'}", f"output={folder / 'out.bin'}",
                        f"weights={folder / 'w.safetensors'}", f"architecture={name}", f"size={images.shape[-1]}",
                        f"cut={block}", *(f"{key}={value}" for key, value in settings.items()))
        rows = torch.from_numpy(numpy.fromfile(folder / "out.bin", numpy.float32)).view(len(images), -1)
    features, tokens = rows[:, :described["dimension"]], rows[:, described["dimension"]:]
    return features, tokens.reshape(len(images), *described["cut_shape"]) if block else tokens


@pytest.mark.parametrize("name, size, pool", MODELS)
def test_equals_timm(name, size, pool):
    model, images = build(name, img_size=size), images_of(size, batch=3)
    expected = expected_features(model, images)[pool]
    block = len(model.blocks) // 2
    features, tokens = kept(model, images, name, block, pool=pool)
    assert difference(tokens, entering(model, images, block)) <= FP32_DIFFERENCE
    assert difference(features, expected) <= FP32_DIFFERENCE


def test_of_every_block():
    name = "vit_tiny_patch16_224"
    model, images = build(name, img_size=32), images_of(32, batch=3)
    for block in range(1, 12):
        assert difference(kept(model, images, name, block, pool="cls")[1], entering(model, images, block)) <= FP32_DIFFERENCE
    assert kept(model, images, name, 0, pool="cls")[1].numel() == 0


def test_in_half_precision_and_beside_layers():
    name = "vit_tiny_patch16_224"
    model, images = build(name, img_size=64), images_of(64, batch=3)
    expected = entering(model, images, 6)
    _, tokens = kept(model, images, name, 6, pool="cls", precision="bf16")
    assert not torch.equal(tokens, expected) and cosine(tokens.flatten(1), expected.flatten(1)) >= 0.999
    features, tokens = kept(model, images, name, 6, pool="cls", layers="7,9,12")
    assert difference(tokens, expected) <= FP32_DIFFERENCE and features.shape[1] == 3 * model.embed_dim
    assert difference(features[:, -model.embed_dim:], expected_features(model, images)["cls"]) <= FP32_DIFFERENCE


@pytest.mark.parametrize("block, settings, message", [
    (12, {}, "--cut 12: the backbone has 12 blocks, expected 0 .the pixels. to 11"),
    (9, {"layers": "9,12"}, "--layers names block 9, .* give --cut 8 or less"),
])
def test_refuses_what_cannot_be(block, settings, message):
    model = build("vit_tiny_patch16_224", img_size=32)
    with pytest.raises(Refused, match=message):
        kept(model, images_of(32), "vit_tiny_patch16_224", block, pool="cls", **settings)
