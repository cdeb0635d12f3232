"""Images of more than 8 bits and TIFF stacks, written by tifffile and OpenCV, against numpy."""

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from frames_helper import read, run, sha256
from nifti_helper import hashes, levels

RNG = np.random.default_rng(23)


def shown(values, low=0, high=65535):
    image = levels(values, low, high)
    return sha256(image if image.ndim == 3 else np.repeat(image[..., None], 3, -1))


def deep(*shape):
    return RNG.integers(0, 65536, shape, np.uint16)


def percentiles(values):
    return np.percentile(values.astype(float), (1, 99))


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bits(tmp_path, suffix, channels):
    values = deep(21, 34) if channels == 1 else deep(21, 34, channels)
    folder = tmp_path / "exam"
    folder.mkdir()
    for number in range(2):
        path = folder / f"{number}.{suffix}"
        content = values // (number + 1)
        if suffix == "tif":
            tifffile.imwrite(path, content, photometric="rgb" if channels > 1 else "minisblack",
                             extrasamples=["unassalpha"] if channels == 4 else None)
        else:
            bgr = content if channels == 1 else content[..., [2, 1, 0, 3][:channels]]
            cv2.imwrite(str(path), bgr)
    both = [(values // n)[..., :3] if channels > 1 else values // n for n in (1, 2)]
    assert hashes(read(tmp_path)["exam"]) == [shown(each) for each in both]
    fixed = read(tmp_path, options=["--window=3000,4000"])["exam"]
    assert hashes(fixed) == [shown(each, 1000, 5000) for each in both]
    low, high = percentiles(np.concatenate([each.ravel() for each in both]))
    one_scale = read(tmp_path, options=["--window=1%,99%"])["exam"]
    assert hashes(one_scale) == [shown(each, low, high) for each in both]


@pytest.mark.parametrize("options", [{}, {"bigtiff": True}, {"byteorder": ">"},
                                     {"compression": "zlib"},
                                     {"compression": "zlib", "predictor": True}])
def test_stacks_are_clips(tmp_path, options):
    stack = deep(7, 15, 22)
    tifffile.imwrite(tmp_path / "sixteen.tif", stack, photometric="minisblack", **options)
    eight = (stack >> 8).astype(np.uint8)
    tifffile.imwrite(tmp_path / "eight.tif", eight, photometric="minisblack", **options)
    floats = RNG.normal(0, 1, (5, 15, 22)).astype("f4")
    if "predictor" not in options:
        tifffile.imwrite(tmp_path / "floats.tif", floats, photometric="minisblack", **options)
    exams = read(tmp_path)
    assert hashes(exams["sixteen"]) == [shown(page) for page in stack]
    assert hashes(exams["eight"]) == [shown(page, 0, 255) for page in eight]
    assert exams["eight"]["kind"] == "stack"
    assert [slot["time_s"] for slot in exams["eight"]["slots"]] == [None] * 7
    if "predictor" not in options:
        low, high = float(floats.min()), float(floats.max())
        assert hashes(exams["floats"]) == [shown(page, low, high) for page in floats]
    selected = read(tmp_path, frames=3)["sixteen"]
    assert hashes(selected) == [shown(stack[index]) for index in (0, 3, 6)]


def test_memory_of_a_stack_is_that_of_a_page(tmp_path):
    tifffile.imwrite(tmp_path / "small.tif", deep(2, 512, 512), photometric="minisblack")
    base = int(run(tmp_path / "small.tif", options=["--peak"]).stderr)
    tifffile.imwrite(tmp_path / "large.tif", np.tile(deep(1, 512, 512), (200, 1, 1)),
                     photometric="minisblack")
    assert (tmp_path / "large.tif").stat().st_size > 100 << 20
    assert int(run(tmp_path / "large.tif", options=["--peak"]).stderr) - base < 16 << 20


def test_a_damaged_page_is_lost_alone_and_leaves_the_range_of_the_others_as_it_is(tmp_path):
    pages = deep(5, 30, 40).astype(np.float32)
    pages[2] *= 100
    tifffile.imwrite(tmp_path / "stack.tif", pages, photometric="minisblack", compression="zlib")
    with tifffile.TiffFile(tmp_path / "stack.tif") as file:
        at = file.pages[2].dataoffsets[0] + 2
    content = bytearray((tmp_path / "stack.tif").read_bytes())
    content[at:at + 20] = bytes(20)
    (tmp_path / "stack.tif").write_bytes(content)
    (exam,) = read(tmp_path).values()
    assert [slot["present"] for slot in exam["slots"]] == [True, True, False, True, True]
    assert "stack.tif" in exam["slots"][2]["fault"]
    tifffile.imwrite(tmp_path / "stack.tif", pages[[0, 1, 3, 4]], photometric="minisblack")
    (others,) = read(tmp_path).values()
    assert [slot["sha256"] for slot in exam["slots"] if slot["present"]] == [
        slot["sha256"] for slot in others["slots"]]


def test_jpeg_2000_of_many_bits_equals_pillow(tmp_path):
    for suffix in ("jp2", "j2k"):
        Image.fromarray(deep(30, 41)).save(tmp_path / f"a.{suffix}")
        slot, = read(tmp_path / f"a.{suffix}")["a"]["slots"]
        assert slot["sha256"] == shown(np.asarray(Image.open(tmp_path / f"a.{suffix}")))


@pytest.mark.parametrize("size", [0xFFFFFFF, 70000, 30000])
def test_an_absurd_size_of_jpeg_2000_is_refused(tmp_path, size):
    Image.fromarray(deep(30, 41)).save(tmp_path / "a.j2k")
    content = bytearray((tmp_path / "a.j2k").read_bytes())
    content[8:16] = size.to_bytes(4, "big") * 2
    (tmp_path / "a.j2k").write_bytes(content)
    assert "a.j2k" in read(tmp_path / "a.j2k")["a"]["error"]
