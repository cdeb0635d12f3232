"""`coldframe extract --views` as a user runs it, with a backbone that hands its input on: the views in the cache are
compared with Pillow's pixels, and all that deals with caches meets a cache of several views."""

import json

import h5py
import numpy as np
import PIL
import pytest
import torch
from PIL import Image

import loaded_program
from coldframe import open as open_cache
from augment_helper import noise, view, with_numpy, with_pillow

SIZE = 16
RESAMPLER = "pillow" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow12"
GEOMETRY = "flip,vflip,rotate=20,scale=0.5:1"


def coldframe(*words, expect=0):
    done = loaded_program.coldframe(*words)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


class Job:
    def __init__(self, folder):
        self.folder = folder
        torch.jit.script(torch.nn.Flatten()).save(str(folder / "pixels.pt"))
        self.frames = {f"E{exam}": [noise(60 + 9 * exam, 50, 10 * exam + t) // 2 for t in range(3)] for exam in range(4)}
        rows = ["exam,path,time,patient"]
        for number, (exam, frames) in enumerate(self.frames.items()):
            for t, rgb in enumerate(frames):
                Image.fromarray(rgb).save(folder / f"{exam}-{t}.png")
                rows.append(f"{exam},{exam}-{t}.png,{t},p{number}")
        rows.append("E3,,3,p3")  # a missing frame
        (folder / "m.csv").write_text("\n".join(rows) + "\n")

    def command(self, out, *extra):
        return ["extract", "--input", self.folder / "m.csv", "--out", out, "--backbone", self.folder / "pixels.pt",
                "--image-size", SIZE, "--resize", "squash", "--resampler", RESAMPLER, "--mean", 0, "--std", 1, "--store",
                "float32", "--device", "cpu", "--batch", 3, "--json", *extra]

    def extract(self, out, *extra, expect=0):
        done = coldframe(*self.command(out, *extra), expect=expect)
        return json.loads(done.stdout) if done.stdout else done.stderr


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return Job(tmp_path_factory.mktemp("job"))


@pytest.fixture(scope="module")
def made(job):
    out = job.folder / "made.h5"
    summary = job.extract(out, "--views", 3, "--augment", GEOMETRY, "--augment-seed", 5)
    assert summary["extracted"] == {"exams": 4, "frames": 13} and summary["views"] == 4
    return out


def resized(rgb):
    return np.asarray(Image.fromarray(np.ascontiguousarray(rgb)).resize((SIZE, SIZE), Image.Resampling.BICUBIC))


def pixels(features):
    return features.reshape(-1, 3, SIZE, SIZE).transpose(0, 2, 3, 1) * 255


def test_every_view_is_one_transform_of_the_whole_exam_as_pillow_makes_it(job, made):
    with h5py.File(made) as file:
        assert [name.decode() for name in file.attrs["views"]] == ["clean", "view1", "view2", "view3"]
        recipe = json.loads(file.attrs["recipe"])["storage"]
        assert recipe["augment"] == {"seed": 5, "flip": 0.5, "vflip": 0.5, "rotate": [-20.0, 20.0], "scale": [0.5, 1.0]}
        offset, angles = file["exams/offset"][:], set()
        for number, (exam, frames) in enumerate(job.frames.items()):
            rows = slice(offset[number], offset[number] + 3)
            assert np.abs(pixels(file["features/clean"][rows]) - [resized(rgb) for rgb in frames]).max() < 1e-3
            for k in (1, 2, 3):
                drawn, _, _ = view(GEOMETRY, frames[:1], 5, exam, k)
                angles.add(drawn["angle"])
                expected = [resized(with_pillow(drawn, rgb)) for rgb in frames]
                assert np.abs(pixels(file[f"features/view{k}"][rows]) - expected).max() < 1e-3
        assert len(angles) == 12
        assert all(np.isnan(file["features"][name][12]).all() for name in file["features"])


def test_levels_change_after_the_resize_by_the_first_frames_mean(job, tmp_path):
    augment = "brightness=0.3,contrast=0.3,gamma=0.3"
    job.extract(tmp_path / "x.h5", "--views", 1, "--augment", augment)
    with h5py.File(tmp_path / "x.h5") as file:
        found = pixels(file["features/view1"][:3])
    frames = job.frames["E0"]
    small = [resized(rgb) for rgb in frames]
    expected = with_numpy(view(augment, frames[:1], 0, "E0", 1)[0], small, pivot=frames[0])
    assert np.abs(found - expected).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("others", [["--batch", 1, "--decode-threads", 3], ["--batch", 7]])
def test_views_depend_neither_on_batch_nor_on_threads(job, made, tmp_path, others):
    words = job.command(tmp_path / "x.h5", "--views", 3, "--augment", GEOMETRY, "--augment-seed", 5)
    at = words.index("--batch")
    coldframe(*words[:at], *words[at + 2:], *others)
    coldframe("cache", "diff", made, tmp_path / "x.h5")
    with h5py.File(made) as a, h5py.File(tmp_path / "x.h5") as b:
        for name in a["features"]:
            assert a["features"][name][:].tobytes() == b["features"][name][:].tobytes()


def test_tiles_of_a_view_share_its_transform(job, tmp_path):
    job.extract(tmp_path / "x.h5", "--views", 1, "--augment", "vflip=1", "--tiles", 0)
    with h5py.File(tmp_path / "x.h5") as file:
        found = pixels(file["features/view1"][:1])[0]
    flipped = job.frames["E0"][0][::-1]
    starts = [sorted({*range(0, length - SIZE, SIZE), length - SIZE}) for length in flipped.shape[:2]]
    tiles = [flipped[y:y + SIZE, x:x + SIZE] for y in starts[0] for x in starts[1]]
    assert np.abs(found - np.mean(tiles, axis=0)).max() < 1e-3


def test_a_second_run_finds_nothing_to_do_and_other_views_are_refused(job, made):
    words = ["--views", 3, "--augment", GEOMETRY, "--augment-seed", 5]
    again = job.extract(made, *words)
    assert (again["unchanged"], again["extracted"]["exams"]) == (4, 0)
    for other, key in [(["--views", 2, *words[2:]], "views"), ([*words[:4], "--augment-seed", 6], "seed"),
                       (["--views", 3, "--augment", "flip", *words[4:]], "augment"), ([], "views")]:
        assert key in job.extract(made, *other, expect=3)


def test_labels_and_dry_run(job, made, tmp_path):
    words = ["--views", 3, "--augment", GEOMETRY, "--augment-seed", 5]
    one = json.loads(coldframe("extract", "--input", job.folder / "m.csv", "--dry-run", "--json").stdout)["totals"]
    four = json.loads(coldframe("extract", "--input", job.folder / "m.csv", "--dry-run", "--json", *words).stdout)["totals"]
    assert (one["views"], four["views"]) == (1, 4)
    assert four["cache_bytes"] - one["cache_bytes"] == 3 * (13 * 384 * 2 + 4 * 8)  # with a checksum for each of 4 exams
    assert "4 views" in coldframe("extract", "--input", job.folder / "m.csv", "--dry-run", *words).stdout

    before = (job.folder / "m.csv").read_text()
    (job.folder / "m.csv").write_text(before.replace("p1", "q1"))
    try:
        copy = tmp_path / "copy.h5"
        copy.write_bytes(made.read_bytes())
        assert job.extract(copy, *words)["metadata_updated"] == 1
        coldframe("cache", "verify", copy)
        with h5py.File(made) as a, h5py.File(copy) as b:
            assert a["features/view3"][:].tobytes() == b["features/view3"][:].tobytes()
    finally:
        (job.folder / "m.csv").write_text(before)


def test_the_verbs_of_cache_take_several_views(job, made, tmp_path):
    words = ["--views", 3, "--augment", GEOMETRY, "--augment-seed", 5]
    manifest = (job.folder / "m.csv").read_text().splitlines()
    parts = []
    for part in (0, 1):
        source = job.folder / f"part{part}.csv"
        source.write_text("\n".join([manifest[0], *(r for r in manifest[1:] if int(r[1]) % 2 == part)]) + "\n")
        parts.append(tmp_path / f"part{part}.cache")
        command = job.command(parts[-1], *words)
        coldframe(*(source if word == job.folder / "m.csv" else word for word in command))
    merged = tmp_path / "merged.h5"
    coldframe("cache", "merge", merged, *parts)
    coldframe("cache", "verify", merged)
    info = json.loads(coldframe("cache", "info", merged, "--json").stdout)
    assert info["views"] == ["clean", "view1", "view2", "view3"] and info["frames"] == 13
    assert "clean, view1, view2, view3" in coldframe("cache", "info", merged).stdout

    shown = json.loads(coldframe("cache", "show", merged, "E1", "--view", "view2", "--json").stdout)
    assert shown["view"] == "view2"
    assert "it has clean, view1" in coldframe("cache", "show", merged, "E1", "--view", "view9", expect=3).stderr
    assert set(json.loads(coldframe("cache", "stats", merged, "--json").stdout)["views"]) == set(info["views"])
    coldframe("cache", "export", tmp_path / "x.npy", merged, "--view", "view2")
    coldframe("cache", "report", tmp_path / "x.html", merged)
    assert "view3" in (tmp_path / "x.html").read_text()

    reader = open_cache(merged)
    original = open_cache(made)
    assert reader.views == ["clean", "view1", "view2", "view3"]
    for exam in job.frames:
        np.testing.assert_array_equal(reader.features(exam, "view2"), original.features(exam, "view2"))
    exported = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(exported, np.concatenate([reader.features(row, "view2") for row in range(4)]))


def test_damage_in_a_view_is_found(made, tmp_path):
    content = bytearray(made.read_bytes())
    with h5py.File(made) as file:
        first = file["features/view2"].id.get_chunk_info(0).byte_offset
    content[first + 40] ^= 1
    (tmp_path / "x.h5").write_bytes(content)
    coldframe("cache", "verify", tmp_path / "x.h5", expect=1)
