"""timm's models with weights at a trained model's scale, and the folders that timm writes of them."""

import json
import warnings

import safetensors.torch
import timm
import torch
from PIL import Image
from timm.models.deit import VisionTransformerDistilled

from timm_rows import create

PIXELS = ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")


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
    """timm's model of this name, or of this model card."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train_like(create(name, **options), seed)


def images_of(size, batch=2, seed=1):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(batch, 3, 7, 7, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bicubic")
    return smooth + 0.2 * torch.randn(batch, 3, size, size, generator=generator)


def save_folder(model, folder, name, **arguments):
    """The folder of the hub that timm writes for a model made with these arguments; returns what it says of pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({key: value.contiguous() for key, value in model.state_dict().items()},
                                folder / "model.safetensors")
    pixels = {key: model.pretrained_cfg[key] for key in PIXELS if key in model.pretrained_cfg}
    if "img_size" in arguments:
        pixels["input_size"] = (3, arguments["img_size"], arguments["img_size"])
    config = {"architecture": name, "num_classes": 0, "num_features": model.num_features,
              "global_pool": model.global_pool, "model_args": arguments, "pretrained_cfg": pixels}
    (folder / "config.json").write_text(json.dumps(config))
    return pixels


def usual_pool(model):
    """The word of --pool for what the model does by itself."""
    if isinstance(model, VisionTransformerDistilled):  # whatever its global_pool
        return "prefix-mean"
    return {"token": "cls", "avg": "mean", "map": "map"}[model.global_pool]


def expected_features(model, images):
    """By --pool: what timm's model itself gives, under the word for its pooling; under the others, its tokens behind the
    final norm, as forward_head of a model of that pooling would take them."""
    with torch.inference_mode():
        tokens = model.forward_features(images)
        patches = tokens[:, model.num_prefix_tokens:]
        result = {"mean": model.fc_norm(patches.mean(1))}
        if model.cls_token is not None:
            result["cls"] = model.fc_norm(tokens[:, 0])
        if getattr(model, "attn_pool", None) is not None:
            result["map"] = model.pool(tokens)
        result[usual_pool(model)] = model(images)
        if "cls" in result:
            result["cls+mean"] = torch.cat([result["cls"], result["mean"]], 1)
    return result


def transform_with(pixels):
    """timm's own preprocessing by a pretrained_cfg: pictures [height, width, 3] to [N, 3, S, S]."""
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, pretrained_cfg=pixels))
    return lambda pictures: torch.stack([transform(Image.fromarray(picture)) for picture in pictures])
