"""Runs preprocess_driver and makes test pictures."""

import functools
import os
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))


@functools.cache
def picture(width, height, seed=0, grey=False):
    """Noise over gradients: every weight and every clamp of a resampler shows in it."""
    rng = np.random.default_rng([seed, width, height])
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for channel in range(1 if grey else 3):
        wave = 127 + 127 * np.sin(x / (3 + channel) + y / (5 - channel))
        noise = rng.integers(0, 256, (height, width))
        planes.append(np.where(rng.random((height, width)) < 0.5, wave, noise).astype(np.uint8))
    made = planes[0] if grey else np.stack(planes, axis=-1)
    made.flags.writeable = False
    return made


def arguments(size, resize="shortest", crop_pct=1.0, interpolation="bicubic", resampler="pillow",
              mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)):
    return [str(v) for v in (size, resize, crop_pct, interpolation, resampler, *mean, *std)]


def preprocess(rgb, *args, **options):
    """(resized uint8 [H, W, 3], normalised float32 [3, H, W]) of an RGB picture; the size is S or "HxW"."""
    height, width = rgb.shape[:2]
    argv = arguments(*args, **options)
    rows, columns = (int(side) for side in (argv[0].split("x") * 2)[:2])
    output = subprocess.run([BUILD / "tests/preprocess_driver", str(width), str(height), *argv],
                            input=np.ascontiguousarray(rgb).tobytes(), stdout=subprocess.PIPE,
                            check=True).stdout
    count = rows * columns * 3
    resized = np.frombuffer(output[:count], np.uint8).reshape(rows, columns, 3)
    return resized, np.frombuffer(output[count:], np.float32).reshape(3, rows, columns)


def rescale(rgb, row_mm, column_mm, wanted_mm, interpolation, resampler):
    """The pixels of a frame of this spacing at `wanted_mm` in both directions."""
    height, width = rgb.shape[:2]
    argv = ["rescale", width, height, row_mm, column_mm, wanted_mm, interpolation, resampler]
    output = subprocess.run([BUILD / "tests/preprocess_driver", *map(str, argv)],
                            input=np.ascontiguousarray(rgb).tobytes(), stdout=subprocess.PIPE, check=True).stdout
    size, pixels = output.split(b"\n", 1)
    width, height = map(int, size.split())
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)
