"""timm's models with weights at a trained model's scale."""

import timm
import torch


def train_like(model, seed):
    """Weights at a trained model's scale: with timm's starting values (layer scale 1e-5, biases 0,
    tokens 1e-6) most mistakes would hide behind the tolerance."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 0:  # CLIP's temperature
                continue
            if name.endswith("gamma"):
                parameter.copy_(1 + 0.3 * noise)
            elif "norm" in name:
                parameter.copy_(0.2 * noise + (1 if name.endswith("weight") else 0))
            elif name in ("cls_token", "reg_token", "pos_embed"):
                parameter.copy_(0.5 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.2 * noise)
            else:
                parameter.copy_(noise * parameter[0].numel() ** -0.5)
    return model.eval()


def build(name, seed=0, **options):
    with torch.device("meta"):  # timm's own starting values would only cost time
        model = timm.create_model(name, num_classes=0, **options)
    return train_like(model.to_empty(device="cpu"), seed)


def images_of(size, batch=2, seed=1):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(batch, 3, 7, 7, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bicubic")
    return smooth + 0.2 * torch.randn(batch, 3, size, size, generator=generator)
