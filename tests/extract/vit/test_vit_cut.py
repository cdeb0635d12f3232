"""What enters a block, as the backbone keeps it after the features, against timm's, caught by a hook."""

import pathlib
import tempfile

import numpy
import pytest
import torch

from timm_models import build, expected_features, images_of, save_folder
from vit_features import FP32_DIFFERENCE, Refused, cosine, difference, run

# With registers, with a norm before the blocks (CLIP), with rotary positions, without a class token, with a map pooling;
# the last two run on LibTorch's operators: norms after attention and MLP, and two of each side by side.
DEPTH = 4
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


def small(name, size):
    return build(name, img_size=size, depth=DEPTH), images_of(size, batch=3)


def kept(model, images, name, block, **settings):
    """The driver's features, and the tokens behind them."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        save_folder(model, folder / "hub", name, img_size=images.shape[-1], depth=DEPTH)
        images.contiguous().numpy().tofile(folder / "images.bin")
        described = run("vit_driver", "features", f"input={folder / 'images.bin'}", f"output={folder / 'out.bin'}",
                        f"weights={folder / 'hub'}", f"size={images.shape[-1]}", f"cut={block}",
                        *(f"{key}={value}" for key, value in settings.items()))
        rows = torch.from_numpy(numpy.fromfile(folder / "out.bin", numpy.float32)).view(len(images), -1)
    features, tokens = rows[:, :described["dimension"]], rows[:, described["dimension"]:]
    return features, tokens.reshape(len(images), *described["cut_shape"]) if block else tokens


@pytest.mark.parametrize("name, size, pool", MODELS)
def test_equals_timm(name, size, pool):
    model, images = small(name, size)
    expected = expected_features(model, images)[pool]
    block = DEPTH // 2
    features, tokens = kept(model, images, name, block, pool=pool)
    assert difference(tokens, entering(model, images, block)) <= FP32_DIFFERENCE
    assert difference(features, expected) <= FP32_DIFFERENCE


def test_of_every_block():
    name = "vit_tiny_patch16_224"
    model, images = small(name, 32)
    for block in range(1, DEPTH):
        assert difference(kept(model, images, name, block, pool="cls")[1], entering(model, images, block)) <= FP32_DIFFERENCE
    assert kept(model, images, name, 0, pool="cls")[1].numel() == 0


def test_in_half_precision_and_beside_layers():
    name = "vit_tiny_patch16_224"
    model, images = small(name, 64)
    expected = entering(model, images, 2)
    _, tokens = kept(model, images, name, 2, pool="cls", precision="bf16")
    assert not torch.equal(tokens, expected) and cosine(tokens.flatten(1), expected.flatten(1)) >= 0.999
    features, tokens = kept(model, images, name, 2, pool="cls", layers="3,4")
    assert difference(tokens, expected) <= FP32_DIFFERENCE and features.shape[1] == 2 * model.embed_dim
    assert difference(features[:, -model.embed_dim:], expected_features(model, images)["cls"]) <= FP32_DIFFERENCE


@pytest.mark.parametrize("block, settings, message", [
    (4, {}, "--cut 4: the backbone has 4 blocks, expected 0 .the pixels. to 3"),
    (3, {"layers": "3,4"}, "--layers names block 3, .* give --cut 2 or less"),
])
def test_refuses_what_cannot_be(block, settings, message):
    model, images = small("vit_tiny_patch16_224", 32)
    with pytest.raises(Refused, match=message):
        kept(model, images, "vit_tiny_patch16_224", block, pool="cls", **settings)
