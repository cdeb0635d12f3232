"""Augmented views against Pillow (geometry: no pixel may differ), NumPy and torchvision (levels)."""

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms import functional

from augment_helper import noise, view, with_numpy, with_pillow
SIZES = [(1, 1), (7, 1), (1, 9), (2, 3), (64, 64), (301, 17), (123, 211), (480, 430)]


@pytest.mark.parametrize("augment", ["flip", "vflip", "rotate=10", "rotate=180", "scale=0.3:0.9",
                                     "flip,vflip,rotate=25,scale=0.5:1"])
def test_geometry_equals_pillow(augment):
    seen = set()
    for width, height in SIZES:
        for number in (1, 2, 3):
            rgb = noise(width, height)
            drawn, warped, levels = view(augment, [rgb], exam=f"{width}x{height}", number=number)
            assert np.array_equal(warped[0], with_pillow(drawn, rgb)), (width, height, drawn)
            assert np.array_equal(levels[0], warped[0])
            seen.add((drawn["flip"], drawn["vflip"], drawn["angle"], drawn["x"]))
    assert len(seen) > 1


@pytest.mark.parametrize("angle", [90, -90, 45, 180, -180, 0.001])
def test_given_angles_equal_pillow(angle):
    for width, height in [(64, 64), (31, 50)]:
        rgb = noise(width, height, 1)
        drawn, warped, _ = view(f"rotate={angle}:{angle}", [rgb])
        assert drawn["angle"] == angle
        expected = np.asarray(Image.fromarray(rgb).rotate(angle, Image.Resampling.BILINEAR))
        assert np.array_equal(warped[0], expected)


def test_rotation_equals_torchvision_on_pil_images():
    rgb = noise(200, 150, 2)
    drawn, warped, _ = view("rotate=30", [rgb])
    expected = functional.rotate(Image.fromarray(rgb), drawn["angle"], functional.InterpolationMode.BILINEAR)
    assert np.array_equal(warped[0], np.asarray(expected))


@pytest.mark.parametrize("augment", ["brightness=0.4", "contrast=0.5", "gamma=0.5", "contrast=3:4",
                                     "brightness=0.2,contrast=0.2,gamma=0.2"])
def test_levels_equal_numpy(augment):
    dark = noise(40, 30) // 3
    frames = [dark, noise(40, 30, 1), np.full((30, 40, 3), 7, np.uint8)]
    for number in (1, 2, 3, 4):
        drawn, warped, levels = view(augment, frames, number=number)
        assert np.array_equal(warped, frames)
        expected = with_numpy(drawn, frames)
        # float32 may fall on the other side where the exact level lies halfway.
        sure = np.abs(expected % 1 - 0.5) > 1e-4
        assert np.array_equal(levels[sure], np.floor(expected + 0.5)[sure]) and sure.mean() > 0.9
        assert np.abs(levels - expected).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("name, adjust", [("brightness", functional.adjust_brightness),
                                          ("contrast", functional.adjust_contrast)])
def test_levels_are_torchvisions_but_for_rounding(name, adjust):
    rgb = noise(50, 60, 3) // 2
    for number in (1, 2, 3):
        drawn, _, levels = view(f"{name}=0.4", [rgb], number=number)
        expected = np.asarray(adjust(Image.fromarray(rgb), drawn[name]))  # which cuts off
        assert np.abs(levels[0].astype(int) - expected).max() <= 1


def test_gamma_is_torchvisions_but_for_rounding():
    rgb = noise(50, 60, 3)
    drawn, _, levels = view("gamma=0.8", [rgb])
    expected = np.asarray(functional.adjust_gamma(Image.fromarray(rgb), drawn["gamma"]))
    assert np.abs(levels[0].astype(int) - expected).max() <= 1


def test_noise_is_gaussian_grey_and_the_same_in_all_frames():
    frames = [np.full((300, 400, 3), 120, np.uint8), np.full((300, 400, 3), 90, np.uint8)]
    drawn, _, levels = view("noise=0.05:0.05", frames)
    added = levels.astype(float) - np.stack(frames)
    assert np.array_equal(added[0], added[1])
    assert np.array_equal(added[0, ..., 0], added[0, ..., 1]) and np.array_equal(added[0, ..., 0], added[0, ..., 2])
    values = added[0, ..., 0].ravel()
    deviation = 0.05 * 255
    assert abs(values.mean()) < 4 * deviation / np.sqrt(values.size)
    assert abs(values.std() / np.hypot(deviation, 12 ** -0.5) - 1) < 0.01  # rounding adds 1/12
    for quantile, normal in [(0.023, -1.995), (0.159, -0.9986), (0.5, 0), (0.841, 0.9986), (0.977, 1.995)]:
        assert abs(np.quantile(values, quantile) / deviation - normal) < 0.08
    image = values.reshape(300, 400)
    for a, b in [(image[:, 1:], image[:, :-1]), (image[1:], image[:-1]), (image[:, ::2], image[:, 1::2])]:
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02


def test_clipping_stays_within_levels():
    frames = [np.zeros((20, 20, 3), np.uint8), np.full((20, 20, 3), 255, np.uint8)]
    _, _, levels = view("noise=0.3:0.3,brightness=1:1.5", frames)
    assert levels[0].min() == 0 and levels[1].max() == 255
