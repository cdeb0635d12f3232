"""`extract --thumbnails`: small JPEGs of the frames as the backbone sees them, against Pillow, and what becomes of them."""

import io
import json

import h5py
import numpy as np
import pytest
from PIL import Image

import loaded_program

RANDOM = ["--random-weights", "0", "--architecture", "vit_tiny_patch16_224", "--pool", "mean", "--mean", "0.5",
          "--std", "0.5", "--image-size", "32", "--device", "cpu", "--precision", "fp32", "--quiet"]


def coldframe(*arguments, expect=0):
    done = loaded_program.coldframe(*arguments)
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done


def extract(source, out, *options, expect=0):
    return coldframe("extract", "--input", source, "--out", out, *RANDOM, *options, expect=expect)


def thumbnails(cache):
    """[bytes of each frame]."""
    with h5py.File(cache) as file:
        offsets, data = file["thumbnails/offset"][:], file["thumbnails/data"][:]
        assert file["thumbnails/data"].fletcher32 and file["thumbnails/data"].chunks
    return [data[a:b].tobytes() for a, b in zip(offsets, offsets[1:])]


def as_jpeg(image):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80, optimize=True)
    return buffer.getvalue()


def pixels(file):
    return np.asarray(Image.open(io.BytesIO(file)), float)


def smooth(width, height, channels, seed):
    """Blobs that survive scaling and JPEG."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, channels), dtype=np.uint8).squeeze()
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Exam A: colour, grey, missing, tiny. Exam B cannot be read. Exam C: grey."""
    folder = tmp_path_factory.mktemp("thumbnails")
    images = [smooth(300, 200, 3, 0), smooth(120, 260, 1, 1), None, smooth(40, 30, 3, 2), smooth(200, 200, 1, 3)]
    for i, image in enumerate(images):
        if image:
            image.save(folder / f"{i}.png")
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnot a picture")
    (folder / "m.csv").write_text("exam,path,time,label\nA,0.png,0,x\nA,1.png,1,x\nA,,2,x\nA,3.png,3,x\nB,bad.png,0,x\n"
                                  "C,4.png,0,x\n")
    extract(folder / "m.csv", folder / "x.h5", "--thumbnails", expect=1)
    return folder, images


def test_they_show_the_frames(made):
    folder, images = made
    files = thumbnails(folder / "x.h5")
    sizes = [(96, 64), (44, 96), None, (40, 30), (96, 96)]
    assert len(files) == len(images)
    for file, image, size in zip(files, images, sizes):
        if image is None:
            assert file == b""
            continue
        found = Image.open(io.BytesIO(file))
        assert (found.format, found.size, found.mode) == ("JPEG", size, image.mode) and not found.getexif()
        pillows = as_jpeg(image.resize(size, Image.Resampling.BILINEAR))
        assert np.abs(pixels(file) - pixels(pillows)).mean() < 1
        assert len(file) == pytest.approx(len(pillows), rel=0.03)


def test_a_dry_run_foresees_their_size(made, tmp_path):
    folder, _ = made
    words = ["extract", "--input", folder / "m.csv", "--dry-run", "--json"]
    without, with_them = (json.loads(coldframe(*words, *more, expect=1).stdout)["totals"]
                          for more in ([], ["--thumbnails"]))
    assert without["thumbnail_bytes"] == 0
    assert with_them["thumbnail_bytes"] == sum(map(len, thumbnails(folder / "x.h5")))
    places = 8 * (with_them["selected"] + 1 + with_them["exams"] - with_them["unreadable"])  # offsets and checksums
    assert with_them["cache_bytes"] == without["cache_bytes"] + with_them["thumbnail_bytes"] + places
    text = coldframe(*words[:-1], "--thumbnails", expect=1).stdout
    assert f"{with_them['thumbnail_bytes'] / 1024:.1f} KiB of it thumbnails" in text
    # It decodes a few of many frames.
    for i in range(20):
        (tmp_path / f"{i}.png").symlink_to(folder / "0.png")
    words[2] = tmp_path
    totals = json.loads(coldframe(*words, "--thumbnails").stdout)["totals"]
    assert totals["thumbnail_bytes"] == 20 * len(thumbnails(folder / "x.h5")[0])


def test_they_show_what_mask_crop_and_size_leave(made, tmp_path):
    folder, _ = made
    image = smooth(90, 60, 3, 4)
    image.save(tmp_path / "a.png")
    keep = np.zeros((60, 90), np.uint8)
    keep[:, 30:] = 255
    Image.fromarray(keep).save(tmp_path / "mask.png")
    extract(tmp_path / "a.png", tmp_path / "x.h5", "--thumbnails", "20", "--mask", tmp_path / "mask.png",
            "--crop", "10,20,80,40")
    found = pixels(thumbnails(tmp_path / "x.h5")[0])
    left = np.asarray(image) * (keep > 0)[..., None]
    expected = Image.fromarray(left[20:60, 10:90]).resize((20, 10), Image.Resampling.BILINEAR)
    assert found.shape == (10, 20, 3)
    assert np.abs(found - pixels(as_jpeg(expected))).mean() < 1


def test_features_are_the_same_with_and_without(made, tmp_path):
    folder, _ = made
    extract(folder / "m.csv", tmp_path / "x.h5", expect=1)
    with h5py.File(folder / "x.h5") as one, h5py.File(tmp_path / "x.h5") as other:
        np.testing.assert_array_equal(one["features/clean"][:], other["features/clean"][:])
        assert one.attrs["feature_digest"] == other.attrs["feature_digest"]
        assert one.attrs["cache_digest"] != other.attrs["cache_digest"]
        assert "thumbnails" in one and "thumbnails" not in other
    info = coldframe("cache", "info", folder / "x.h5").stdout
    assert "of JPEG images of the frames" in info
    assert "4 thumbnails checked" in coldframe("cache", "verify", folder / "x.h5").stderr


def test_another_setting_is_refused(made, tmp_path):
    folder, _ = made
    before = (folder / "x.h5").read_bytes()
    for options, words in [((), "thumbnails: cache has 96, now nothing"),
                           (("--thumbnails", "64"), "thumbnails: cache has 96, now 64")]:
        assert words in extract(folder / "m.csv", folder / "x.h5", *options, expect=3).stderr
    assert (folder / "x.h5").read_bytes() == before


@pytest.mark.parametrize("name", ["x.h5", "x.cache"])
def test_they_outlive_new_labels_and_new_exams(made, tmp_path, name):
    folder, _ = made
    rows = [line.split(",") for line in (folder / "m.csv").read_text().splitlines()]
    rows = [[exam, f"{folder}/{path}" if path and exam != "exam" else path, time, label]
            for exam, path, time, label in rows if exam != "B"]
    manifest = tmp_path / "m.csv"

    def run(rows):
        manifest.write_text("".join(",".join(row) + "\n" for row in rows))
        return json.loads(extract(manifest, tmp_path / name, "--thumbnails", "--json").stdout)

    assert run([row for row in rows if row[0] != "C"])["extracted"]["exams"] == 1
    changed = [[exam, path, time, "y" if exam == "A" else label] for exam, path, time, label in rows]
    summary = run(changed)
    assert (summary["metadata_updated"], summary["extracted"]["exams"]) == (1, 1)
    coldframe("cache", "pack", tmp_path / "packed.h5", tmp_path / name)
    assert thumbnails(tmp_path / "packed.h5") == thumbnails(folder / "x.h5")
    assert "4 thumbnails checked" in coldframe("cache", "verify", tmp_path / "packed.h5").stderr


def test_augmented_views_leave_them_as_they_are(made, tmp_path):
    folder, _ = made
    extract(folder / "m.csv", tmp_path / "x.h5", "--thumbnails", "--views", "2", expect=1)
    assert thumbnails(tmp_path / "x.h5") == thumbnails(folder / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        assert list(file["features"]) == ["clean", "view1", "view2"]
    assert "4 thumbnails checked" in coldframe("cache", "verify", tmp_path / "x.h5").stderr
