"""A small model's folder as the hub has it, and changes to it."""

import json

import safetensors.torch

NAME = "vit_tiny_patch16_224"
ARGUMENTS = {"img_size": 48, "depth": 2}
SETTINGS = {"pool": "cls"}


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


def change_config(folder, **values):
    config = json.loads((folder / "config.json").read_text())
    config |= values
    (folder / "config.json").write_text(json.dumps(config))
