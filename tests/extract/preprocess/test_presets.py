"""Every preset's constants against timm's configuration or those that its source states (extract/pipeline/preset.cpp), and
the whole transform, normalised floats included, against timm's, transformers' or torchvision's own."""

import json
import subprocess

import numpy as np
import pytest
import timm
import torch
import transformers
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode
from torchvision.transforms import v2

from preprocess_helper import BUILD, picture, preprocess
from test_resize import PILLOW

TIMM_NAMES = {
    "dino-vits16": "vit_small_patch16_224.dino",
    "dinov2-vits14": "vit_small_patch14_dinov2.lvd142m",
    "dinov2-vits14-reg4": "vit_small_patch14_reg4_dinov2.lvd142m",
    "augreg-vits16": "vit_small_patch16_224.augreg_in21k_ft_in1k",
    "deit-s16": "deit_small_patch16_224.fb_in1k",
}
IMAGE_NET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
OPTIMUS = ((0.707223, 0.578729, 0.703617), (0.211883, 0.230117, 0.177517))
ENDOVIT = ((0.3464, 0.2280, 0.2228), (0.2520, 0.2128, 0.2093))
BILINEAR, BICUBIC = InterpolationMode.BILINEAR, InterpolationMode.BICUBIC


def card(resize, interpolation, constants, crop=224):
    return v1.Compose([v1.Resize(resize, interpolation), v1.CenterCrop(crop), v1.ToTensor(), v1.Normalize(*constants)])


def processor(kind, **arguments):
    made = kind(**arguments)
    return lambda image: made(images=image, return_tensors="pt")["pixel_values"][0]


# (architecture, pooling, transform) as the sources have them.
CARDS = {
    "uni": ("uni", "cls", card(224, BILINEAR, IMAGE_NET)),
    "uni2-h": ("uni2_h", "cls", card(224, BILINEAR, IMAGE_NET)),
    "virchow2": ("virchow2", "cls+mean", card(224, BICUBIC, IMAGE_NET)),
    "h-optimus-0": ("vit_giant_patch14_reg4_dinov2", "cls", card(224, BILINEAR, OPTIMUS)),
    "h-optimus-1": ("vit_giant_patch14_reg4_dinov2", "cls", card(224, BILINEAR, OPTIMUS)),
    "prov-gigapath": ("prov_gigapath", "cls", card(256, BICUBIC, IMAGE_NET)),
    "phikon-v2": ("phikon_v2", "cls", card(224, BILINEAR, IMAGE_NET)),
    "retfound-mae": ("vit_large_patch16_224", None, card(256, BICUBIC, IMAGE_NET)),
    "retfound-dinov2": ("vit_large_patch14_dinov2", "cls", card(256, BICUBIC, IMAGE_NET)),
    "endovit": ("vit_base_patch16_224", None, card((224, 224), BILINEAR, ENDOVIT)),
    "biomedclip": ("vit_base_patch16_224", "cls", card(224, BICUBIC, CLIP)),
    "rad-dino": ("vit_base_patch14_dinov2", "cls", processor(
        transformers.BitImageProcessor, size={"shortest_edge": 518}, crop_size={"height": 518, "width": 518},
        image_mean=[0.5307] * 3, image_std=[0.2583] * 3)),
    "medsiglip": ("medsiglip", "map", processor(
        transformers.SiglipImageProcessor, size={"height": 448, "width": 448})),
}
SIZES = [(640, 480), (481, 641), (17, 301), (1023, 769), (300, 801), (5, 4)]


def load_presets():
    lines = subprocess.run([BUILD / "tests/preset_driver"], capture_output=True, check=True,
                           text=True).stdout.splitlines()
    return {preset["name"]: preset for preset in map(json.loads, lines)}


def run(preset, rgb):
    p = preset["preprocessing"]
    resampler = PILLOW if p["resampler"] == "pillow" else p["resampler"]
    return preprocess(rgb, p["image_size"], p["resize"], p["crop_pct"], p["interpolation"],
                      resampler, p["mean"], p["std"])[1]


def test_every_preset_is_checked():
    assert set(load_presets()) == {*TIMM_NAMES, *CARDS, "retfound-green"}


@pytest.mark.parametrize("name", CARDS)
def test_a_cards_preset_equals_its_source(name):
    preset = load_presets()[name]
    architecture, pooling, transform = CARDS[name]
    assert (preset["architecture"], preset["pooling"]) == (architecture, pooling)
    assert preset["source"]
    for width, height in SIZES:
        rgb = picture(width, height)
        expected = transform(Image.fromarray(rgb)).numpy()
        assert np.array_equal(run(preset, rgb), expected), (width, height)


@pytest.mark.parametrize("name", TIMM_NAMES)
def test_constants_equal_timms(name):
    preset = load_presets()[name]
    p = preset["preprocessing"]
    model = timm.create_model(TIMM_NAMES[name], pretrained=False)
    config = timm.data.resolve_data_config({}, model=model)
    assert preset["architecture"] == TIMM_NAMES[name].split(".")[0]
    assert config["input_size"] == (3, p["image_size"], p["image_size"])
    assert config["crop_pct"] == p["crop_pct"]
    assert config["crop_mode"] == {"shortest": "center"}[p["resize"]]
    assert config["interpolation"] == p["interpolation"]
    assert list(config["mean"]) == p["mean"] and list(config["std"]) == p["std"]
    assert preset["pooling"] == {"token": "cls", "avg": "mean"}[model.global_pool]


@pytest.mark.parametrize("name", TIMM_NAMES)
def test_transform_equals_timms_own(name):
    model = timm.create_model(TIMM_NAMES[name], pretrained=False)
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=model))
    preset = load_presets()[name]
    for width, height in SIZES:
        rgb = picture(width, height)
        expected = transform(Image.fromarray(rgb)).numpy()
        assert np.array_equal(run(preset, rgb), expected), (width, height)


def test_retfound_green_equals_its_authors_transform():
    preset = load_presets()["retfound-green"]
    assert preset["architecture"] == "vit_small_patch14_reg4_dinov2"
    assert preset["pooling"] == "mean"
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("torchvision computes in float on this processor")
    transform = v2.Compose([v2.Resize((392, 392), antialias=True),
                            v2.ToDtype(torch.float32, scale=True),
                            v2.Normalize((0.5,), (0.5,))])
    for width, height in SIZES:
        rgb = picture(width, height)
        for tensor in (v2.functional.to_image(Image.fromarray(rgb)),  # channels last
                       torch.from_numpy(rgb.transpose(2, 0, 1).copy())):
            expected = transform(tensor).numpy()
            assert np.array_equal(run(preset, rgb), expected), (width, height)
