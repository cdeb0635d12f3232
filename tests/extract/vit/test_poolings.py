"""What becomes of a ViT's tokens: several blocks side by side, registers, all tokens, and a CLIP's projection, against
timm's, transformers' and open_clip's own."""

import pytest
import safetensors.torch
import timm
import torch

import foreign_models
from timm_models import build, images_of, save_folder, train_like
from vit_features import FP32_DIFFERENCE, HALF_COSINE, Refused, cosine, difference, features

REGISTERS = "vit_small_patch14_reg4_dinov2"
SIZE, PATCH, DEPTH = 84, 14, 4


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory):
    """A DINOv2 with registers: its folder and the model."""
    folder = tmp_path_factory.mktemp("dinov2")
    arguments = {"img_size": SIZE, "depth": DEPTH}
    model = build(REGISTERS, **arguments)
    save_folder(model, folder, REGISTERS, **arguments)
    return folder, model


def normalised_tokens(model, images, layers):
    """Behind each of the blocks, counted from 1."""
    with torch.inference_mode():
        both = model.forward_intermediates(images, indices=[layer - 1 for layer in layers], norm=True, output_fmt="NLC",
                                           return_prefix_tokens=True, intermediates_only=True)
    return [torch.cat([prefix, patches], 1) for patches, prefix in both]


def assert_equal(found, expected):
    assert difference(found, expected) <= FP32_DIFFERENCE


@pytest.mark.parametrize("layers", [[4], [1], [3, 4], [1, 2, 3, 4]])
@pytest.mark.parametrize("pool", ["cls", "mean", "cls+mean", "register-mean", "prefix-mean", "none"])
def test_layers_are_timms_intermediates(dinov2, pool, layers):
    folder, model = dinov2
    images, prefix = images_of(SIZE), model.num_prefix_tokens
    ways = {"cls": lambda t: t[:, 0], "mean": lambda t: t[:, prefix:].mean(1), "register-mean": lambda t: t[:, 1:prefix].mean(1),
            "prefix-mean": lambda t: t[:, :prefix].mean(1),
            "cls+mean": lambda t: torch.cat([t[:, 0], t[:, prefix:].mean(1)], 1), "none": lambda t: t.flatten(1)}
    expected = torch.cat([ways[pool](tokens) for tokens in normalised_tokens(model, images, layers)], 1)
    found, description = features(folder, images, pool=pool, layers=",".join(map(str, layers)))
    assert_equal(found, expected)
    assert description.get("layers", [DEPTH]) == layers


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("pool", ["cls", "mean", "register-mean", "none"])
def test_half_precision_is_near(dinov2, pool, precision):
    folder, _ = dinov2
    images = images_of(SIZE)
    exact, _ = features(folder, images, pool=pool, layers="2,4")
    found, _ = features(folder, images, pool=pool, layers="2,4", precision=precision)
    assert cosine(found, exact) >= HALF_COSINE


def test_the_last_layer_named_is_the_default(dinov2):
    folder, _ = dinov2
    images = images_of(SIZE)
    _, named = features(folder, images, layers=DEPTH)
    _, default = features(folder, images)
    assert named == default


def test_norm_behind_pooling_holds_for_every_pooling(tmp_path):
    model = train_like(timm.create_model("vit_tiny_patch16_224", num_classes=0, img_size=48, depth=2, global_pool="avg"), 0)
    assert not isinstance(model.fc_norm, torch.nn.Identity)
    safetensors.torch.save_file(model.state_dict(), tmp_path / "w.safetensors")
    images = images_of(48)
    tokens = model.forward_features(images).detach()
    for pool, expected in (("none", model.fc_norm(tokens).flatten(1)), ("mean", model.fc_norm(tokens[:, 1:].mean(1)))):
        found, _ = features(tmp_path / "w.safetensors", images, pool=pool)
        assert_equal(found, expected.detach())


def test_projection_of_transformers(tmp_path):
    images = images_of(48)
    for name in ("clip_projection", "clip_whole"):
        model = foreign_models.Transformers(name, tmp_path / name).model
        with torch.inference_mode():
            if name == "clip_projection":
                expected = model(images).image_embeds
            else:
                expected = model.visual_projection(model.vision_model(images).pooler_output)
        found, description = features(tmp_path / name, images, pool="cls", projection=1)
        assert_equal(found, expected)
        assert description["projection"] == 24


@pytest.mark.parametrize("name", ["open_clip_quick_gelu", "timm_tower"])
def test_projection_of_open_clip(name, tmp_path):
    visual = foreign_models.OpenClip(name, tmp_path).visual
    images = images_of(224 if hasattr(visual, "trunk") else 48)
    with torch.inference_mode():
        if hasattr(visual, "trunk"):
            expected = visual.head(visual.trunk.forward_features(images)[:, 0])
        else:
            expected = visual(images)
    found, _ = features(tmp_path, images, pool="cls", projection=1)
    assert_equal(found, expected)


def test_projection_of_timms_clip(tmp_path):
    name, arguments = "vit_base_patch32_clip_224", {"img_size": 64, "depth": 2}
    model = train_like(timm.create_model(name, num_classes=24, **arguments), 0)
    save_folder(model, tmp_path, name, **arguments)
    images = images_of(64)
    with torch.inference_mode():
        expected = model(images)
    found, _ = features(tmp_path, images, pool="cls", projection=1)
    assert_equal(found, expected)


@pytest.mark.parametrize("settings, message", [
    ({"layers": "5"}, "names block 5, and the backbone has 4"),
    ({"layers": "0"}, "from 1 that rise"),
    ({"layers": "2,2"}, "from 1 that rise"),
    ({"layers": "3,x"}, "from 1 that rise"),
    ({"layers": ""}, "from 1 that rise"),
    ({"projection": 1}, "these weights have no projection"),
    ({"projection": 1, "layers": "4"}, "these weights have no projection"),
    ({"projection": 1, "layers": "1,2"}, "one vector of the last block"),
    ({"projection": 1, "pool": "cls+mean"}, "one vector of the last block"),
    ({"pool": "map"}, "needs an attention pooling"),
])
def test_what_the_backbone_lacks_is_refused(dinov2, settings, message):
    folder, _ = dinov2
    with pytest.raises(Refused, match=message):
        features(folder, images_of(SIZE), **settings)


def test_registers_are_asked_for_where_there_are_none(tmp_path):
    with pytest.raises(Refused, match="register-mean needs registers"):
        features(None, images_of(48), seed=0, architecture="vit_tiny_patch16_224", pool="register-mean")
