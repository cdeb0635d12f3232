"""The models that engine and peers compute, and the work that they mean."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "extract/vit"))
import timm_models


def build(name, size):
    return timm_models.build(name, img_size=size)


def flops_per_image(model, size):
    """Multiplications and additions of the matrix products alone."""
    patch, width = model.patch_embed.patch_size[0], model.embed_dim
    patches = (size // patch) ** 2
    tokens = patches + model.num_prefix_tokens
    hidden = model.blocks[0].mlp.fc1.out_features
    block = 2 * tokens * width * (4 * width + 2 * hidden) + 4 * tokens * tokens * width
    return len(model.blocks) * block + 2 * patches * 3 * patch * patch * width
