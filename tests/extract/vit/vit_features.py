"""What Coldframe makes of weights: features of normalised images, and of pictures as a folder says; and how far they
are from others."""

import json
import pathlib
import sys
import tempfile

import numpy
import torch

REPO = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(REPO / "tests" / "support"))

from loaded_program import BUILD, loaded  # noqa: E402

FP32_DIFFERENCE = 1e-5  # relative to the largest feature
HALF_COSINE = 0.9999


class Refused(Exception):
    pass


def run(driver, *words):
    done = loaded(BUILD / "tests" / driver).run(words)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return json.loads(done.stdout)


def features(weights, images, **settings):
    """What the driver makes of the images, and its description; Refused with its message."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        images.contiguous().numpy().tofile(folder / "images.bin")
        description = run("vit_driver", "features", f"input={folder / 'images.bin'}", f"output={folder / 'features.bin'}",
                          *([f"weights={weights}"] if weights else []), f"size={images.shape[-2]}",
                          f"width={images.shape[-1]}", *(f"{key}={value}" for key, value in settings.items()))
        found = torch.from_numpy(numpy.fromfile(folder / "features.bin", dtype=numpy.float32))
    return found.view(len(images), description["clip_steps"] * description["dimension"]), description


def from_folder(pictures, *options, computes=True):
    """Pixels [N, 3, S, S], features [N, D] and their description, as `coldframe extract` makes them of pictures
    [height, width, 3] with these options; features only if it `computes`."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with open(folder / "pictures.bin", "wb") as file:
            for picture in pictures:
                numpy.array(picture.shape[1::-1], numpy.int32).tofile(file)
                file.write(numpy.ascontiguousarray(picture).tobytes())
        description = run("folder_driver", "features" if computes else "pixels", folder / "pictures.bin",
                          folder / "out.bin", *options)
        found = torch.from_numpy(numpy.fromfile(folder / "out.bin", dtype=numpy.float32))
    size = description["image_size"]
    count = len(pictures) * 3 * size * size
    inputs = len(pictures) // description.get("clip_frames", 1)
    return found[:count].view(-1, 3, size, size), found[count:].view(inputs, -1), description


def difference(found, expected):
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert expected.std() > 1e-3, "the expected features do not vary"
    return ((found - expected).abs().max() / expected.abs().max()).item()


def cosine(found, expected):
    assert found.shape == expected.shape, (found.shape, expected.shape)
    return torch.nn.functional.cosine_similarity(found, expected, dim=1).min().item()


def pictures(sizes=((640, 480), (481, 641), (96, 96), (300, 801), (53, 37))):
    """Noise over gradients, [height, width, 3]: every weight and every clamp of a resampler shows in them."""
    made = []
    for width, height in sizes:
        random = numpy.random.default_rng([7, width, height])
        y, x = numpy.mgrid[0:height, 0:width]
        waves = [127 + 127 * numpy.sin(x / (9 + 4 * channel) + y / (25 - 6 * channel)) for channel in range(3)]
        wave = numpy.stack(waves, axis=-1)
        noise = random.integers(0, 256, wave.shape)
        made.append(numpy.where(random.random((height, width, 1)) < 0.7, wave, noise).astype(numpy.uint8))
    return made
