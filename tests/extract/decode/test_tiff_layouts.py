"""Compares TIFF pixels in tiles, planes, few bits and JPEG with Pillow's, or with numpy's where
Pillow does not read them."""

import struct

import numpy as np
import pytest
import tifffile
from PIL import Image

from frames_helper import read, sha256
from nifti_helper import hashes
from test_deep_images import deep, shown
from test_images import photo

RNG = np.random.default_rng(5)


def pillows(path):
    return sha256(np.asarray(Image.open(path).convert("RGB")))


def one(path):
    (exam,) = read(path).values()
    assert "error" not in exam, exam
    return hashes(exam)[0]


LAYOUTS = {
    "tiles": {"tile": (32, 48)},
    "tiles that exceed the picture": {"tile": (256, 256)},
    "compressed tiles": {"tile": (16, 16), "compression": "zlib", "predictor": True},
    "planes in strips": {"planarconfig": "separate", "rowsperstrip": 7},
    "planes in one strip": {"planarconfig": "separate", "compression": "zlib"},
    "planes in tiles": {"planarconfig": "separate", "tile": (16, 32)},
    "compressed planes in tiles": {"planarconfig": "separate", "tile": (16, 32), "compression": "zlib"},
    "big endian tiles": {"tile": (16, 16), "byteorder": ">"},
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_hold_the_same_pixels(tmp_path, name):
    options = LAYOUTS[name]
    in_planes = options.get("planarconfig") == "separate"
    rgb = np.asarray(photo())
    sixteen = deep(45, 70, 3)
    for values, kind in ((rgb, "rgb"), (sixteen, "sixteen")):
        path = tmp_path / f"{kind}.tif"
        tifffile.imwrite(path, np.moveaxis(values, -1, 0) if in_planes else values, photometric="rgb", **options)
        assert one(path) == (sha256(rgb) if kind == "rgb" else shown(sixteen)), kind
    if not in_planes:
        grey = deep(45, 70)
        tifffile.imwrite(tmp_path / "grey.tif", grey, photometric="minisblack", **options)
        assert one(tmp_path / "grey.tif") == shown(grey)
        stack = deep(3, 45, 70)
        tifffile.imwrite(tmp_path / "stack.tif", stack, photometric="minisblack", **options)
        assert hashes(read(tmp_path / "stack.tif")["stack"]) == [shown(page) for page in stack]


def few_bits(path, values, bits, photometric, palette=None):
    """One strip, uncompressed, as TIFF 6.0 section 2 has it; tifffile and Pillow write none."""
    height, width = values.shape
    in_bits = np.unpackbits(values.astype(np.uint8)[..., None], axis=-1)[..., 8 - bits:]
    data = np.packbits(in_bits.reshape(height, -1), axis=-1).tobytes()
    tags = [(256, width), (257, height), (258, bits), (259, 1), (262, photometric), (273, 8), (277, 1),
            (278, height), (279, len(data))]
    data += bytes(len(data) % 2)
    colours = b"" if palette is None else palette.T.astype("<u2").tobytes()
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags]
    if palette is not None:
        entries.append(struct.pack("<HHII", 320, 3, palette.size, 8 + len(data)))
    head = struct.pack("<2sHI", b"II", 42, 8 + len(data) + len(colours))
    directory = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    path.write_bytes(head + data + colours + directory)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("photometric", ["white is zero", "black is zero", "palette"])
def test_few_bits_equal_pillows(tmp_path, bits, photometric):
    values = RNG.integers(0, 1 << bits, (13, 19))
    number = {"white is zero": 0, "black is zero": 1, "palette": 3}[photometric]
    palette = RNG.integers(0, 65536, (1 << bits, 3)) if number == 3 else None
    few_bits(tmp_path / "few.tif", values, bits, number, palette)
    assert one(tmp_path / "few.tif") == pillows(tmp_path / "few.tif")


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "u4", "f4", "f8"])
@pytest.mark.parametrize("options", [{}, {"byteorder": ">"}, {"tile": (16, 16), "compression": "zlib"}])
def test_wide_samples_span_from_black_to_white(tmp_path, kind, options):
    values = RNG.normal(0, 100, (2, 33, 45))
    values = (np.abs(values) * 1e6 if kind == "u4" else np.clip(values, -128, 127)).astype(kind)
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="minisblack", **options)
    exam = read(tmp_path / "a.tif")["a"]
    low, high = float(values.min()), float(values.max())
    assert hashes(exam) == [shown(page, low, high) for page in values]
    windowed = read(tmp_path / "a.tif", options=["--window=10,50"])["a"]
    assert hashes(windowed) == [shown(page, -15, 35) for page in values]


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("quality", [60, 95])
def test_jpeg_inside_equals_pillows(tmp_path, mode, quality):
    photo().convert(mode).save(tmp_path / "jpeg.tif", compression="jpeg", quality=quality)
    assert one(tmp_path / "jpeg.tif") == pillows(tmp_path / "jpeg.tif")


def test_jpeg_inside_that_is_cut_short_is_refused(tmp_path):
    photo().save(tmp_path / "jpeg.tif", compression="jpeg")
    whole = bytearray((tmp_path / "jpeg.tif").read_bytes())
    scan = whole.rindex(b"\xff\xda")
    whole[scan + 500:scan + 502] = b"\xff\xd9"
    (tmp_path / "jpeg.tif").write_bytes(whole)
    (exam,) = read(tmp_path / "jpeg.tif").values()
    assert "damaged or truncated" in exam["error"]


REDUCED, PAGE, MASK = 1, 2, 4  # bits of NewSubfileType
SUBFILES = {  # kinds of the directories, and which of them are frames
    "pyramid": ([0, REDUCED, REDUCED], [0]),
    "stack with reductions": ([0, REDUCED, 0, REDUCED], [0, 2]),
    "pages": ([PAGE, PAGE, PAGE], [0, 1, 2]),
    "masks": ([0, MASK, 0, MASK | REDUCED], [0, 2]),
    "thumbnail first": ([REDUCED, 0], [1]),
    "nothing but reductions": ([REDUCED, REDUCED], [0]),
}


@pytest.mark.parametrize("name", SUBFILES)
def test_reductions_and_masks_are_no_frames(tmp_path, name):
    kinds, frames = SUBFILES[name]
    pages = [np.asarray(photo())[i:] for i in range(len(kinds))]
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for page in pages:
            file.write(page, photometric="rgb", subfiletype=REDUCED)
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+") as file:
        for kind, page in zip(kinds, file.pages):
            page.tags[254].overwrite(kind)
    (exam,) = read(tmp_path / "a.tif").values()
    assert hashes(exam) == [sha256(pages[i]) for i in frames]
    assert exam["kind"] == ("stack" if len(frames) > 1 else "image")


def test_pages_that_share_their_pixels_are_refused(tmp_path):
    """Else a small file would be read for hours."""
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, np.zeros((1000, 1000), np.uint8), photometric="minisblack", compression="zlib")
    with tifffile.TiffFile(path) as file:
        start = file.pages[0].offset
    content = bytearray(path.read_bytes())
    count, = struct.unpack_from("<H", content, start)
    directory = content[start:start + 2 + 12 * count]
    link = start + len(directory)
    for _ in range(20):
        content += bytes(len(content) % 2)
        struct.pack_into("<I", content, link, len(content))
        link = len(content) + len(directory)
        content += directory + bytes(4)
    path.write_bytes(content)
    assert "its 21 pages cannot lie in" in read(path)["stack"]["error"]


@pytest.mark.parametrize("width, tile, bits", [(24, 23, 1), (16, 15, 4)])
def test_tiles_whose_rows_are_no_whole_bytes_are_refused(tmp_path, width, tile, bits):
    path = tmp_path / "odd.tif"
    tifffile.imwrite(path, deep(16, 32).astype(np.uint8), photometric="minisblack", tile=(16, 16))
    with tifffile.TiffFile(path, mode="r+") as file:
        for name, value in [("ImageWidth", width), ("TileWidth", tile), ("BitsPerSample", bits)]:
            file.pages[0].tags[name].overwrite(value, dtype="H")
    (exam,) = read(path).values()
    assert "TIFF data is damaged" in exam["error"], exam


@pytest.mark.parametrize("compression, tile", [(None, None), ("zlib", None), (None, (16, 16)), ("zlib", (16, 16))])
@pytest.mark.parametrize("subfile", [0, 1])
def test_more_pixels_than_the_file_can_hold_are_refused_at_once(tmp_path, compression, tile, subfile):
    path = tmp_path / "bomb.tif"
    tifffile.imwrite(path, deep(40, 60), photometric="minisblack", compression=compression, tile=tile,
                     subfiletype=subfile)
    with tifffile.TiffFile(path, mode="r+") as file:
        tags = file.pages[0].tags
        for name in ("ImageWidth", "ImageLength", *(("TileWidth", "TileLength") if tile else ())):
            tags[name].overwrite(16000, dtype="I")
    (exam,) = read(path).values()
    assert "its 1 page cannot lie in" in exam["error"], exam
