"""coldframe.open against caches that coldframe extract made, and shards written by hand."""

import csv
import io
import multiprocessing
import os
import pickle
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

import coldframe

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))


def run(*command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)


def extract(manifest, out, *options):
    run(BUILD / "bin/coldframe", "extract", "--input", manifest, "--out", out, "--random-weights", 0,
        "--architecture", "vit_tiny_patch16_224", "--pool", "mean", "--mean", 0.5, "--std", 0.5,
        "--image-size", 32, "--device", "cpu", "--precision", "fp32", "--frame-columns", "eye",
        "--keep-patient-id", *options)


def write_manifest(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Five exams of four patients, 3 frames each (the last frame of E0002 is missing), as manifest rows."""
    folder = tmp_path_factory.mktemp("exams")
    run(BUILD / "bin/coldframe-make-exams", "--out", folder, "--exams", 5, "--frames", 3, "--size", 64)
    with open(folder / "exams.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        row["eye"] = "left" if number % 2 else "right"
        row["site/ward"] = "münchen" if row["exam"] < "E0003" else ""
    rows[8]["path"] = ""
    write_manifest(folder / "exams.csv", rows)
    extract(folder / "exams.csv", folder / "exams.cache")
    extract(folder / "exams.csv", folder / "exams.h5", "--thumbnails", 48)
    return folder, rows


@pytest.mark.parametrize("name", ["exams.cache", "exams.h5"])
def test_exams_and_frames_are_those_of_the_manifest(made, name):
    folder, rows = made
    cache = coldframe.open(folder / name)
    assert list(cache.exams["exam"]) == ["E0000", "E0001", "E0002", "E0003", "E0004"]
    assert list(cache.exams["patient"]) == [rows[3 * i]["patient"] for i in range(5)]
    assert list(cache.exams["label"]) == [int(rows[3 * i]["label"]) for i in range(5)]
    assert list(cache.exams["site/ward"]) == ["münchen"] * 3 + [""] * 2
    assert list(cache.exams["frames"]) == [3] * 5
    for exam in range(5):
        expected = rows[3 * exam : 3 * exam + 3]
        frames = cache.frames(exam)
        times = np.array([float(row["time"]) for row in expected])
        np.testing.assert_allclose(frames["time_s"], times - times[0], atol=1e-9)
        assert list(frames["present"]) == [row["path"] != "" for row in expected]
        assert list(frames["eye"]) == [row["eye"] for row in expected]


def test_features_of_folder_and_file_are_equal_and_finite_where_present(made):
    folder, _ = made
    shards, single = coldframe.open(folder / "exams.cache"), coldframe.open(folder / "exams.h5")
    assert shards.recipe["features"] == single.recipe["features"]
    for exam in shards.exams["exam"]:
        features = shards.features(exam)
        assert features.shape == (3, 192) and features.dtype == np.float32
        np.testing.assert_array_equal(features, single.features(exam))
        np.testing.assert_array_equal(~np.isnan(features).any(axis=1), shards.frames(exam)["present"])
    assert np.abs(shards.features(0) - shards.features(1)).max() > 0.01


def test_thumbnails_are_the_frames_as_pillow_sees_them(made):
    folder, rows = made
    without, cache = coldframe.open(folder / "exams.cache"), coldframe.open(folder / "exams.h5")
    assert without.thumbnail(0, 0) == b""
    for number, row in enumerate(rows):
        exam, frame = divmod(number, 3)
        file = cache.thumbnail(row["exam"], frame)
        if row["path"] == "":
            assert file == b""
            continue
        with Image.open(io.BytesIO(file)) as found, Image.open(folder / row["path"]) as frame_file:
            assert found.format == "JPEG" and found.size == (48, 48)
            expected = frame_file.convert(found.mode).resize((48, 48), Image.Resampling.BILINEAR)
            difference = np.asarray(found, float) - np.asarray(expected, float)
        assert np.abs(difference).mean() < 4, "JPEG at quality 80"
    assert cache.thumbnail(0, -1) == cache.thumbnail(0, 2)
    with pytest.raises(IndexError):
        cache.thumbnail(0, 3)


def test_a_changed_label_is_read_from_the_later_revision(made):
    folder, rows = made
    extract(folder / "exams.csv", folder / "relabelled.cache")
    before = coldframe.open(folder / "relabelled.cache")
    changed = [dict(row, label="2") if row["exam"] == "E0001" else row for row in rows]
    write_manifest(folder / "relabelled.csv", changed)
    extract(folder / "relabelled.csv", folder / "relabelled.cache")
    after = coldframe.open(folder / "relabelled.cache")
    assert len(after) == 5
    assert after.exams["label"][1] == 2
    np.testing.assert_array_equal(after.features("E0001"), before.features("E0001"))


def test_dataset_feeds_a_loader(made):
    folder, _ = made
    dataset = coldframe.ExamDataset(coldframe.open(folder / "exams.cache"), target="label")
    loader = torch.utils.data.DataLoader(dataset, batch_size=5, num_workers=1, collate_fn=coldframe.collate)
    features, times, present, targets = next(iter(loader))
    assert features.shape == (5, 3, 192) and torch.isfinite(features).all()
    assert times.shape == present.shape == (5, 3)
    assert present.sum() == 14 and not present[2, 2]
    assert targets.tolist() == list(dataset.cache.exams["label"])


def write_shard(path, exams, digest="d"):
    """A shard of one-frame exams, each (id, ordinal, revision, value, label), as FORMAT.md has it."""
    text = lambda values: np.array([v.encode() for v in values], dtype="S16")  # noqa: E731
    ids, ordinals, revisions, values, labels = zip(*exams)
    count = len(exams)
    with h5py.File(path, "w", libver=("v110", "v110")) as shard:
        shard.attrs.update(format="coldframe-cache", format_version=1, recipe="{}", dimension=2, cache_digest=digest)
        shard["features/clean"] = np.repeat(np.float16(values), 2).reshape(count, 2)
        shard["exams/id"], shard["exams/patient"] = text(ids), text(["P"] * count)
        shard["exams/ordinal"], shard["exams/revision"] = np.uint64(ordinals), np.uint32(revisions)
        shard["exams/offset"] = np.arange(count + 1, dtype=np.uint64)
        shard["exams/start_time"] = np.full(count, np.nan)
        shard["exams/columns/label"] = text(labels)
        shard["frames/time_s"], shard["frames/present"] = np.zeros(count), np.ones(count, np.uint8)
        shard["frames/index"], shard["frames/source"] = np.zeros(count, np.int64), text([""] * count)
        shard.create_group("frames/columns")
        for name, dtype in {"exam": "S1", "ordinal": "u8", "revision": "u4", "source": "S1", "reason": "S1"}.items():
            shard[f"failures/{name}"] = np.zeros(0, dtype)


def test_the_highest_revision_wins_and_the_ordinal_orders(tmp_path):
    write_shard(tmp_path / "shard-000-000000.h5", [("b", 1, 0, 1, "x"), ("a", 0, 1, 2, "y")])
    write_shard(tmp_path / "shard-000-000001.h5", [("a", 0, 0, 3, "z"), ("b", 1, 2, 4, "")])
    (tmp_path / "shard-000-000002.h5.tmp").write_bytes(b"unfinished")
    cache = coldframe.open(tmp_path)
    assert list(cache.exams["exam"]) == ["a", "b"]
    assert list(cache.exams["label"]) == ["y", ""]
    assert cache.features("a").tolist() == [[2, 2]]
    assert cache.features("b").tolist() == [[4, 4]]
    assert len(coldframe.ExamDataset(cache, "label")) == 1


def test_text_targets_are_numbers_of_the_sorted_classes(tmp_path):
    write_shard(tmp_path / "shard-000-000000.h5", [("a", 0, 0, 1, "ill"), ("b", 1, 0, 2, ""), ("c", 2, 0, 3, "healthy")])
    dataset = coldframe.ExamDataset(coldframe.open(tmp_path), "label")
    assert list(dataset.classes) == ["healthy", "ill"]
    assert [dataset[i][3] for i in range(2)] == [1, 0]


def test_carried_columns_do_not_replace_those_of_the_cache(tmp_path):
    write_shard(tmp_path / "shard-000-000000.h5", [("a", 0, 0, 1, "x"), ("b", 1, 0, 2, "y")])
    with h5py.File(tmp_path / "shard-000-000000.h5", "a") as shard:
        for name in ("frames", "revision", "ordinal", "start_time", "exam"):
            shard[f"exams/columns/{name}"] = np.array([b"7", b"8"])
    cache = coldframe.open(tmp_path)
    assert list(cache.exams["frames"]) == [1, 1] and list(cache.exams["ordinal"]) == [0, 1]
    assert list(cache.exams["column frames"]) == list(cache.exams["column exam"]) == [7, 8]
    assert cache.features("b").tolist() == [[2, 2]]


def test_shards_of_two_recipes_and_missing_caches_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Coldframe cache"):
        coldframe.open(tmp_path)
    write_shard(tmp_path / "shard-000-000000.h5", [("a", 0, 0, 1, "x")])
    write_shard(tmp_path / "shard-000-000001.h5", [("b", 1, 0, 1, "x")], digest="other")
    with pytest.raises(ValueError, match="another recipe"):
        coldframe.open(tmp_path)


def test_a_file_of_another_format_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"] = np.zeros(3)
    with pytest.raises(ValueError, match="no Coldframe cache of version 1"):
        coldframe.open(tmp_path / "x.h5")


def test_what_is_not_there_is_named(made):
    cache = coldframe.open(made[0] / "exams.cache")
    with pytest.raises(KeyError, match="no exam 'E9'"):
        cache.features("E9")
    with pytest.raises(IndexError):
        cache.features(5)
    with pytest.raises(KeyError, match="no view 'view1'; its views are clean"):
        cache.features(0, "view1")
    with pytest.raises(ValueError, match="has no cut"):
        cache.cut(0)
    with pytest.raises(KeyError, match="no column 'grade'; its columns are exam, patient"):
        coldframe.ExamDataset(cache, "grade")


def test_a_cache_goes_through_fork_and_pickle(made):
    """What a parent has open is not read by its children."""
    cache = coldframe.open(made[0] / "exams.cache")
    expected = cache.features(0)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(cache)).features(0), expected)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.map(cache.features, [0, 0, 0, 0]):
            np.testing.assert_array_equal(found, expected)


def test_times_and_presence_are_the_frames_columns(made):
    cache = coldframe.open(made[0] / "exams.h5")
    for exam in range(5):
        np.testing.assert_array_equal(cache.times(exam), cache.frames(exam)["time_s"])
        np.testing.assert_array_equal(cache.present(exam), cache.frames(exam)["present"])


def test_failures_are_told_until_a_later_revision_holds(tmp_path):
    write_shard(tmp_path / "shard-000-000000.h5", [("a", 0, 2, 1, "x"), ("b", 1, 1, 2, "y")])
    with h5py.File(tmp_path / "shard-000-000000.h5", "a") as shard:
        del shard["failures"]
        exams, revisions = [b"a", b"b", b"c", b"c", b""], [1, 1, 1, 2, 0]
        shard["failures/exam"], shard["failures/source"] = np.array(exams), np.array([b"f"] * 5)
        shard["failures/reason"] = np.array([b"old", b"a frame", b"first", b"last", b"taken out"])
        shard["failures/ordinal"], shard["failures/revision"] = np.zeros(5, np.uint64), np.uint32(revisions)
    failures = coldframe.open(tmp_path).failures
    assert list(failures["exam"]) == ["b", "c"] and list(failures["reason"]) == ["a frame", "last"]
    assert coldframe.open(tmp_path).failures.columns.tolist() == ["exam", "source", "reason"]
