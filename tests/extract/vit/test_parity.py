"""ViTs of timm, transformers and open_clip with random weights: the same features, from the folder that the library
writes. `parity.py` beside this file compares all of timm's models; a quick part of it is here."""

import csv

import pytest
import torch

import foreign_models
import parity
from timm_rows import MODULES, names

TOLERANCE = parity.FP32_DIFFERENCE

# One model for each of the differences that the readable model has a switch for.
TIMM = ["vit_so400m_patch14_siglip_gap_224", "vit_base_patch16_rpn_224", "vit_small_patch16_rope_ape_224",
        "vit_small_patch16_rope_mixed_224", "vit_small_plus_patch16_dinov3", "vit_base_patch32_clip_quickgelu_224",
        "vit_base_patch16_siglip_224", "beit_base_patch16_224", "eva02_small_patch14_224", "deit_tiny_distilled_patch16_224",
        "aimv2_large_patch14_224", "vit_base_patch16_xp_224", "vit_small_patch16_18x2_224", "vit_pe_core_tiny_patch16_384",
        "beit3_base_patch16_224"]


@pytest.mark.parametrize("name", TIMM)
def test_timm_from_its_folder(name, tmp_path):
    native, other, without = parity.examine(name, tmp_path)
    assert native[0] == "equal", native
    assert other[0] == ("refused" if name.startswith("beit_") else "equal"), other
    assert without[0] in ("equal", "refused"), without
    if without[0] == "refused":
        assert "--architecture" in without[1]


def test_no_model_of_the_census_is_accepted_and_different():
    with parity.CENSUS.open() as file:
        rows = list(csv.reader(file))[1:]
    assert {row[0] for row in rows} <= {name for module in MODULES for name in names(module)}
    assert {verdict for row in rows for verdict in row[1:]} <= {"equal", "refused"}


@pytest.mark.parametrize("name", foreign_models.TRANSFORMERS)
def test_transformers_from_its_folder(name, tmp_path):
    model = foreign_models.save_transformers(name, tmp_path)
    sizes = [48] if name in foreign_models.NATIVE_SIZE_ONLY else [48, 64]
    for size in sizes:
        images = parity.images_of(size)
        if name == "vit_grey":
            images = images[:, :1].expand(-1, 3, -1, -1)
        expected = foreign_models.transformers_features(name, model, images)
        for pool in expected:
            found, _ = parity.features(tmp_path, images, pool=pool)
            assert parity.difference(found, expected[pool]) <= TOLERANCE, (size, pool)


@pytest.mark.parametrize("name", ["vit", "clip", "dinov3", "siglip"])
def test_transformers_without_its_config_is_asked_about(name, tmp_path):
    foreign_models.save_transformers(name, tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(parity.Refused, match="names of transformers.*config.json.*--architecture"):
        parity.features(tmp_path, parity.images_of(48))


@pytest.mark.parametrize("name", foreign_models.OPEN_CLIP)
def test_open_clip_from_its_folder(name, tmp_path):
    visual = foreign_models.save_open_clip(name, tmp_path)
    images = parity.images_of(224 if hasattr(visual, "trunk") else 48)
    expected = foreign_models.open_clip_features(visual, images)
    for pool in expected:
        found, _ = parity.features(tmp_path, images, pool=pool)
        assert parity.difference(found, expected[pool]) <= TOLERANCE, pool


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ["vit_small_plus_patch16_dinov3", "eva02_small_patch14_224", "vit_base_patch16_siglip_224"])
def test_half_precision(name, precision, tmp_path):
    size, _ = parity.small_size(name)
    arguments = {"img_size": size, "depth": parity.DEPTH}
    model = parity.build(name, **arguments)
    parity.save_folder(model, tmp_path, name, **arguments)
    images = parity.images_of(size)
    for pool, expected in parity.expected_features(model, images).items():
        found, _ = parity.features(tmp_path, images, pool=pool, precision=precision)
        assert torch.nn.functional.cosine_similarity(found, expected, dim=1).min() >= 0.9999
