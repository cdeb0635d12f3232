"""The models that engine and peers compute, and the work that they mean."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "extract/vit"))
import timm
import timm_models
import torch


def build(name, size):
    # Not on the meta device: rotary positions lie in buffers that no weights fill.
    return timm_models.train_like(timm.create_model(name, num_classes=0, img_size=size), seed=0)


def pooling(model):
    """--pool of what the model itself returns."""
    return "mean" if model.global_pool == "avg" else "cls"


def flops_per_image(model, size):
    """Multiplications and additions of the matrix products alone."""
    patch, width = model.patch_embed.patch_size[0], model.embed_dim
    patches = (size // patch) ** 2
    tokens = patches + model.num_prefix_tokens
    weights = sum(module.weight.numel() for module in model.blocks.modules() if isinstance(module, torch.nn.Linear))
    attention = len(model.blocks) * 4 * tokens * tokens * width
    return 2 * tokens * weights + attention + 2 * patches * 3 * patch * patch * width
