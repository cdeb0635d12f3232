"""The models that engine and peers compute, and the work that they mean."""

import timm
import torch


def build(name, size, seed=0):
    """A timm model whose weights are drawn from a seed, at a trained model's scale."""
    model = timm.create_model(name, num_classes=0, img_size=size).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if key.endswith("gamma"):
                parameter.copy_(1 + 0.3 * noise)
            elif "norm" in key:
                parameter.copy_(0.2 * noise + (1 if key.endswith("weight") else 0))
            elif key in ("cls_token", "reg_token", "pos_embed"):
                parameter.copy_(0.5 * noise)
            elif key.endswith("bias"):
                parameter.copy_(0.2 * noise)
            else:
                parameter.copy_(noise * parameter[0].numel() ** -0.5)
    return model


def flops_per_image(model, size):
    """Multiplications and additions of the matrix products alone."""
    patch, width = model.patch_embed.patch_size[0], model.embed_dim
    patches = (size // patch) ** 2
    tokens = patches + model.num_prefix_tokens
    hidden = model.blocks[0].mlp.fc1.out_features
    block = 2 * tokens * width * (4 * width + 2 * hidden) + 4 * tokens * tokens * width
    return len(model.blocks) * block + 2 * patches * 3 * patch * patch * width
