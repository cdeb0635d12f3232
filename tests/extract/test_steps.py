"""Mask, crop and tiles through the whole program: a backbone that hands its input on shows the pixels, which are compared
with Pillow's."""

import json

import h5py
import numpy as np
import PIL
import pytest
import torch
from PIL import Image

import loaded_program

SIZE = 16
RESAMPLER = "pillow" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow12"


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    """[B,3,S,S] -> [B,3·S·S]: the pixels themselves."""
    path = tmp_path_factory.mktemp("backbone") / "pixels.pt"
    torch.jit.script(torch.nn.Flatten()).save(str(path))
    return path


def extract(backbone, source, out, *extra, expect=0):
    done = loaded_program.coldframe("extract", "--input", source, "--out", out, "--backbone", backbone, "--image-size", SIZE,
                                    "--resize", "squash", "--resampler", RESAMPLER, "--mean", 0, "--std", 1, "--store", "float32",
                                    "--device", "cpu", "--batch", 3, "--json", *extra)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout) if done.stdout else done.stderr


def pixels(cache):
    """[F, S, S, 3] in levels, NaN for missing frames; and the exams' column `crop`."""
    with h5py.File(cache) as file:
        values = file["features/clean"][:].reshape(-1, 3, SIZE, SIZE).transpose(0, 2, 3, 1) * 255
        columns = file["exams/columns"]
        return values, list(columns["crop"].asstr()[:]) if "crop" in columns else None


def resized(rgb):
    return np.asarray(Image.fromarray(np.ascontiguousarray(rgb)).resize((SIZE, SIZE), Image.Resampling.BICUBIC))


def noise(width, height, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_mask_then_crop_equal_pillow(tmp_path, backbone):
    rgb, other = noise(90, 70), noise(90, 70, 1)
    for name, image in [("a.png", rgb), ("b.png", other)]:
        Image.fromarray(image).save(tmp_path / name)
    keep = np.zeros((70, 90), np.uint8)
    keep[10:60, 5:50] = 255
    Image.fromarray(keep).save(tmp_path / "mask.png")
    (tmp_path / "m.csv").write_text('exam,path,crop\nA,a.png,\nB,b.png,"30,20,40,40"\nC,a.png,none\n')
    extract(backbone, tmp_path / "m.csv", tmp_path / "x.h5", "--mask", tmp_path / "mask.png", "--crop", "2,4,50,60")
    values, crops = pixels(tmp_path / "x.h5")
    masked = [image * (keep > 0)[..., None] for image in (rgb, other)]
    expected = [resized(masked[0][4:64, 2:52]), resized(masked[1][20:60, 30:70]), resized(masked[0])]
    assert np.abs(values - np.stack(expected)).max() < 1e-3
    assert crops == ["2,4,50,60", "30,20,40,40", ""]


def test_a_mask_or_crop_that_does_not_fit_fails_its_exam_alone(tmp_path, backbone):
    for name, size in [("a.png", (90, 70)), ("b.png", (60, 70))]:
        Image.fromarray(noise(*size)).save(tmp_path / name)
    Image.new("L", (90, 70), 255).save(tmp_path / "mask.png")
    (tmp_path / "m.csv").write_text("exam,path\nA,a.png\nB,b.png\n")
    for option, word in [(["--mask", tmp_path / "mask.png"], "90×70"), (["--crop", "0,0,80,70"], "0,0,80,70")]:
        summary = extract(backbone, tmp_path / "m.csv", tmp_path / f"{word[:2]}.h5", *option, expect=1)
        assert summary["extracted"]["exams"] == 1
        assert [failure["exam"] for failure in summary["failures"]] == ["B"]
        assert word in summary["failures"][0]["reason"] and "b.png" in summary["failures"][0]["reason"]


def tile_starts(length, side, step):
    return [*range(0, length - side, step), length - side]


@pytest.mark.parametrize("options, side, step", [
    (["--tiles"], SIZE, 12), (["--tiles", "0"], SIZE, SIZE), (["--tiles", "0.5", "--tile-size", "24"], 24, 12)])
def test_tiles_are_pooled_per_frame(tmp_path, backbone, options, side, step):
    frames = [noise(100, 61, 3), noise(64, 48, 4), noise(10, 12, 5)]
    rows = ["exam,path,time"]
    for i, rgb in enumerate(frames):
        Image.fromarray(rgb).save(tmp_path / f"{i}.png")
        rows.append(f"A,{i}.png,{i}")
    rows.append("A,,3")  # a missing frame keeps its slot
    (tmp_path / "m.csv").write_text("\n".join(rows) + "\n")
    summary = extract(backbone, tmp_path / "m.csv", tmp_path / "x.h5", *options)
    assert summary["extracted"] == {"exams": 1, "frames": 4}
    values, _ = pixels(tmp_path / "x.h5")
    for rgb, found in zip(frames, values):
        height, width = rgb.shape[:2]
        tiles = [rgb] if width <= side and height <= side else [
            rgb[y:y + side, x:x + side] for y in tile_starts(height, side, step) for x in tile_starts(width, side, step)]
        expected = np.mean([resized(tile) for tile in tiles], axis=0)
        assert np.abs(found - expected).max() < 1e-3
    assert np.isnan(values[3]).all()


def test_auto_crop_is_one_for_the_exam_and_is_shown(tmp_path, backbone):
    rng = np.random.default_rng(7)
    frames = []
    for i in range(12):
        rgb = np.zeros((200, 300, 3), np.uint8)
        rgb[40:180, 60:220] = rng.integers(40, 220, (140, 160, 1))
        rgb[4:12, 4:60:4] = 255  # text that stands still
        frames.append(rgb)
        path = tmp_path / "in" / "cine" / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rgb).save(path)
    extract(backbone, tmp_path / "in", tmp_path / "x.h5", "--crop", "auto")
    values, crops = pixels(tmp_path / "x.h5")
    assert crops == ["60,40,160,140"]
    assert np.abs(values - np.stack([resized(rgb[40:180, 60:220]) for rgb in frames])).max() < 1e-3
    assert "crop" in extract(backbone, tmp_path / "in", tmp_path / "x.h5", expect=3)
    again = extract(backbone, tmp_path / "in", tmp_path / "x.h5", "--crop", "auto")
    assert (again["unchanged"], again["extracted"]["exams"], again["metadata_updated"]) == (1, 0, 0)


def test_a_malformed_crop_column_names_its_line(tmp_path, backbone):
    (tmp_path / "m.csv").write_text('exam,path,crop\nA,a.png,\nB,b.png,"1,2,3"\n')
    error = extract(backbone, tmp_path / "m.csv", tmp_path / "x.h5", expect=3)
    assert "line 3" in error and "'1,2,3'" in error
