"""Models of timm, transformers and open_clip with random weights, cut in depth, against Coldframe: parity.csv.

    parity.py [PATTERN…]    examines the models whose names match, all without a pattern, and prints each verdict with
                            its figures; without a pattern it writes parity.csv, where rows that are there stay

What a library itself gives as a model's features (timm's `model(x)`, transformers' pooled output or what its classifier
reads, `get_image_features`, open_clip's `encode_image`) is what its folder must give, and goes before any pick of tokens.

The columns: fp32 features of the class token, of the mean and of the model's other pooling at the model's own size and at
another one (relative difference to the largest at most 1e-5), in bf16 and fp16 (cosine at least 0.9999), from its folder
with no option but --weights (the pixels that the library's own preprocessing makes of uint8 images of several sizes,
value for value, and the features of these), and of the weights alone, without their config. A model is equal, or refused.
"""

import csv
import functools
import json
import pathlib
import re
import sys
import tempfile

import timm
import torch

import foreign_models
from timm_models import PIXELS, build, expected_features, images_of, save_folder, transform_with, usual_pool
from timm_rows import CARDS, MODULES, Unsupported, build_on_meta, names, table_row
from vit_features import FP32_DIFFERENCE, HALF_COSINE, Refused, cosine, difference, features, from_folder, pictures

TABLE = pathlib.Path(__file__).with_name("parity.csv")
COLUMNS = ("native size", "other size", "bf16", "fp16", "from folder", "without config")

DEPTH = 2
WIDE = 1200  # features of a token beyond which one block is enough
PATCHES = 6  # along an image's side, so that hundreds of models take minutes


def verdict(check):
    """("equal" | "rounded" | "refused" | "-" | "DIFFERENT", figure or message) of what `check` gives: whether it is
    equal, or the word for it, and a figure."""
    try:
        equal, figure = check()
    except Refused as refusal:
        return "refused", str(refusal).splitlines()[-1]
    return {True: "equal", False: "DIFFERENT", None: "-"}.get(equal, equal), f"{figure:.1e}"


def asked(found):
    """Weights without their config are taken for what they are, or a name is asked for."""
    kind, message = found
    return ("UNCLEAR", message) if kind == "refused" and "--architecture" not in message else found


def parts_of(expected):
    """The fewest poolings that show all."""
    both = "cls+mean" if "cls" in expected else "mean"
    return [both, *(word for word in ("map", "prefix-mean") if word in expected)]


def compare(weights, images, expected, precision="fp32", **settings):
    """The worst of all poolings; None where nothing is expected."""
    if expected is None:
        return features(weights, images, pool="mean") and (None, 0)
    worst = []
    for pool in parts_of(expected):
        found, _ = features(weights, images, pool=pool, precision=precision, **settings)
        halves = [slice(None)] if pool != "cls+mean" else [slice(0, found.shape[1] // 2), slice(found.shape[1] // 2, None)]
        measure = difference if precision == "fp32" else cosine
        worst += [measure(found[:, half], expected[pool][:, half]) for half in halves]
    if precision == "fp32":
        return max(worst) <= FP32_DIFFERENCE, max(worst)
    return min(worst) >= HALF_COSINE, 1 - min(worst)


def compare_folder(folder, shown, reference):
    """The pixels of pictures, and the features of these, without an option but --weights; `reference` gives both."""
    pixels, found, description = from_folder(shown, "--weights", folder)
    wanted, expected = reference()
    if not torch.equal(pixels, wanted):
        std = torch.tensor(description["preprocessing"]["std"]).view(3, 1, 1)
        levels = ((pixels - wanted) * std * 255).abs().max().item()
        return "rounded" if levels < 1.05 else False, levels
    figure = difference(found, expected)
    return figure <= FP32_DIFFERENCE, figure


def examine(folder, stripped, images, expected, other_images, other_expected, check_folder, **settings):
    """The verdict of each column."""
    return (verdict(lambda: compare(folder, images, expected, **settings)),
            verdict(lambda: compare(folder, other_images, other_expected(), **settings)),
            verdict(lambda: compare(folder, images, expected, "bf16", **settings)),
            verdict(lambda: compare(folder, images, expected, "fp16", **settings)),
            verdict(check_folder),
            asked(verdict(lambda: compare(stripped, images, expected))))


def without_config(weights, folder):
    link = folder / "stripped" / f"weights{weights.suffix}"
    link.parent.mkdir()
    link.symlink_to(weights)
    return link


def examine_timm(name, folder):
    patch = int(re.search(r"patch(\d+)", name).group(1)) if "patch" in name else 16
    size = PATCHES * patch
    arguments = {"img_size": size, "depth": depth_of(name)}
    model = build(name, **arguments)
    pixels = save_folder(model, folder, name, **arguments)
    images, other_images = images_of(size), images_of(size + 2 * patch)
    expected = expected_features(model, images)

    def other_expected():
        model.set_input_size(img_size=tuple(other_images.shape[2:]))
        return expected_features(model, other_images)

    stripped = without_config(folder / "model.safetensors", folder)
    wanted = transform_with(pixels)(pictures())
    from_pictures = expected_features(model, wanted)[usual_pool(model)]
    return examine(folder, stripped, images, expected, other_images, other_expected,
                   lambda: compare_folder(folder, pictures(), lambda: (wanted, from_pictures)))


def examine_card(name, folder):
    """No config can hold the objects that a card gives to timm.create_model, and Coldframe's name stands for the whole
    depth: the weights alone must do, with an activation where they leave it open."""
    patch = build_on_meta(name).patch_embed.patch_size[0]
    size = PATCHES * patch
    model = build(name, img_size=size, depth=depth_of(name))
    save_folder(model, folder, name)
    (folder / "config.json").unlink()
    images, other_images = images_of(size), images_of(size + 2 * patch)
    expected = expected_features(model, images)

    def other_expected():
        model.set_input_size(img_size=tuple(other_images.shape[2:]))
        return expected_features(model, other_images)

    settings = {"activation": "gelu_tanh"} if name == "medsiglip" else {}
    weights = folder / "model.safetensors"
    return examine(weights, weights, images, expected, other_images, other_expected,
                   lambda: (None, 0), **settings)


def examine_foreign(model, folder):
    """A model of foreign_models, saved in its folder."""
    images, other_images = (model.images(size) for size in model.sizes)
    shown = model.pictures()

    def reference():
        wanted = model.transform(shown)
        return wanted, model.own_features(wanted)

    return examine(folder, without_config(model.weights, folder), images, model.features(images), other_images,
                   lambda: model.features(other_images), lambda: compare_folder(folder, shown, reference))


def pixel_configs(name):
    """Every distinct preprocessing that timm's pretrained weights of this name have, at their own sizes."""
    configs = (timm.get_pretrained_cfg(tag).to_dict() for tag in timm.list_pretrained(f"{name}.*") or [name])
    return list({json.dumps({key: config[key] for key in PIXELS if key in config}): None for config in configs})


@functools.cache
def examine_pixels(config):
    """timm's own transform of pretrained weights, and ours, as their folder states it."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "model.safetensors").touch()
        (folder / "config.json").write_text(json.dumps(
            {"architecture": "vit_tiny_patch16_224", "pretrained_cfg": json.loads(config)}))
        shown = pictures()
        found, _, _ = from_folder(shown, "--weights", folder, computes=False)
    wanted = transform_with(json.loads(config))(shown)
    return torch.equal(found, wanted), 0 if found.shape != wanted.shape else difference(found, wanted)


@functools.cache
def width_and_row(name):
    """What of timm's model is left when its images have our size: several names stand for the same."""
    model = build_on_meta(name)
    try:
        row = tuple(value for key, value in table_row(model).items() if key not in ("image", "position_grid"))
    except Unsupported as reason:
        row = name, str(reason)
    return model.embed_dim, row


def depth_of(name):
    return 1 if width_and_row(name)[0] > WIDE else DEPTH


def with_pixels(name, verdicts):
    """The pixels of all pretrained weights of the name count, too."""
    at = COLUMNS.index("from folder")
    checks = [verdict(lambda config=config: examine_pixels(config)) for config in pixel_configs(name)]
    worst = next((check for check in checks if check[0] != "equal"), verdicts[at])
    return [*verdicts[:at], worst if verdicts[at][0] == "equal" else verdicts[at], *verdicts[at + 1:]]


def refused_by_name(name):
    """timm cannot always cut such a model in depth."""
    return [verdict(lambda: features(None, images_of(64), seed=0, architecture=name) and (False, 0))] * len(COLUMNS)


def in_a_folder(check, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        return check(*arguments, pathlib.Path(folder))


def timm_rows(chosen, known):
    """(library, model, verdicts) of timm's names; those that stand for the same model are examined once."""
    for name in sorted(chosen, key=width_and_row):
        _, row = width_and_row(name)
        if row not in known:
            known[row] = refused_by_name(name) if row[0] == name else in_a_folder(examine_timm, name)
        yield "timm", name, known[row] if row[0] == name else with_pixels(name, known[row])


def all_rows(wanted):
    """Every row whose model is wanted."""
    known = {}
    yield from timm_rows([name for module in MODULES for name in names(module) if wanted(name)], known)
    for name in filter(wanted, sorted(CARDS)):
        yield "card", name, in_a_folder(examine_card, name)
    for library, models in foreign_models.LIBRARIES.items():
        for name in filter(wanted, models):
            yield library, name, in_a_folder(lambda folder: examine_foreign(models[name](folder), folder))


def read_table():
    with TABLE.open() as file:
        return {(row["library"], row["model"]): row for row in csv.DictReader(file)}


def write_table(rows):
    with TABLE.open("w") as file:
        writer = csv.DictWriter(file, ["library", "model", *COLUMNS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def main(patterns):
    table = {} if patterns or not TABLE.exists() else read_table()
    there = {model for _, model in table}
    wrong = 0
    for library, name, verdicts in all_rows(
            lambda model: any(re.search(pattern, model) for pattern in patterns) if patterns else model not in there):
        print(f"{library} {name}", *(f"{column}: {kind} ({detail[-160:]})" for column, (kind, detail) in
                                     zip(COLUMNS, verdicts)), sep="\n    ", flush=True)
        wrong += any(kind in ("DIFFERENT", "UNCLEAR") for kind, _ in verdicts)
        table[library, name] = {"library": library, "model": name, **{column: kind for column, (kind, _) in
                                                                       zip(COLUMNS, verdicts)}}
        if not patterns:
            write_table(table)
    print(f"{len(table)} models, {wrong} of those examined now are different or refused unclearly")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
