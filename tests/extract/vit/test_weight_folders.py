"""Weights as people have them: folders with a config, shards, training checkpoints; and what is wrong with such."""

import json

import pytest
import safetensors.torch
import torch

import parity

NAME = "vit_tiny_patch16_224"
ARGUMENTS = {"img_size": 48, "depth": 2}
SETTINGS = {"pool": "cls"}


@pytest.fixture(scope="module")
def model():
    return parity.build(NAME, **ARGUMENTS)


@pytest.fixture(scope="module")
def images():
    return parity.images_of(48)


@pytest.fixture
def expected(model, images):
    return parity.expected_features(model, images)["cls"]


@pytest.fixture
def folder(model, tmp_path):
    parity.save_folder(model, tmp_path / "hub", NAME, **ARGUMENTS)
    return tmp_path / "hub"


def split_into_shards(folder, index_name="model.safetensors.index.json"):
    """Two shards and their index in place of the folder's one file; returns the index's path."""
    state = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(state)
    weight_map = {}
    for part, mine in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{part:05}-of-00002.safetensors"
        safetensors.torch.save_file({name: state[name] for name in mine}, folder / file)
        weight_map |= dict.fromkeys(mine, file)
    (folder / index_name).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder / index_name


def test_shards_with_their_index(folder, images, expected):
    index = split_into_shards(folder)
    for given in (folder, index):
        found, description = parity.features(given, images, **SETTINGS)
        assert parity.difference(found, expected) <= parity.FP32_DIFFERENCE
        assert len(description["sha256"]) == 64


@pytest.mark.parametrize("kind", ["bin", "pth", "ckpt", "half", "bfloat16", "dinov2_training", "fsdp", "open_clip_trunk"])
def test_files_of_every_kind(kind, folder, model, images, expected):
    state = model.state_dict()
    (folder / "model.safetensors").unlink()
    tolerance = parity.FP32_DIFFERENCE
    if kind == "ckpt":
        torch.save({"state_dict": {f"model.{key}": value for key, value in state.items()}, "epoch": 3}, folder / "last.ckpt")
    elif kind in ("half", "bfloat16"):
        rounded = {key: value.to(getattr(torch, kind)) for key, value in state.items()}
        model = parity.build(NAME, **ARGUMENTS)
        model.load_state_dict(rounded)
        expected = parity.expected_features(model, images)["cls"]
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
    found, _ = parity.features(folder, images, **SETTINGS)
    assert parity.difference(found, expected) <= tolerance


def test_a_grey_patch_embedding(folder, images):
    model = parity.build(NAME, **ARGUMENTS, in_chans=1)
    parity.save_folder(model, folder, NAME, **ARGUMENTS, in_chans=1)
    grey = images[:, :1]
    found, _ = parity.features(folder, grey.expand(-1, 3, -1, -1), **SETTINGS)
    assert parity.difference(found, parity.expected_features(model, grey)["cls"]) <= parity.FP32_DIFFERENCE


def test_arguments_of_the_config(folder, images):
    changed = {**ARGUMENTS, "act_layer": "quick_gelu", "num_heads": 6, "init_values": 1e-5, "reg_tokens": 2}
    model = parity.build(NAME, **changed)
    parity.save_folder(model, folder, NAME, **changed)
    found, description = parity.features(folder, images, **SETTINGS)
    assert parity.difference(found, parity.expected_features(model, images)["cls"]) <= parity.FP32_DIFFERENCE
    assert description["architecture"]["activation"] == "quick_gelu" and description["architecture"]["heads"] == 6


def test_arguments_of_null_are_left_out(folder, images, expected):
    change_config(folder, model_args={**ARGUMENTS, "num_heads": None, "act_layer": None, "block_fn": None})
    found, _ = parity.features(folder, images, **SETTINGS)
    assert parity.difference(found, expected) <= parity.FP32_DIFFERENCE


def test_a_config_with_a_long_table_of_classes(folder, images, expected):
    change_config(folder, label_descriptions={f"n{i}": "a class" for i in range(21_841)})
    found, _ = parity.features(folder, images, **SETTINGS)
    assert parity.difference(found, expected) <= parity.FP32_DIFFERENCE


def test_options_go_before_the_config(folder, images):
    model = parity.build(NAME, **ARGUMENTS, act_layer="gelu_tanh", num_heads=6)
    parity.save_folder(model, folder, NAME, **ARGUMENTS)
    found, description = parity.features(folder, images, **SETTINGS, heads=6, activation="gelu_tanh")
    assert parity.difference(found, parity.expected_features(model, images)["cls"]) <= parity.FP32_DIFFERENCE
    assert description["architecture"]["activation"] == "gelu_tanh"


def test_a_config_of_something_else_beside_a_file(folder, images, expected):
    (folder / "config.json").write_text('{"name": "a web page"}')
    found, _ = parity.features(folder / "model.safetensors", images, **SETTINGS)
    assert parity.difference(found, expected) <= parity.FP32_DIFFERENCE


def change_index(folder, change):
    index = split_into_shards(folder)
    content = json.loads(index.read_text())
    change(content["weight_map"])
    index.write_text(json.dumps(content))


def overlap(folder):
    index = split_into_shards(folder)
    shards = sorted(folder.glob("model-*.safetensors"))
    first, second = (safetensors.torch.load_file(shard) for shard in shards)
    safetensors.torch.save_file({**second, "cls_token": torch.ones(1, 1, 192), "norm.weight": torch.ones(192)}, shards[1])
    assert index.exists() and ("cls_token" in first or "norm.weight" in first)


def change_config(folder, **values):
    config = json.loads((folder / "config.json").read_text())
    config |= values
    (folder / "config.json").write_text(json.dumps(config))


def add_wrapped_twin(folder):
    state = safetensors.torch.load_file(folder / "model.safetensors")
    state["_orig_mod.norm.bias"] = state["norm.bias"] + 1
    safetensors.torch.save_file(state, folder / "model.safetensors")


def write_config(folder, **values):
    (folder / "config.json").write_text(json.dumps(values))


HOSTILE = {
    "shard_outside": (lambda f: change_index(f, lambda m: m.update({"norm.bias": "../model.safetensors"})),
                      "the shard '../model.safetensors' lies outside"),
    "shard_absolute": (lambda f: change_index(f, lambda m: m.update({"norm.bias": "/etc/passwd"})), "lies outside"),
    "shard_missing": (lambda f: change_index(f, lambda m: m.update({"norm.bias": "x.safetensors"})),
                      "the shard 'x.safetensors' is not beside the index"),
    "shard_of_no_text": (lambda f: change_index(f, lambda m: m.update({"norm.bias": 3})), "gives tensor 'norm.bias' no file"),
    "shards_overlap": (overlap, "which the index places in"),
    "tensor_in_no_shard": (lambda f: change_index(f, lambda m: m.update({"extra": m["norm.bias"]})),
                           "the index places tensor 'extra'"),
    "tensor_not_named": (lambda f: change_index(f, lambda m: m.pop("norm.bias")), "which the index does not name"),
    "a_million_keys": (lambda f: change_index(f, lambda m: m.update({f"t{i}": "x" for i in range(1_000_000)})),
                       "an object with more than 4096 keys"),
    "a_million_keys_of_a_config": (lambda f: change_config(f, label_descriptions={f"t{i}": "x" for i in range(1_000_000)}),
                                   "an object with more than 131072 keys"),
    "two_tensors_of_one_name": (add_wrapped_twin, "'_orig_mod.norm.bias' and 'norm.bias' are both 'norm.bias'"),
    "index_without_map": (lambda f: split_into_shards(f).write_text("{}"), "no object 'weight_map'"),
    "index_cut_short": (lambda f: split_into_shards(f).write_text('{"weight_map": {"a"'), "is not valid JSON"),
    "no_weights": (lambda f: (f / "model.safetensors").unlink(), "the folder holds no weights"),
    "several_weights": (lambda f: [(f / "model.safetensors").rename(f / "a.pth"), (f / "b.pth").write_bytes(b"")],
                        r"several files of weights \(a.pth, b.pth\)"),
    "config_cut_short": (lambda f: (f / "config.json").write_text('{"architecture": "vit'), "is not valid JSON"),
    "config_of_a_list": (lambda f: (f / "config.json").write_text("[1]"), "it holds no object"),
    "config_of_another_model": (lambda f: change_config(f, architecture="resnet50"), "unknown architecture 'resnet50'"),
    "config_of_other_weights": (lambda f: change_config(f, architecture="vit_small_patch16_224"),
                                "not of timm's vit_small_patch16_224.*width 192 instead of 384"),
    "unsupported_model": (lambda f: change_config(f, architecture="vit_base_patch16_sapiens2"), "grouped queries"),
    "unknown_argument": (lambda f: change_config(f, model_args={**ARGUMENTS, "block_fn": "mine"}),
                         "'model_args' has 'block_fn', which is not understood"),
    "argument_of_another_kind": (lambda f: change_config(f, model_args={**ARGUMENTS, "num_heads": "many"}),
                                 "'num_heads' is \"many\", expected a whole number"),
    "oblong_images": (lambda f: change_config(f, model_args={**ARGUMENTS, "img_size": [48, 32]}), "only squares"),
    "heads_that_do_not_divide": (lambda f: change_config(f, model_args={**ARGUMENTS, "num_heads": 5}), "5 does not divide"),
    "another_interpolation": (lambda f: change_config(f, pretrained_cfg={"interpolation": "lanczos"}),
                              "interpolation 'lanczos' is not supported"),
    "std_of_zero": (lambda f: change_config(f, pretrained_cfg={"std": [0.2, 0, 0.2]}), r"config.json.*'std' is .*expected numbers above 0"),
    "mean_beyond_floats": (lambda f: change_config(f, pretrained_cfg={"mean": 1e300}), "'mean' is 1e\\+300, expected finite numbers"),
    "negative_image_size": (lambda f: change_config(f, model_args={**ARGUMENTS, "img_size": [-48, -48]}),
                            r"'img_size' is \[-48,-48\], expected a whole number"),
    "epsilon_of_two": (lambda f: write_config(f, model_type="vit", layer_norm_eps=2), "'layer_norm_eps' is 2, expected more than 0"),
    "transformers_config_of_timm_weights": (lambda f: write_config(f, model_type="vit", num_attention_heads=3),
                                            "is of transformers' vit, whose .* but these have the names of timm"),
    "open_clip_config_of_timm_weights": (lambda f: write_config(f, model_cfg={"vision_cfg": {"width": 192, "layers": 2}}),
                                         "is of open_clip's ViT, whose .* but these have the names of timm"),
    "mean_of_two": (lambda f: change_config(f, pretrained_cfg={"mean": [0, 1]}), "'mean' is .*expected one number or three"),
    "unknown_type": (lambda f: (f / "config.json").write_text('{"model_type": "swin"}'), "'model_type' is 'swin', expected vit"),
    "unknown_activation": (lambda f: (f / "config.json").write_text('{"model_type": "vit", "hidden_act": "relu"}'),
                           "'hidden_act' is 'relu'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_wrong_is_one_clear_error(case, folder, images):
    spoil, message = HOSTILE[case]
    spoil(folder)
    with pytest.raises(parity.Refused, match=message) as refusal:
        parity.features(folder, images, **SETTINGS)
    *before, last = str(refusal.value).splitlines()
    assert last.startswith("error: ") and not any(line.startswith("error") for line in before)
