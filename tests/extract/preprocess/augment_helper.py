"""Runs augment_driver, and the same view of a frame as Pillow and NumPy make it."""

import json
import os
import pathlib
import subprocess

import numpy as np
from PIL import Image, ImageOps

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))


def noise(width, height, seed=0):
    return np.random.default_rng([seed, width, height]).integers(0, 256, (height, width, 3), dtype=np.uint8)


def view(augment, frames, seed=0, exam="A", number=1):
    """The transform, the warped frames [T, h, w, 3], and these with other levels."""
    height, width = frames[0].shape[:2]
    done = subprocess.run([BUILD / "tests/augment_driver", augment, str(seed), exam, str(number), str(width), str(height)],
                          input=np.stack(frames).tobytes(), stdout=subprocess.PIPE, check=True).stdout
    line, pixels = done.split(b"\n", 1)
    drawn = json.loads(line)
    pixels = np.frombuffer(pixels, np.uint8).reshape(len(frames), 2, drawn["height"], drawn["width"], 3)
    return drawn, pixels[:, 0], pixels[:, 1]


def with_pillow(drawn, rgb):
    image = Image.fromarray(rgb)
    if drawn["flip"]:
        image = ImageOps.mirror(image)
    if drawn["vflip"]:
        image = ImageOps.flip(image)
    image = image.rotate(drawn["angle"], Image.Resampling.BILINEAR)
    width, height = (max(1, round(side * drawn["side"])) for side in image.size)
    left = int(drawn["x"] * (image.width - width + 1))
    top = int(drawn["y"] * (image.height - height + 1))
    return np.asarray(image.crop((left, top, left + width, top + height)))


def with_numpy(drawn, frames, pivot=None):
    """The levels that the mean grey of `pivot` (the first frame) and the transform give, before rounding."""
    luma = np.asarray(Image.fromarray(frames[0] if pivot is None else pivot).convert("L"))
    brightness, contrast, gamma = drawn["brightness"], drawn["contrast"], drawn["gamma"]
    grey = min(1, int(luma.mean() + 0.5) / 255 * brightness)
    levels = np.clip(np.stack(frames) / 255 * brightness, 0, 1)
    return 255 * np.clip(grey + (levels - grey) * contrast, 0, 1) ** gamma
