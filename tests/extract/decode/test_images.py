"""Decoded images against Pillow's Image.open(p).convert("RGB"): no value may differ. What could not
be promised equal, or is damaged, is refused with a reason."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

import bitmaps
from frames_helper import read, run, sha256, write_manifest

RNG = np.random.default_rng(7)


def photo(width=157, height=101):
    y, x = np.mgrid[0:height, 0:width]
    smooth = [127 + 120 * np.sin(x / (9 + c) + y / (14 - c)) for c in range(3)]
    noise = RNG.normal(0, 12, (height, width, 3))
    return Image.fromarray(np.clip(np.stack(smooth, -1) + noise, 0, 255).astype(np.uint8))


def rgba():
    image = photo().convert("RGBA")
    image.putalpha(photo().convert("L"))
    return image


def exif_rotated(way=6):
    exif = Image.Exif()
    exif[0x010f] = "maker"
    exif[0x0112] = way
    return {"exif": exif}


def little_endian_exif(way):
    """Pillow writes big-endian data."""
    return {"exif": b"Exif\0\0II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHHI", 0x0112, 3, 1, way, 0, 0)}


def cmyk():
    image = photo().convert("CMYK")
    image.putpixel((3, 3), (255, 255, 255, 255))
    return Image.merge("CMYK", [*image.split()[:3], photo(157, 101).convert("L").rotate(180)])


def ycck(folder, name):
    """Writes what Pillow cannot: CMYK whose Adobe marker says that its colours are YCCK."""
    cmyk().save(folder / name, "JPEG", subsampling=1)
    whole = bytearray((folder / name).read_bytes())
    marker = whole.index(b"Adobe")
    whole[marker + 11] = 2
    (folder / name).write_bytes(whole)


READABLE = {
    **{f"q{quality}_s{sampling}.jpg": (photo, {"quality": quality, "subsampling": sampling})
       for quality in (30, 75, 100) for sampling in (0, 1, 2)},
    "progressive.jpg": (photo, {"progressive": True}),
    "restarts.jpg": (photo, {"restart_marker_rows": 1}),
    "grey.jpg": (lambda: photo().convert("L"), {}),
    "cmyk.jpg": (cmyk, {"quality": 90}),
    "cmyk_subsampled.jpg": (cmyk, {"subsampling": 2}),
    "cmyk_progressive.jpg": (cmyk, {"progressive": True}),
    "tiny.jpg": (lambda: photo(1, 1), {}),
    "odd.jpg": (lambda: photo(17, 3), {}),
    **{f"exif_{way}.jpg": (photo, exif_rotated(way)) for way in range(10)},
    **{f"exif_grey_{way}.jpg": (lambda: photo().convert("L"), little_endian_exif(way)) for way in (3, 8)},
    "exif_cut.jpg": (photo, {"exif": little_endian_exif(6)["exif"][:-8]}),
    "rgb.jp2": (photo, {}),
    "grey.j2k": (lambda: photo().convert("L"), {}),
    "rgba.jp2": (rgba, {}),
    "grey_alpha.jp2": (lambda: rgba().convert("LA"), {}),
    "lossy.jp2": (photo, {"irreversible": True, "quality_mode": "rates", "quality_layers": [20]}),
    "tiles.jp2": (photo, {"tile_size": (64, 64)}),
    "rgb.png": (photo, {}),
    "rgba.png": (rgba, {}),
    "grey.png": (lambda: photo().convert("L"), {}),
    "grey_alpha.png": (lambda: rgba().convert("LA"), {}),
    "bilevel.png": (lambda: photo().convert("1"), {}),
    "palette.png": (lambda: photo().quantize(200), {}),
    "palette_2_bits.png": (lambda: photo().quantize(4), {"bits": 2}),
    "palette_4_bits.png": (lambda: photo().quantize(16), {"bits": 4}),
    "palette_transparent.png": (lambda: photo().quantize(50), {"transparency": 3}),
    "rgb_transparent.png": (photo, {"transparency": (1, 2, 3)}),
    "grey_transparent.png": (lambda: photo().convert("L"), {"transparency": 90}),
    "rgb.tif": (photo, {}),
    "grey.tif": (lambda: photo().convert("L"), {}),
    "palette.tif": (lambda: photo().quantize(200), {}),
    "lzw.tif": (photo, {"compression": "tiff_lzw"}),
    "deflate.tif": (photo, {"compression": "tiff_adobe_deflate"}),
    "packbits.tif": (photo, {"compression": "packbits"}),
    "rgba.tif": (rgba, {}),
    **{f"turned_{way}.tif": (photo, {"tiffinfo": {274: way}}) for way in range(1, 9)},
    "grey_alpha.tif": (lambda: rgba().convert("LA"), {}),
    "bilevel.tif": (lambda: photo().convert("1"), {}),
    "rgb.bmp": (photo, {}),
    "grey.bmp": (lambda: photo().convert("L"), {}),
    "palette.bmp": (lambda: photo().quantize(200), {}),
    "bilevel.bmp": (lambda: photo().convert("1"), {}),
    "rgba.bmp": (rgba, {}),
    "lossy.webp": (photo, {"quality": 60}),
    "lossless.webp": (photo, {"lossless": True}),
    "rgba.webp": (rgba, {"lossless": True, "exact": True}),
    "misnamed.png": (photo, {"format": "JPEG"}),
}

REFUSED = {
    "cmyk.tif": (lambda: photo().convert("CMYK"), {}, "photometric interpretation is 5"),
}


def save(folder, name, make, options):
    make().save(folder / name, **options)
    return {"exam": name, "path": name}


def test_pixels_equal_pillows(tmp_path):
    manifest = write_manifest(tmp_path, [save(tmp_path, name, *how) for name, how in
                                         READABLE.items()])
    exams = read(manifest)
    wrong = {}
    for name in READABLE:
        image = Image.open(tmp_path / name)
        if image.format == "JPEG" and name != "exif_cut.jpg":
            image = ImageOps.exif_transpose(image)
        expected = np.asarray(image.convert("RGB"))
        slots = exams[name].get("slots")
        if not slots or slots[0]["sha256"] != sha256(expected):
            wrong[name] = exams[name]
    assert not wrong


def test_ycck_jpeg_equals_pillows(tmp_path):
    ycck(tmp_path, "ycck.jpg")
    (exam,) = read(write_manifest(tmp_path, [{"exam": "ycck", "path": "ycck.jpg"}])).values()
    with Image.open(tmp_path / "ycck.jpg") as image:
        assert image.mode == "CMYK" and image.info["adobe_transform"] == 2
        assert exam["slots"][0]["sha256"] == sha256(np.asarray(image.convert("RGB")))


def test_bitmaps_equal_pillows(tmp_path):
    made = bitmaps.variants(photo(33, 17))
    for name, content in made.items():
        (tmp_path / f"{name}.bmp").write_bytes(content)
    exams = read(write_manifest(tmp_path, [{"exam": name, "path": f"{name}.bmp"} for name in made]))
    for name in made:
        assert exams[name]["slots"][0]["sha256"] == sha256(np.asarray(Image.open(tmp_path / f"{name}.bmp").convert("RGB"))), name


@pytest.mark.parametrize("name, changes, reason", [
    ("bits", {"bits": 16}, "of 16 bits and compression 0, which is not read"),
    ("masks", {"bits": 32, "compression": 3, "behind": bitmaps.MASKS[::-1]}, "of 32 bits and compression 3, which is not read"),
    ("runs", {"bits": 8, "compression": 1}, "of 8 bits and compression 1, which is not read"),
    ("index", {"bits": 4, "colours": 3, "palette": bytes(12)}, "a pixel has colour 7 of 3")])
def test_other_bitmaps_are_refused(tmp_path, name, changes, reason):
    (tmp_path / "a.bmp").write_bytes(bitmaps.bitmap(**{"width": 4, "height": 2, "pixels": b"\x70" * 64} | changes))
    (exam,) = read(write_manifest(tmp_path, [{"exam": name, "path": "a.bmp"}])).values()
    assert reason in exam["error"]


def test_varieties_that_would_not_equal_pillows_are_refused(tmp_path):
    manifest = write_manifest(tmp_path, [save(tmp_path, name, make, options) for
                                         name, (make, options, _) in REFUSED.items()])
    exams = read(manifest)
    for name, (_, _, reason) in REFUSED.items():
        assert reason in exams[name].get("error", "was read"), exams[name]
        assert name in exams[name]["error"]


def test_a_huge_size_in_the_header_is_refused_before_anything_is_decoded(tmp_path):
    save(tmp_path, "rgb.png", *READABLE["rgb.png"])
    whole = bytearray((tmp_path / "rgb.png").read_bytes())
    whole[16:24] = (60000).to_bytes(4, "big") * 2
    (tmp_path / "bomb.png").write_bytes(whole)
    exams = read(write_manifest(tmp_path, [{"exam": "bomb", "path": "bomb.png"}]))
    assert "60000×60000 pixels" in exams["bomb"]["error"]


@pytest.mark.parametrize("depth, colour_type", [(0, 0), (8, 1), (8, 5), (8, 7), (32, 2)])
def test_a_depth_that_png_does_not_have_is_refused_before_pixels_are_allocated(
        tmp_path, depth, colour_type):
    header = struct.pack(">IIBBBBB", 47360, 4096, depth, colour_type, 0, 0, 0)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b""))
    exams = read(write_manifest(tmp_path, [{"exam": "a", "path": "a.png"}]))
    assert "its PNG header is damaged" in exams["a"]["error"]


def resized_jpeg(content, width, height):
    at = max(content.find(b"\xff\xc0"), content.find(b"\xff\xc2"))
    return content[:at + 5] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + content[at + 9:]


def more_scans(content):
    """A progressive JPEG's last scan, and what comes with it, again and again."""
    last, end = content.rindex(b"\xff\xda"), content.rindex(b"\xff\xd9")
    return content[:end] + content[last:end] * 300 + content[end:]


@pytest.mark.parametrize("name, damage, reason", [
    ("q75_s2.jpg", lambda jpeg: resized_jpeg(jpeg, 16000, 16000), "16000×16000 pixels, which"),
    ("progressive.jpg", lambda jpeg: resized_jpeg(jpeg, 16000, 16000), "16000×16000 pixels, which"),
    ("progressive.jpg", more_scans, "goes over the picture 3"),
    ("q75_s2.jpg", lambda jpeg: jpeg[:2] + jpeg[jpeg.index(b"\xff\xc0"):][:19] + jpeg[2:], "two headers"),
    ("rgb.png", lambda png: png[:16] + (16000).to_bytes(4, "big") * 2 + png[24:], "bytes cannot hold"),
    ("lossless.webp", lambda webp: webp[:21] + b"\xff\xff\xff\x0f" + webp[25:], "bytes cannot hold"),
])
def test_more_than_the_bytes_can_hold_is_refused_at_once(tmp_path, name, damage, reason):
    save(tmp_path, name, *READABLE[name])
    path = tmp_path / f"damaged_{name}"
    path.write_bytes(damage((tmp_path / name).read_bytes()))
    (exam,) = read(path).values()
    assert reason in exam["error"]


@pytest.mark.parametrize("name, at", [("lossy.webp", 23), ("lossless.webp", 20), ("rgba.webp", 12)])
def test_damaged_webp_reaches_no_other_decoder(tmp_path, name, at):
    """OpenCV would try GDAL and GDCM on it, which print what they think, or crash."""
    save(tmp_path, name, *READABLE[name])
    content = bytearray((tmp_path / name).read_bytes())
    content[at:at + 3] = b"\x55\x55\x55"
    (tmp_path / name).write_bytes(content)
    done = run(tmp_path / name)
    assert "damaged" in done.stdout and done.stderr == ""


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, colour_type, interlaced):
    """8 bits; interlaced by Adam7, which Pillow reads and does not write."""
    height, width = pixels.shape[:2]
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    parts = [pixels[y::dy, x::dx] for y, x, dy, dx in passes] if interlaced else [pixels]
    rows = b"".join(b"\0" + row.tobytes() for part in parts if part.size for row in part)
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


@pytest.mark.parametrize("mode, colour_type", [("L", 0), ("RGB", 2), ("LA", 4), ("RGBA", 6)])
def test_interlaced_png_equals_pillows(tmp_path, mode, colour_type):
    pixels = np.asarray(rgba().convert(mode))
    (tmp_path / "plain.png").write_bytes(png(pixels, colour_type, False))
    (tmp_path / "interlaced.png").write_bytes(png(pixels, colour_type, True))
    expected = sha256(np.asarray(Image.open(tmp_path / "plain.png").convert("RGB")))
    for name in ("plain", "interlaced"):
        assert read(tmp_path / f"{name}.png")[name]["slots"][0]["sha256"] == expected


@pytest.mark.parametrize("name", ["grey.jpg", "q75_s2.jpg", "progressive.jpg", "cmyk.jpg"])
def test_jpeg_with_pixels_made_up_is_refused(tmp_path, name):
    """All markers are there, and half of the scan is not; libjpeg paints it grey."""
    save(tmp_path, name, *READABLE[name])
    content = (tmp_path / name).read_bytes()
    scan = content.index(b"\xff\xda")
    (tmp_path / name).write_bytes(content[:scan + (len(content) - scan) // 2] + b"\0\xff\xd9")
    done = run(tmp_path / name)
    assert "damaged" in done.stdout and done.stderr == ""


@pytest.mark.parametrize("name", ["q75_s2.jpg", "rgb.png", "lossless.webp", "lzw.tif"])
def test_damage_prints_nothing_but_the_reason(tmp_path, name):
    save(tmp_path, name, *READABLE[name])
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    for number, at in enumerate(RNG.integers(30, len(content), 40)):
        damaged = bytearray(content)
        damaged[at] ^= 0x5a
        (tmp_path / f"{number}{name[-5:]}").write_bytes(damaged)
    assert run(tmp_path).stderr == ""
