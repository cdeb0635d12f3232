"""ViTs of timm, transformers and open_clip with random weights: the same features, from the folder that the library
writes. `parity.py` next to this file examines all of them and keeps the verdicts in parity.csv; a sample of it is here."""

import pytest
import torch

import foreign_models
import parity
import timm_models
import timm_rows
import vit_features

MODELS = vit_features.REPO / "extract" / "vit" / "published" / "models.csv"

# One model for each of the differences that the readable model has a switch for.
TIMM = ["vit_base_patch16_siglip_gap_224", "vit_base_patch16_rpn_224", "vit_small_patch16_rope_ape_224",
        "vit_small_patch16_rope_mixed_224", "vit_small_plus_patch16_dinov3", "vit_base_patch32_clip_quickgelu_224",
        "vit_base_patch16_siglip_224", "beit_base_patch16_224", "eva02_small_patch14_224", "deit_tiny_distilled_patch16_224",
        "aimv2_large_patch14_224", "vit_base_patch16_xp_224", "vit_small_patch16_18x2_224", "vit_pe_core_tiny_patch16_384",
        "beit3_base_patch16_224", "vit_dwee_patch16_reg1_gap_256"]
# The same of transformers and open_clip.
FOREIGN = [("transformers", name) for name in (
    "vit", "vit_grey", "vit_mae", "deit", "deit_with_teacher", "dinov2_swiglu", "dinov2_registers", "dinov3_gated", "clip_projection",
    "siglip_whole", "siglip2_naflex", "beit_shared_relative")] + [("open_clip", "open_clip_quick_gelu"),
                                                                    ("open_clip", "timm_tower")]


def expect_row(library, name, verdicts):
    row = parity.read_table()[library, name]
    assert [kind for kind, _ in verdicts] == [row[column] for column in parity.COLUMNS], verdicts


@pytest.mark.parametrize("name", TIMM)
def test_rows_of_timm(name, tmp_path):
    expect_row("timm", name, parity.with_pixels(name, parity.examine_timm(name, tmp_path)))


@pytest.mark.parametrize("library, name", FOREIGN)
def test_rows_of_other_libraries(library, name, tmp_path):
    model = foreign_models.LIBRARIES[library][name](tmp_path)
    expect_row(library, name, parity.examine_foreign(model, tmp_path))


def test_a_row_of_a_model_card(tmp_path):
    expect_row("card", "virchow2", parity.examine_card("virchow2", tmp_path))


def test_the_table_has_every_model_and_none_is_accepted_and_different():
    table = parity.read_table()
    expected = {("timm", name) for module in timm_rows.MODULES for name in timm_rows.names(module)}
    expected |= {("card", name) for name in timm_rows.CARDS}
    expected |= {(library, name) for library, models in foreign_models.LIBRARIES.items() for name in models}
    assert set(table) == expected
    allowed = {column: {"equal", "refused"} for column in parity.COLUMNS}
    allowed["other size"] |= {"-"}  # the library itself computes none
    allowed["from folder"] |= {"-", "rounded"}  # no config can say what a card does; DINOv3's processor, README
    for key, row in table.items():
        for column in parity.COLUMNS:
            assert row[column] in allowed[column], (key, column)
        assert row["from folder"] != "rounded" or key[1].startswith("dinov3"), key
        # A model is equal, or refused by its name alone.
        assert row["native size"] == row["bf16"] == row["fp16"], key
    refused = {name for (_, name), row in table.items() if row["native size"] == "refused"}
    assert {name for name in refused if "sapiens2" not in name} == {
        "vit_dpwee_patch16_reg1_gap_256", "siglip2_naflex"}


def test_the_rows_of_published_models_are_timms():
    written, left_out = timm_rows.table()
    assert MODELS.read_text() == written
    assert set(left_out) == {name for (library, name), row in parity.read_table().items()
                             if library == "timm" and row["native size"] == "refused"}


def test_weights_with_the_names_of_transformers_are_asked_about(tmp_path):
    foreign_models.LIBRARIES["transformers"]["clip"](tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(vit_features.Refused, match="names of transformers.*config.json.*--architecture"):
        vit_features.features(tmp_path, timm_models.images_of(48))


def test_naflex_without_its_processor_takes_squares(tmp_path):
    model = foreign_models.LIBRARIES["transformers"]["siglip2_naflex"](tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    images = model.images(48)
    for pool, expected in model.features(images).items():
        found, _ = vit_features.features(tmp_path, images, pool=pool)
        assert vit_features.difference(found, expected) <= vit_features.FP32_DIFFERENCE


def dinov3_state(model):
    """A timm model's weights under facebookresearch/dinov3's names."""
    state = {}
    for key, value in model.state_dict().items():
        for timm_name, name in ((".gamma_1", ".ls1.gamma"), (".gamma_2", ".ls2.gamma"), ("reg_token", "storage_tokens"),
                                (".mlp.fc1_g.", ".mlp.w1."), (".mlp.fc1_x.", ".mlp.w2."), (".mlp.fc2.", ".mlp.w3.")):
            if "mlp" not in timm_name or hasattr(model.blocks[0].mlp, "fc1_g"):
                key = key.replace(timm_name, name)
        state[key] = value
    width = model.embed_dim
    for block in range(len(model.blocks)):  # keys have a bias that a mask switches off
        state[f"blocks.{block}.attn.qkv.bias"] = torch.cat([torch.zeros(width), torch.ones(width), torch.zeros(width)])
        state[f"blocks.{block}.attn.qkv.bias_mask"] = torch.cat([torch.ones(width), torch.zeros(width), torch.ones(width)])
    count = width // model.blocks[0].attn.num_heads // 4
    return state | {"rope_embed.periods": 100.0 ** (torch.arange(count) / count), "mask_token": torch.zeros(1, width)}


@pytest.mark.parametrize("name", ["vit_small_patch16_dinov3", "vit_small_plus_patch16_dinov3"])
def test_dinov3s_own_files(name, tmp_path):
    model = timm_models.build(name, img_size=96, depth=2)
    images = timm_models.images_of(96)
    expected = timm_models.expected_features(model, images)["cls+mean"]
    state = dinov3_state(model)
    for periods in (state["rope_embed.periods"], state["rope_embed.periods"].bfloat16()):
        torch.save(state | {"rope_embed.periods": periods}, tmp_path / "dinov3.pth")
        found, _ = vit_features.features(tmp_path / "dinov3.pth", images, pool="cls+mean")
        assert vit_features.difference(found, expected) <= vit_features.FP32_DIFFERENCE


@pytest.mark.parametrize("periods", [10.0 ** (torch.arange(16) / 16), 100.0 ** (torch.arange(8) / 8)],
                         ids=["another base", "other heads"])
def test_dinov3s_files_with_other_wavelengths_are_refused(periods, tmp_path):
    state = dinov3_state(timm_models.build("vit_small_patch16_dinov3", img_size=96, depth=1))
    torch.save(state | {"rope_embed.periods": periods}, tmp_path / "dinov3.pth")
    with pytest.raises(vit_features.Refused, match="other wavelengths of rotary positions .* 6 heads"):
        vit_features.features(tmp_path / "dinov3.pth", timm_models.images_of(96))
