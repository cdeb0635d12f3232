"""Models of timm with random weights, cut in depth, against Coldframe's features of the same weights.

    parity.py [PATTERN…]    prints a line for each model of timm's vision_transformer.py, deit.py, eva.py and beit.py:
                            its verdict with the config beside the weights, and without; writes census.csv when no
                            pattern is given
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy
import safetensors.torch
import timm
import torch

from timm_models import images_of, train_like
from timm_rows import MODULES, Unsupported, build_on_meta, names, table_row

REPO = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", REPO / "build"))
DRIVER = BUILD / "tests" / "vit_driver"
CENSUS = pathlib.Path(__file__).with_name("census.csv")

FP32_DIFFERENCE = 1e-5  # relative to the largest feature
DEPTH = 2
WIDE = 1200  # features of a token beyond which one block is enough
PATCHES = 6  # along an image's side, so that hundreds of models take minutes


class Refused(Exception):
    pass


def features(weights, images, **settings):
    """What the driver makes of the images, and its description; Refused with its message."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        images.contiguous().numpy().tofile(folder / "images.bin")
        command = [str(DRIVER), "features", f"input={folder / 'images.bin'}", f"output={folder / 'features.bin'}",
                   *([f"weights={weights}"] if weights else []), f"size={images.shape[-2]}", f"width={images.shape[-1]}",
                   *(f"{key}={value}" for key, value in settings.items())]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr.strip())
        description = json.loads(done.stdout)
        found = torch.from_numpy(numpy.fromfile(folder / "features.bin", dtype=numpy.float32))
    return found.view(len(images), description["dimension"]), description


def difference(found, expected):
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert expected.std() > 1e-3, "the expected features do not vary"
    return ((found - expected).abs().max() / expected.abs().max()).item()


def build(name, seed=0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train_like(timm.create_model(name, num_classes=0, **options), seed)


def save_folder(model, folder, name, **arguments):
    """The folder of the hub that timm writes for a model made with these arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({key: value.contiguous() for key, value in model.state_dict().items()},
                                folder / "model.safetensors")
    config = {"architecture": name, "num_classes": 0, "num_features": model.num_features, "global_pool": model.global_pool,
              "model_args": arguments, "pretrained_cfg": {key: model.pretrained_cfg[key] for key in
                  ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std") if key in model.pretrained_cfg}}
    (folder / "config.json").write_text(json.dumps(config))


def expected_features(model, images):
    """By --pool: timm's tokens behind its final norm, as forward_head would pool them."""
    with torch.inference_mode():
        tokens = model.forward_features(images)
        patches = tokens[:, model.num_prefix_tokens:]
        result = {"mean": model.fc_norm(patches.mean(1))}
        if model.cls_token is not None:
            result["cls"] = model.fc_norm(tokens[:, 0])
            result["cls+mean"] = torch.cat([result["cls"], result["mean"]], 1)
        if getattr(model, "attn_pool", None) is not None:
            result["map"] = model.pool(tokens)
    return result


def worst_difference(model, weights, images, **settings):
    expected = expected_features(model, images)
    pools = ["cls+mean" if "cls" in expected else "mean", *(["map"] if "map" in expected else [])]
    return max(difference(features(weights, images, pool=pool, **settings)[0], expected[pool]) for pool in pools)


def verdict(check):
    try:
        worst = check()
    except Refused as refusal:
        return "refused", str(refusal)
    return ("equal" if worst <= FP32_DIFFERENCE else "DIFFERENT"), f"{worst:.1e}"


def small_size(name):
    patch = int(re.search(r"patch(\d+)", name).group(1)) if "patch" in name else 16
    return PATCHES * patch, patch


def examine(name, folder):
    """(verdict, detail) with the config at the native and at another size, and without it."""
    size, patch = small_size(name)
    arguments = {"img_size": size, "depth": 1 if width_of(name) > WIDE else DEPTH}
    model = build(name, **arguments)
    save_folder(model, folder, name, **arguments)
    stripped = folder / "stripped" / "weights.safetensors"
    stripped.parent.mkdir()
    stripped.symlink_to(folder / "model.safetensors")
    native = verdict(lambda: worst_difference(model, folder, images_of(size)))
    without = verdict(lambda: worst_difference(model, stripped, images_of(size)))
    other_size = size + 2 * patch
    model.set_input_size(img_size=(other_size, other_size))
    other = verdict(lambda: worst_difference(model, folder, images_of(other_size)))
    return native, other, without


def row_of(name):
    """What of timm's model is left when its images have our size: several names stand for the same."""
    try:
        row = table_row(build_on_meta(name))
    except Unsupported as reason:
        return name, str(reason)
    return tuple(value for key, value in row.items() if key not in ("image", "position_grid"))


def examine_unsupported(name):
    """Its name alone is refused; timm cannot always cut such a model in depth."""
    return (verdict(lambda: features(None, images_of(64), seed=0, architecture=name) and 0),) * 3


def width_of(name):
    return build_on_meta(name).embed_dim


def main(patterns):
    chosen = [name for module in MODULES for name in names(module)
              if not patterns or any(re.search(pattern, name) for pattern in patterns)]
    known, lines = {}, {}
    for name in sorted(chosen, key=width_of):
        row = row_of(name)
        if row not in known:
            with tempfile.TemporaryDirectory() as folder:
                supported = row[0] != name
                known[row] = examine(name, pathlib.Path(folder)) if supported else examine_unsupported(name)
            print(name, *(f"{kind} ({detail[-160:]})" for kind, detail in known[row]), sep="\n    ", flush=True)
        lines[name] = ",".join([name, *(kind for kind, _ in known[row])])
        print(f"CENSUS {lines[name]}", flush=True)
    if not patterns:
        CENSUS.write_text("\n".join(["model,native size,other size,without config", *(lines[name] for name in chosen)]) + "\n")
    wrong = sum(kind == "DIFFERENT" for verdicts in known.values() for kind, _ in verdicts)
    print(f"{len(chosen)} names of {len(known)} models, {wrong} accepted and different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
