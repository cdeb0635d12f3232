#!/usr/bin/env python3
"""Encoders of clips and volumes at full width and depth, random weights: Coldframe beside transformers and beside the
authors' code.

    build/test-venv/bin/python tests/extract/vit/clip_parity.py [--only WORD…] [--authors FOLDER] [--precisions fp32 bf16 fp16]

Prints a row for each size: the greatest difference of the features (the mean of tokens, as each family ends) in fp32,
relative to the largest (of 3DINO the class token), and their cosine in bf16 and fp16; exit code 1 where one is beyond
1e-5, or below 0.9999. FOLDER has clones of MCG-NJU/VideoMAE, OpenGVLab/VideoMAEv2, facebookresearch/vjepa2 and
AICONSlab/3DINO, each under its name, and their packages (einops) are installed; rows of it compare one file of weights
as the authors' training writes it. Sizes go one after the other. One of a billion weights needs 12 GiB of memory and is
left out unless --only names it (giant).
"""

import argparse
import importlib
import pathlib
import sys
import tempfile

import torch
import transformers

import clip_models
from timm_models import train_like
from vit_features import FP32_DIFFERENCE, HALF_COSINE, cosine, difference, features
from volume_models import volumes_of

SHAPES = {"small": (384, 6, 12), "base": (768, 12, 12), "large": (1024, 16, 24), "huge": (1280, 16, 32), "giant": (1408, 22, 40)}
SIZES = {"videomae": ["small", "base", "large", "huge"], "videomae2": ["small", "base", "giant"], "vjepa2": ["large", "huge", "giant"],
         "3dino": ["large"]}
OF_AUTHORS_ALONE = ("videomae2", "3dino")


def of_transformers(family, size, folder):
    width, heads, depth = SHAPES[size]
    shape = {"hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": depth}
    if family == "videomae":
        model = clip_models.videomae(**shape, intermediate_size=4 * width, image_size=224, num_frames=16)
    else:
        model = clip_models.vjepa2(**shape, mlp_ratio=48 / 11 if size == "giant" else 4, crop_size=256, frames_per_clip=16)
    model.save_pretrained(folder / "hub")
    return folder / "hub", lambda clips: clip_models.transformers_features(model, clips)["mean"], {}


def imported(folder, module):
    """A module of one of the authors' repositories, whose packages have the same names."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("src", "models", "dinov2")]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.pop(0)


def of_the_authors(family, size, folder, clones):
    path = folder / "weights.pth"
    if family == "vjepa2":
        make = getattr(imported(clones / "vjepa2", "src.models.vision_transformer"), f"vit_{size}" + "_xformers" * (size == "giant"))
        model = train_like(make(img_size=(256, 256), num_frames=16, tubelet_size=2, use_rope=True, use_sdpa=True), 0)
        torch.save({"target_encoder": {f"module.backbone.{name}": tensor for name, tensor in model.state_dict().items()}}, path)
        return path, lambda clips: model(clips.transpose(1, 2)).mean(1), {"frames": 16}
    if family == "3dino":
        make = getattr(imported(clones / "3DINO", "dinov2.models.vision_transformer"), f"vit_{size}_3d")
        model = train_like(make(patch_size=16, img_size=112, init_values=1e-5, block_chunks=4), 0)
        torch.save({"teacher": {f"backbone.{name}": tensor for name, tensor in model.state_dict().items()}}, path)
        return path, lambda volumes: model.forward_features(volumes)["x_norm_clstoken"], {"block": 112}
    clone, module = {"videomae": ("VideoMAE", "modeling_finetune"), "videomae2": ("VideoMAEv2", "models.modeling_finetune")}[family]
    patch = 14 if size == "giant" else 16
    model = train_like(getattr(imported(clones / clone, module), f"vit_{size}_patch{patch}_224")(
        all_frames=16, tubelet_size=2, use_mean_pooling=True, init_values=0.0), 0)
    torch.save({"module": model.state_dict()}, path)
    return path, lambda clips: model.forward_features(clips.transpose(1, 2)), {}


@torch.inference_mode()
def row(family, size, precisions, clones):
    """Its figures by precision."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        clips = volumes_of(112, 112, 112, batch=1) if family == "3dino" else clip_models.clips_of(16, 256 if family == "vjepa2" else 224, batch=1)
        if clones:
            weights, compute, settings = of_the_authors(family, size, folder, clones)
        else:
            weights, compute, settings = of_transformers(family, size, folder)
        expected = compute(clips)
        del compute  # and the model, before Coldframe takes its memory
        figures = {}
        for precision in precisions:
            found, _ = features(weights, clips, pool="cls" if family == "3dino" else "mean", precision=precision, **settings)
            figures[precision] = (difference if precision == "fp32" else cosine)(found, expected)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="rows with one of these words alone")
    parser.add_argument("--authors", type=pathlib.Path)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16", "fp16"])
    options = parser.parse_args()
    beyond = False
    print(f"transformers {transformers.__version__}, torch {torch.__version__}\n\n| encoder | beside | {' | '.join(options.precisions)} |\n"
          f"|{' --- |' * (2 + len(options.precisions))}")
    for family, sizes in SIZES.items():
        for size in sizes:
            for beside in ["transformers"] * (family not in OF_AUTHORS_ALONE) + ["authors"] * (options.authors is not None):
                name = f"{family} {size} {beside}"
                if not (any(word in name for word in options.only) if options.only else size != "giant"):
                    continue
                figures = row(family, size, options.precisions, options.authors if beside == "authors" else None)
                beyond |= any(figure > FP32_DIFFERENCE if precision == "fp32" else figure < HALF_COSINE for precision, figure in figures.items())
                told = [f"{figure:.1e}" if precision == "fp32" else f"{figure:.7f}" for precision, figure in figures.items()]
                print(f"| {family} {size} | {beside} | {' | '.join(told)} |", flush=True)
    return int(beyond)


if __name__ == "__main__":
    sys.exit(main())
