"""The native ViT against timm, on the same weights and images."""

import json

import numpy
import pytest
import safetensors.torch
import timm
import torch

from loaded_program import BUILD, loaded
from timm_models import build, images_of

FP32_TOLERANCE = 1e-4
HALF_COSINE = 0.999


def run_driver(tmp_path, images, **settings):
    images.contiguous().numpy().tofile(tmp_path / "images.bin")
    done = loaded(BUILD / "tests" / "vit_driver").run(
        ["features", f"input={tmp_path / 'images.bin'}", f"output={tmp_path / 'features.bin'}", f"size={images.shape[-1]}",
         *(f"{key}={value}" for key, value in settings.items())])
    if done.returncode:
        raise RuntimeError(done.stderr)
    description = json.loads(done.stdout)
    features = torch.from_numpy(numpy.fromfile(tmp_path / "features.bin", dtype=numpy.float32))
    return features.view(len(images), description["dimension"]), description


def save(model, tmp_path):
    path = tmp_path / "weights.safetensors"
    safetensors.torch.save_file({k: v.contiguous() for k, v in model.state_dict().items()}, path)
    return path


def expected_features(model, images):
    """Final norm, then token 0, or the mean over the patch tokens without prefix tokens."""
    with torch.inference_mode():
        tokens = model.forward_features(images)
    cls, mean = tokens[:, 0], tokens[:, model.num_prefix_tokens:].mean(1)
    return {"cls": cls, "mean": mean, "cls+mean": torch.cat([cls, mean], 1)}


def assert_near(found, expected, tolerance=FP32_TOLERANCE):
    assert found.shape == expected.shape
    assert expected.std() > 0.1, "the expected features do not vary: the test could not fail"
    assert (found - expected).abs().max().item() <= tolerance


def cosine(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=1).min().item()


# Two by their names and in their whole depth; the others differ in width, patches, LayerScale and number of tokens, which
# two blocks show.
MODELS = [
    ("vit_tiny_patch16_224", 224, 12),
    ("vit_small_patch16_224", 224, 12),
    ("deit_small_patch16_224", 224, 2),
    ("vit_small_patch8_224", 224, 2),
    ("vit_base_patch16_224", 224, 2),
    ("vit_small_patch14_dinov2", 224, 2),
    ("vit_small_patch14_reg4_dinov2", 392, 2),
    ("vit_small_patch14_reg4_dinov2", 518, 2),
]


@pytest.mark.parametrize("name,size,depth", MODELS)
def test_equals_timm(name, size, depth, tmp_path):
    model = build(name, img_size=size, depth=depth)
    weights, images = save(model, tmp_path), images_of(size)
    expected = expected_features(model, images)
    settings = {"architecture": name} if depth == 12 else {}
    found, description = run_driver(tmp_path, images, weights=weights, pool="cls+mean", **settings)
    assert_near(found, expected["cls+mean"])
    assert description["architecture"]["heads"] == model.blocks[0].attn.num_heads
    assert "positions_resampled_to" not in description
    half, _ = run_driver(tmp_path, images, weights=weights, pool="cls+mean", precision="bf16")
    width = model.embed_dim
    cosines = cosine(half[:, :width], expected["cls"]), cosine(half[:, width:], expected["mean"])
    difference = (found - expected["cls+mean"]).abs().max().item()
    print(f"{name} at {size}: fp32 max abs difference {difference:.1e}; bf16 cosine cls {cosines[0]:.5f}, mean {cosines[1]:.5f}")
    assert min(cosines) >= HALF_COSINE
    assert not torch.equal(half, found)


@pytest.mark.parametrize("name,trained,size", [
    ("vit_tiny_patch16_224", 224, 336),
    ("vit_tiny_patch16_224", 384, 224),
    ("vit_small_patch14_reg4_dinov2", 518, 224),
    ("deit3_small_patch16_224", 224, 160),
])
def test_resamples_positions_as_timm_does(name, trained, size, tmp_path):
    model = build(name, img_size=trained, depth=2)
    weights, images = save(model, tmp_path), images_of(size)
    model.set_input_size(img_size=(size, size))
    found, description = run_driver(tmp_path, images, weights=weights, pool="cls+mean")
    assert_near(found, expected_features(model, images)["cls+mean"])
    assert description["positions_resampled_to"] == size // model.patch_embed.patch_size[0]


def test_retfound_green_as_its_readme_builds_it(tmp_path):
    # github.com/justinengelmann/RETFound_Green: create_model(..., img_size=(392, 392), num_classes=0), weights
    # loaded, then model.global_pool = 'avg'. The norm stays where it was built: before the average.
    model = build("vit_small_patch14_reg4_dinov2", img_size=(392, 392))
    model.global_pool = "avg"
    weights, images = save(model, tmp_path), images_of(392)
    with torch.inference_mode():
        expected = model(images)
    found, _ = run_driver(tmp_path, images, weights=weights, pool="mean", architecture="vit_small_patch14_reg4_dinov2")
    assert_near(found, expected)


def test_fc_norm_comes_after_averaging(tmp_path):
    model = build("vit_tiny_patch16_224", global_pool="avg", depth=2)
    assert isinstance(model.norm, torch.nn.Identity)
    weights, images = save(model, tmp_path), images_of(224)
    with torch.inference_mode():
        expected = model(images)
        norm_first = model.fc_norm(model.forward_features(images))[:, 1:].mean(1)
    found, description = run_driver(tmp_path, images, weights=weights, pool="mean")
    assert_near(found, expected)
    assert (expected - norm_first).abs().max() > 0.01
    assert description["architecture"]["norm"] == "fc_norm"


@pytest.mark.parametrize("options", [{}, {"fc_norm": True}])
def test_without_class_token(options, tmp_path):
    model = build("vit_medium_patch16_gap_240", **options)
    weights, images = save(model, tmp_path), images_of(240)
    with torch.inference_mode():
        expected = model(images)
    found, _ = run_driver(tmp_path, images, weights=weights, pool="mean", architecture="vit_medium_patch16_gap_240")
    assert_near(found, expected)
    with pytest.raises(RuntimeError, match="needs a class token"):
        run_driver(tmp_path, images, weights=weights, pool="cls")


@pytest.mark.parametrize("options", [{"class_token": False, "global_pool": "avg"}, {"qkv_bias": False},
                                     {"reg_tokens": 3}, {"no_embed_class": True}, {"num_heads": 6}])
def test_variants_that_timm_can_build(options, tmp_path):
    model = build("vit_tiny_patch16_224", img_size=96, depth=2, **options)
    weights, images = save(model, tmp_path), images_of(96)
    with torch.inference_mode():
        expected = model(images)
    pool = "mean" if options.get("global_pool") else "cls"
    settings = {"heads": options["num_heads"]} if "num_heads" in options else {}
    if options.keys() & {"class_token", "qkv_bias"}:  # no published model has these shapes, or several have
        settings = {"heads": 3, "activation": "gelu"}
    found, _ = run_driver(tmp_path, images, weights=weights, pool=pool, **settings)
    assert_near(found, expected)


def test_each_pool_and_half_precision(tmp_path):
    model = build("vit_tiny_patch16_224")
    weights, images = save(model, tmp_path), images_of(224)
    expected = expected_features(model, images)
    for pool in ("cls", "mean"):
        assert_near(run_driver(tmp_path, images, weights=weights, pool=pool)[0], expected[pool])
        half, _ = run_driver(tmp_path, images, weights=weights, pool=pool, precision="fp16")
        assert cosine(half, expected[pool]) >= HALF_COSINE


def test_original_dinov2_names(tmp_path):
    """The DINOv2 repository's layout with registers: positions for the class token too, mask_token, register_tokens."""
    model = build("vit_small_patch14_reg4_dinov2", img_size=224)
    state = model.state_dict()
    width = state["cls_token"].shape[-1]
    generator = torch.Generator().manual_seed(5)
    cls_position = torch.randn(1, 1, width, generator=generator)
    original = dict(state)
    original["register_tokens"] = original.pop("reg_token")
    original["cls_token"] = original["cls_token"] - cls_position
    original["pos_embed"] = torch.cat([cls_position, original["pos_embed"]], 1)
    original["mask_token"] = torch.zeros(1, width)
    path = tmp_path / "dinov2.pth"
    torch.save(original, path)
    images = images_of(224)
    found, _ = run_driver(tmp_path, images, weights=path, pool="cls", architecture="vit_small_patch14_reg4_dinov2")
    assert_near(found, expected_features(model, images)["cls"])


def test_mae_checkpoint_without_its_decoder(tmp_path):
    model = build("vit_tiny_patch16_224")
    state = dict(model.state_dict(), mask_token=torch.zeros(1, 1, 512), decoder_pos_embed=torch.zeros(1, 197, 512))
    state["decoder_blocks.0.norm1.weight"] = torch.ones(512)
    path = tmp_path / "mae.pth"
    torch.save({"model": state, "epoch": 799}, path)
    images = images_of(224)
    found, _ = run_driver(tmp_path, images, weights=path, pool="mean")
    assert_near(found, expected_features(model, images)["mean"])


def test_weights_of_another_architecture(tmp_path):
    weights = save(build("vit_tiny_patch16_224"), tmp_path)
    with pytest.raises(RuntimeError, match="wrong weights for vit_small_patch14_reg4_dinov2.*patch size 16 instead of 14"):
        run_driver(tmp_path, images_of(224), weights=weights, architecture="vit_small_patch14_reg4_dinov2")


@pytest.mark.parametrize("name", ["vit_dpwee_patch16_reg1_gap_256", "vit_base_patch16_sapiens2"])
def test_unsupported_models_are_refused_by_name(name, tmp_path):
    with pytest.raises(RuntimeError, match=f"architecture '{name}' has .* not supported"):
        run_driver(tmp_path, images_of(224, batch=1), seed=1, architecture=name)


def test_unsupported_designs_are_refused_by_a_tensors_name(tmp_path):
    weights = save(timm.create_model("vit_dpwee_patch16_reg1_gap_256", depth=1, num_classes=0), tmp_path)
    with pytest.raises(RuntimeError, match="differential attention beside the MLP, which is not supported"):
        run_driver(tmp_path, images_of(224, batch=1), weights=weights)


def test_named_architectures_are_timms(tmp_path):
    for name in ("vit_tiny_patch16_224", "vit_small_patch8_224", "vit_base_patch14_reg4_dinov2",
                 "deit3_base_patch16_384", "vit_base_patch16_gap_224", "vit_medium_patch16_gap_256"):
        with torch.device("meta"):
            model = timm.create_model(name, num_classes=0)
        size = model.patch_embed.img_size[0]
        images = torch.zeros(0, 3, size, size)
        _, description = run_driver(tmp_path, images, seed=1, architecture=name, pool="mean")
        shape = description["architecture"]
        assert shape["width"] == model.embed_dim
        assert shape["depth"] == len(model.blocks)
        assert shape["heads"] == model.blocks[0].attn.num_heads
        assert shape["registers"] == model.num_reg_tokens
        assert shape["class_token"] == model.has_class_token
        assert shape["position_grid"] == model.patch_embed.grid_size[0]
        assert shape["prefix_positions"] == (not model.no_embed_class)
        assert shape["qkv_bias"] == (model.blocks[0].attn.qkv.bias is not None)
        assert shape["layer_scale"] == hasattr(model.blocks[0].ls1, "gamma")


class Tiny(torch.nn.Module):
    def __init__(self, keep_batch=True):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 5, 4, stride=4)
        self.keep_batch = keep_batch

    def forward(self, x):
        x = self.conv(x).mean((2, 3))
        return x if self.keep_batch else x.mean(0)


def test_torchscript(tmp_path):
    torch.manual_seed(0)
    module = Tiny().eval()
    path = tmp_path / "tiny.pt"
    torch.jit.script(module).save(str(path))
    images = images_of(64)
    found, description = run_driver(tmp_path, images, module=path)
    with torch.inference_mode():
        assert torch.allclose(found, module(images), atol=1e-6)
    assert description["kind"] == "torchscript" and description["dimension"] == 5
    half, _ = run_driver(tmp_path, images, module=path, precision="bf16")
    assert cosine(half, found) > 0.99
    with pytest.raises(RuntimeError, match="this is a TorchScript module.*--backbone"):
        run_driver(tmp_path, images, weights=path)


def test_torchscript_of_a_wrong_shape(tmp_path):
    path = tmp_path / "flat.pt"
    torch.jit.script(Tiny(keep_batch=False).eval()).save(str(path))
    with pytest.raises(RuntimeError, match=r"returns a tensor of shape \[5\], expected \[3, D\]"):
        run_driver(tmp_path, images_of(64), module=path)
    with pytest.raises(RuntimeError, match="check --image-size"):
        run_driver(tmp_path, images_of(2), module=path)
