"""What is wrong with a folder of weights, its index or its config, by malice or by accident: one clear error each."""

import json

import pytest
import safetensors.torch
import torch

import vit_features
from hub_folders import ARGUMENTS, SETTINGS, change_config, split_into_shards


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


def add_wrapped_twin(folder):
    state = safetensors.torch.load_file(folder / "model.safetensors")
    state["_orig_mod.norm.bias"] = state["norm.bias"] + 1
    safetensors.torch.save_file(state, folder / "model.safetensors")


def write_config(folder, **values):
    (folder / "config.json").write_text(json.dumps(values))


def change_index_text(folder, old, new):
    index = split_into_shards(folder)
    index.write_text(index.read_text().replace(old, new))


def link_shard(folder, target):
    """One of the shards becomes a link to where it lies now."""
    split_into_shards(folder)
    shard = sorted(folder.glob("model-*.safetensors"))[0]
    target = (folder / target).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    shard.rename(target)
    shard.symlink_to(target)


def replace_shard_by_folder(folder):
    split_into_shards(folder)
    shard = sorted(folder.glob("model-*.safetensors"))[0]
    shard.unlink()
    shard.mkdir()


def nested(depth):
    return '{"a":' * depth + "1" + "}" * depth


def write_processor(folder, processor, name="preprocessor_config.json"):
    """transformers' config with a processor; weights are not reached."""
    write_config(folder, model_type="vit")
    (folder / name).write_text(processor if isinstance(processor, str) else json.dumps(processor))


HOSTILE = {
    "shard_outside": (lambda f: change_index(f, lambda m: m.update({"norm.bias": "../model.safetensors"})),
                      "the shard '../model.safetensors' lies outside"),
    "shard_absolute": (lambda f: change_index(f, lambda m: m.update({"norm.bias": "/etc/passwd"})), "lies outside"),
    "shard_missing": (lambda f: change_index(f, lambda m: m.update({"norm.bias": "x.safetensors"})),
                      "the shard 'x.safetensors' is not next to the index"),
    "shard_of_no_text": (lambda f: change_index(f, lambda m: m.update({"norm.bias": 3})), "gives tensor 'norm.bias' no file"),
    "shard_linked_elsewhere": (lambda f: link_shard(f, "../elsewhere/x"), "is a link to a file in .*elsewhere'"),
    "shard_is_a_folder": (replace_shard_by_folder, "is not next to the index"),
    "shard_of_an_empty_name": (lambda f: change_index(f, lambda m: m.update({"norm.bias": ""})), "lies outside"),
    "shard_is_the_index": (lambda f: change_index(f, lambda m: m.update({"norm.bias": "model.safetensors.index.json"})),
                           "which the index places in 'model.safetensors.index.json'"),
    "index_is_a_list": (lambda f: split_into_shards(f).write_text("[]"), "no object 'weight_map'"),
    "index_maps_a_list": (lambda f: split_into_shards(f).write_text('{"weight_map": ["a"]}'), "no object 'weight_map'"),
    "index_maps_nothing": (lambda f: split_into_shards(f).write_text('{"weight_map": {}}'), "names no tensor"),
    "index_with_a_key_twice": (lambda f: change_index_text(f, '"weight_map": {', '"weight_map": {"norm.bias": "x", '),
                               "the key 'norm.bias' occurs twice"),
    "index_nested_deeply": (lambda f: split_into_shards(f).write_text(nested(10_000)), "nested deeper than 64"),
    "index_that_is_empty": (lambda f: split_into_shards(f).write_text(""), "is not valid JSON"),
    "index_of_other_bytes": (lambda f: split_into_shards(f).write_bytes(bytes(range(256)) * 9), "is not valid JSON"),
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
    "oblong_images": (lambda f: change_config(f, model_args={**ARGUMENTS, "img_size": [48, 32]}), r"'img_size' is \[48,32\], expected .*positions or patches are oblong are not supported"),
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
    "config_nested_deeply": (lambda f: (f / "config.json").write_text(nested(10_000)), "nested deeper than 64"),
    "config_with_a_key_twice": (lambda f: (f / "config.json").write_text('{"architecture": "a", "architecture": "b"}'),
                                "the key 'architecture' occurs twice"),
    "config_that_is_empty": (lambda f: (f / "config.json").write_text(""), "is not valid JSON"),
    "config_of_other_bytes": (lambda f: (f / "config.json").write_bytes(b'{"architecture": "\xff\xfe"}'), "is not valid JSON"),
    "config_of_nothing_known": (lambda f: write_config(f, name="a web page"), "'model_type' is ''"),
    "architecture_of_another_kind": (lambda f: change_config(f, architecture=5), "'architecture' is 5, expected text"),
    "arguments_of_another_kind": (lambda f: change_config(f, model_args=[1]), r"'model_args' is \[1\], expected an object"),
    "pixels_of_another_kind": (lambda f: change_config(f, pretrained_cfg="x"), "'pretrained_cfg' is \"x\", expected an object"),
    "mean_of_nan": (lambda f: (f / "config.json").write_text(
        '{"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {"mean": [NaN, 0, 0]}}'), "is not valid JSON"),
    "std_of_words": (lambda f: change_config(f, pretrained_cfg={"std": ["a", "b", "c"]}), "'std' is .*expected one number"),
    "crop_of_two": (lambda f: change_config(f, pretrained_cfg={"crop_pct": 2}), "'crop_pct' is 2, expected more than 0"),
    "crop_of_a_huge_number": (lambda f: (f / "config.json").write_text(
        '{"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {"crop_pct": 1e999}}'), "is not valid JSON"),
    "images_of_no_size": (lambda f: change_config(f, pretrained_cfg={"input_size": [3, 0, 0]}), "'input_size' is "),
    "images_of_a_huge_size": (lambda f: change_config(f, model_args={**ARGUMENTS, "img_size": 10**30}),
                              "'img_size' is .*expected a whole number from 0 to 1000000"),
    "heads_of_a_huge_number": (lambda f: change_config(f, model_args={**ARGUMENTS, "num_heads": 2**64}),
                               "'num_heads' is .*expected a whole number"),
    "no_heads": (lambda f: change_config(f, model_args={**ARGUMENTS, "num_heads": 0}), "0 does not divide"),
    "pooling_of_another_kind": (lambda f: change_config(f, model_args={**ARGUMENTS, "global_pool": "max"}),
                                "'global_pool' is 'max', expected token, avg or map"),
    "transformers_type_of_another_kind": (lambda f: write_config(f, model_type=7), "'model_type' is 7, expected text"),
    "transformers_width_of_a_fraction": (lambda f: write_config(f, model_type="vit", hidden_size=1.5),
                                         "'hidden_size' is 1.5, expected a whole number"),
    "transformers_image_encoder_of_a_list": (lambda f: write_config(f, model_type="clip", vision_config=[]),
                                             r"'vision_config' is \[\], expected an object"),
    "transformers_theta_of_nothing": (lambda f: write_config(f, model_type="dinov3_vit", rope_theta=0), "'rope_theta' is 0"),
    "open_clip_without_an_image_encoder": (lambda f: write_config(f, model_cfg={}), "'vision_cfg' is of no ViT"),
    "open_clip_resnet": (lambda f: write_config(f, model_cfg={"vision_cfg": {"layers": [3, 4, 6, 3], "width": 64}}),
                         "'vision_cfg' is of no ViT"),
    "open_clip_heads_of_no_width": (lambda f: write_config(f, model_cfg={"vision_cfg": {
        "layers": 2, "width": 192, "head_width": 0}}), "'head_width' 0 does not divide"),
    "open_clip_of_another_tower": (lambda f: write_config(f, model_cfg={"vision_cfg": {"timm_model_name": "resnet50"}}),
                                   "unknown architecture 'resnet50'"),
    "processor_of_a_list": (lambda f: write_processor(f, []), "preprocessor_config.json: it holds no object"),
    "processor_cut_short": (lambda f: write_processor(f, '{"size": '), "is not valid JSON"),
    "processor_with_a_key_twice": (lambda f: write_processor(f, '{"size": 1, "size": 2}'), "the key 'size' occurs twice"),
    "processor_of_another_model": (lambda f: write_processor(f, {"image_processor_type": "LevitImageProcessor"}),
                                   "'image_processor_type' is 'LevitImageProcessor', expected one of ViT, "),
    "processor_that_pads": (lambda f: write_processor(f, {"do_pad": True}), "'do_pad' is not supported"),
    "processor_that_resizes_nothing": (lambda f: write_processor(f, {"do_resize": False}), "'do_resize' is false"),
    "processor_of_oblong_images": (lambda f: write_processor(f, {"size": {"height": 2, "width": 3}}), "only squares"),
    "processor_of_the_longest_edge": (lambda f: write_processor(f, {"size": {"shortest_edge": 9, "longest_edge": 99}}),
                                      "'size' has 'longest_edge'"),
    "processor_that_crops_more_than_there_is": (lambda f: write_processor(f, {
        "size": 32, "crop_size": 64, "do_center_crop": True}), "a 'crop_size' within"),
    "processor_of_a_huge_size": (lambda f: write_processor(f, {"size": 10**18}), "'size' is .*expected a whole number"),
    "processor_of_words": (lambda f: write_processor(f, {"size": "224"}), "'size' is \"224\", expected a whole number"),
    "processor_of_another_filter": (lambda f: write_processor(f, {"resample": 1}), "interpolation 'lanczos' is not supported"),
    "processor_of_deep_images": (lambda f: write_processor(f, {"rescale_factor": 1 / 65535}), "pixels are not scaled"),
    "processor_in_a_processor": (lambda f: write_processor(f, {"image_processor": {"size": -1}}, "processor_config.json"),
                                 "processor_config.json: 'size' is -1"),
    "unknown_activation": (lambda f: (f / "config.json").write_text('{"model_type": "vit", "hidden_act": "relu"}'),
                           "'hidden_act' is 'relu'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_wrong_is_one_clear_error(case, folder, images):
    spoil, message = HOSTILE[case]
    spoil(folder)
    with pytest.raises(vit_features.Refused, match=message) as refusal:
        vit_features.features(folder, images, **SETTINGS)
    *before, last = str(refusal.value).splitlines()
    assert last.startswith("error: ") and not any(line.startswith("error") for line in before)
