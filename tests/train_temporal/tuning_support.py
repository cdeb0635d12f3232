"""Made exams whose label frozen random-weight features hardly show, and cut caches of them."""
import csv

import numpy as np
import safetensors.torch
import timm
import torch
from PIL import Image
from training_support import coldframe, quick, succeed

SIDE, PATCH = 64, 16
BLOCKS, CUT = 4, 2  # of tiny_vit(), and where cut_cache() cuts it
PIXELS = ["--image-size", SIDE, "--mean", 0.5, "--std", 0.5, "--pool", "cls"]


def frame(random, bright):
    """Eight of the 16 patches are bright and eight dark, in any order, each with a texture of its own; stripes mark one,
    a bright one or a dark one. To tell which, attention has to find it: the mean over patches shows nothing."""
    grid, ones = SIDE // PATCH, np.ones((PATCH, PATCH))
    level = random.permutation(np.repeat([-1, 1], grid * grid // 2)) * random.uniform(0.3, 1.7, grid * grid)
    marked = np.zeros(grid * grid)
    marked[random.choice(np.flatnonzero((level > 0) == bright))] = 1
    stripes = np.tile(np.sign(np.sin(np.arange(PATCH) * np.pi / 4 + 0.1)), (PATCH, 1))
    pixels = random.uniform(115, 140) + random.normal(0, 10, (SIDE, SIDE))
    pixels += np.kron(random.normal(0, 40, (SIDE // 2, SIDE // 2)), np.ones((2, 2)))
    pixels += 30 * np.kron(level.reshape(grid, grid), ones) + 40 * np.kron(marked.reshape(grid, grid), stripes)
    return Image.fromarray(np.repeat(pixels.clip(0, 255).astype(np.uint8)[..., None], 3, -1))


def made_exams(folder, count, frames=2, seed=0):
    """`count` exams of PNG files; `label` says whether bright patches are marked, `coin` means nothing."""
    random = np.random.default_rng(seed)
    folder.mkdir()
    with open(folder / "exams.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["exam", "path", "patient", "label", "coin"])
        for number in range(count):
            bright, coin = number % 2, random.integers(2)
            for t in range(frames):
                name = f"{number}-{t}.png"
                frame(random, bool(bright)).save(folder / name)
                rows.writerow([f"exam-{number}", name, f"patient-{number}", bright, coin])
    return folder / "exams.csv"


def extract(exams, out, *words):
    result = coldframe("extract", "--input", exams, "--out", out, *words)
    assert result.returncode == 0, result.stderr
    return out


def tiny_vit(path, seed=1):
    """The weights of a ViT-tiny of four blocks."""
    torch.manual_seed(seed)
    model = timm.create_model("vit_tiny_patch16_224", img_size=SIDE, num_classes=0, depth=BLOCKS)
    safetensors.torch.save_file(model.state_dict(), path)
    return path


def cut_cache(exams, weights, out, cut=CUT, *more):
    return extract(exams, out, "--weights", weights, *PIXELS, "--cut", cut, "--store", "float32", "--precision", "fp32", *more)


def words(cache, out, *more):
    usual = {"--folds": 1, "--threads": 1, "--epochs": 3, "--batch": 8}
    added = [part for pair in usual.items() if pair[0] not in more for part in pair]
    return ["train", "--cache", cache, "--target", "label", "--out", out, *quick(*added, *more)]


def train(cache, out, *more):
    return succeed(*words(cache, out, *more))


def tuned(weights, *more):
    return ["--tune", weights, "--tune-lr", 1e-4, *more]


def content(run):
    files = [path for path in run.rglob("*") if path.suffix in (".safetensors", ".csv")]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}
