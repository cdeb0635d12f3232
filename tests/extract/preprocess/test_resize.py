"""The resampler and the crop against torchvision on PIL images and on tensors, and timm: no value
may differ."""

import numpy as np
import PIL
import pytest
import timm.data.transforms as timm_transforms
import torch
from PIL import Image
from timm.data import create_transform
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode
from torchvision.transforms import v2

from preprocess_helper import picture, preprocess, rescale

# "pillow" follows Pillow 13's order of passes, "pillow12" that of every version before.
PILLOW = "pillow" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow12"
SIZES = [(1, 1), (1, 7), (7, 1), (2, 3), (17, 301), (301, 17), (64, 64), (224, 224), (225, 223),
         (248, 300), (640, 480), (480, 641), (1023, 769), (1024, 1024), (1, 1000), (300, 801), (801, 300), (300, 700)]
MODES = {"bicubic": InterpolationMode.BICUBIC, "bilinear": InterpolationMode.BILINEAR}


def reference(mode, size, crop_pct, interpolation):
    scaled = int(np.floor(size / crop_pct))
    if mode == "shortest":
        return v1.Compose([v1.Resize(scaled, MODES[interpolation]), v1.CenterCrop(size)])
    if mode == "squash":
        return v1.Compose([v1.Resize((scaled, scaled), MODES[interpolation]), v1.CenterCrop(size)])
    fill = [round(255 * v) for v in (0.485, 0.456, 0.406)]
    return v1.Compose([
        timm_transforms.ResizeKeepRatio((scaled, scaled), 1.0, interpolation),
        timm_transforms.CenterCropOrPad((size, size), fill=tuple(fill))])


@pytest.mark.parametrize("interpolation", MODES)
@pytest.mark.parametrize("mode", ["shortest", "squash", "pad"])
@pytest.mark.parametrize("crop_pct", [0.875, 0.9, 1.0])
def test_resize_and_crop_equal_torchvision_on_pil_images(mode, crop_pct, interpolation):
    for width, height in SIZES:
        if mode == "pad" and max(width, height) > 448 * min(width, height):
            continue  # timm scales the short edge to nothing there and fails
        rgb = picture(width, height)
        expected = np.asarray(reference(mode, 224, crop_pct, interpolation)(Image.fromarray(rgb)))
        resized, _ = preprocess(rgb, 224, mode, crop_pct, interpolation, PILLOW)
        assert np.count_nonzero(resized != expected) == 0, (width, height)


@pytest.mark.parametrize("interpolation", MODES)
def test_grey_images_equal_torchvision_on_grey_pil_images(interpolation):
    for width, height in SIZES:
        grey = picture(width, height, grey=True)
        expected = np.asarray(reference("shortest", 64, 0.9, interpolation)(Image.fromarray(grey)))
        resized, _ = preprocess(np.repeat(grey[..., None], 3, -1), 64, "shortest", 0.9,
                                interpolation, PILLOW)
        assert np.count_nonzero(resized != expected[..., None]) == 0, (width, height)


@pytest.mark.parametrize("size", [1, 15, 98, 392, 518])
def test_other_output_sizes(size):
    for width, height in SIZES:
        rgb = picture(width, height, seed=1)
        expected = np.asarray(reference("shortest", size, 0.9, "bicubic")(Image.fromarray(rgb)))
        assert np.array_equal(preprocess(rgb, size, "shortest", 0.9, "bicubic", PILLOW)[0], expected), (width, height)


@pytest.mark.parametrize("mode, crop_mode", [("shortest", "center"), ("squash", "squash"), ("pad", "border")])
@pytest.mark.parametrize("crop_pct", [0.875, 1.0])
@pytest.mark.parametrize("rows, columns", [(64, 96), (112, 64), (98, 100)])
def test_oblong_sizes_equal_timms(rows, columns, crop_pct, mode, crop_mode):
    transform = create_transform((3, rows, columns), crop_pct=crop_pct, crop_mode=crop_mode, interpolation="bicubic")
    transform.transforms = transform.transforms[:-2]  # without ToTensor and Normalize
    for width, height in SIZES:
        if max(width, height) > 40 * min(width, height):
            continue  # timm scales the short edge to nothing there and fails
        rgb = picture(width, height, seed=2)
        expected = np.asarray(transform(Image.fromarray(rgb)))
        resized, _ = preprocess(rgb, f"{rows}x{columns}", mode, crop_pct, "bicubic", PILLOW)
        assert np.array_equal(resized, expected), (width, height)


def test_frames_smaller_than_the_crop_are_surrounded_with_black():
    rgb = picture(50, 41)
    expected = np.asarray(reference("shortest", 64, 1.3, "bicubic")(Image.fromarray(rgb)))
    assert np.array_equal(preprocess(rgb, 64, "shortest", 1.3, "bicubic", PILLOW)[0], expected)


@pytest.mark.parametrize("interpolation", MODES)
def test_pillow12_resamples_horizontally_first(interpolation):
    method = Image.Resampling[interpolation.upper()]
    for width, height in SIZES:
        image = Image.fromarray(picture(width, height, seed=3))
        expected = np.asarray(image.resize((98, height), method).resize((98, 98), method))
        resized, _ = preprocess(np.asarray(image), 98, "squash", 1.0, interpolation, "pillow12")
        assert np.array_equal(resized, expected), (width, height)


@pytest.mark.skipif(PILLOW != "pillow", reason="this Pillow is older than 13")
def test_the_order_of_passes_is_pillow_13s():
    rng = np.random.default_rng(4)
    for width, height in rng.integers(1, 500, (150, 2)):
        rgb = picture(width, height)
        expected = np.asarray(Image.fromarray(rgb).resize((98, 98), Image.Resampling.BICUBIC))
        assert np.array_equal(preprocess(rgb, 98, "squash")[0], expected), (width, height)


@pytest.mark.parametrize("interpolation", MODES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous"])
def test_torch_resampler_equals_torchvision_v2_on_tensors(layout, interpolation):
    # torchvision resizes uint8 tensors in fixed point where the processor has AVX2.
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("torchvision computes in float on this processor")
    for size, squash in ((224, False), (392, True), (98, True)):
        for width, height in SIZES:
            rgb = picture(width, height, seed=2)
            tensor = torch.from_numpy(rgb.copy()).permute(2, 0, 1)
            if layout == "contiguous":
                tensor = tensor.contiguous()
            target = (size, size) if squash else size
            transform = v2.Compose([v2.Resize(target, MODES[interpolation], antialias=True),
                                    v2.CenterCrop(size)])
            expected = transform(tensor).permute(1, 2, 0).numpy()
            resized, _ = preprocess(rgb, size, "squash" if squash else "shortest", 1.0,
                                    interpolation, "torch")
            assert np.count_nonzero(resized != expected) == 0, (size, width, height)


@pytest.mark.parametrize("interpolation", MODES)
def test_spacing_equals_pillows_resize(interpolation):
    for width, height, row, column, wanted in [(301, 200, 0.7, 0.35, 0.5), (64, 64, 1.0, 1.0, 0.3),
                                               (640, 481, 0.1, 0.1, 0.26), (33, 900, 0.05, 0.4, 0.2)]:
        rgb = picture(width, height, seed=5)
        size = (round(width * column / wanted), round(height * row / wanted))
        expected = np.asarray(Image.fromarray(rgb).resize(size, Image.Resampling[interpolation.upper()]))
        assert np.array_equal(rescale(rgb, row, column, wanted, interpolation, PILLOW), expected), (width, height)
