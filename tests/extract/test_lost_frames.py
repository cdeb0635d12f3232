"""Frames that cannot be read: they keep their slots, masked, and cost no other frame anything."""

import json
import subprocess

import h5py
import numpy as np
import pytest
import tifffile
from PIL import Image

from test_extract import RANDOM, SHARED, coldframe, make_exams

SUFFIXES = ["png", "jpg", "tif", "webp"]


def extract(manifest, out, *extra, expect=0):
    done = coldframe("extract", "--input", manifest, *RANDOM, "--precision", "fp32", "--store", "float32", "--out", out,
                     "--json", *extra, expect=expect)
    return json.loads(done.stdout) if done.stdout else done.stderr


def frames_of(cache):
    """{exam: [(file, feature or None)]}"""
    found = {}
    with h5py.File(cache) as file:
        offsets, present = file["exams/offset"][:], file["frames/present"][:]
        features, sources = file["features/clean"][:], file["frames/source"].asstr()[:]
        for row, exam in enumerate(file["exams/id"].asstr()[:]):
            rows = range(offsets[row], offsets[row + 1])
            assert all(np.isnan(features[i]).all() for i in rows if not present[i])
            found[exam] = [(sources[i], features[i] if present[i] else None) for i in rows]
    return found


def make_cohort(folder, rng):
    """Exams of one to five images of any format; returns the manifest."""
    rows = ["exam,path"]
    for exam in range(5):
        for frame in range(rng.integers(1, 6)):
            name = f"e{exam}-{frame}.{rng.choice(SUFFIXES)}"
            Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(folder / name)
            rows.append(f"e{exam},{name}")
    (folder / "x.csv").write_text("\n".join(rows) + "\n")
    return folder / "x.csv"


def damage(path, rng):
    content = path.read_bytes()
    kind = rng.integers(5)
    if kind == 0:
        path.write_bytes(b"")
    elif kind == 1:
        path.write_bytes(content[:rng.integers(1, len(content) // 2)])
    else:
        path.unlink()
    if kind == 3:
        path.mkdir()
    elif kind == 4:
        path.symlink_to(path.name)


@pytest.mark.parametrize("seed", range(6))
def test_no_readable_frame_is_lost(tmp_path, seed):
    rng = np.random.default_rng(seed)
    manifest = make_cohort(tmp_path, rng)
    extract(manifest, tmp_path / "whole.h5")
    whole = frames_of(tmp_path / "whole.h5")
    names = [name for frames in whole.values() for name, _ in frames]
    bad = {str(name) for name in rng.choice(names, rng.integers(1, len(names)), replace=False)}
    for name in bad:
        damage(tmp_path / name, rng)
    summary = extract(manifest, tmp_path / "x.h5", expect=1)
    found = frames_of(tmp_path / "x.h5")
    assert set(found) == {exam for exam, frames in whole.items() if {name for name, _ in frames} - bad}
    for exam, frames in found.items():
        for (name, feature), (whole_name, whole_feature) in zip(frames, whole[exam], strict=True):
            assert name == whole_name and (feature is None) == (name in bad)
            assert feature is None or np.array_equal(feature, whole_feature)
    assert {failure["exam"] for failure in summary["failures"]} == set(whole) - set(found)
    lost = {name for frames in found.values() for name, feature in frames if feature is None}
    assert {each["source"] for each in summary["lost"]} == lost
    assert all(each["source"] in each["reason"] and each["frames"] == 1 for each in summary["lost"])
    assert summary["lost_frames"] == len(lost)


def test_a_lost_frame_is_in_the_summary_the_failures_and_no_finding_of_verify(tmp_path):
    manifest = make_exams(tmp_path, exams=2, frames=4)
    (tmp_path / "e1/2.png").write_bytes(b"")
    command = ["extract", "--input", manifest, *RANDOM, "--out", tmp_path / "x.h5"]
    text = coldframe(*command, expect=1).stdout
    assert "masked     1 frame of 1 exam that cannot be read" in text
    assert "lost       exam 'exam-1', 1 frame: " in text and "2.png' is empty" in text
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["frames/present"][:].tolist() == [1] * 6 + [0, 1]
        assert file["failures/exam"].asstr()[:].tolist() == ["exam-1"]
        assert file["failures/source"].asstr()[:].tolist() == ["e1/2.png"]
    before = (tmp_path / "x.h5").read_bytes()
    coldframe(*command, expect=1)
    assert (tmp_path / "x.h5").read_bytes() == before
    coldframe("cache", "verify", tmp_path / "x.h5")
    coldframe("cache", "verify", tmp_path / "x.h5", "--input", manifest)
    assert "4 (1 missing)" in coldframe("cache", "ls", tmp_path / "x.h5").stdout
    assert "2.png' is empty" in coldframe("cache", "info", tmp_path / "x.h5").stdout


def test_strict_and_min_frames_say_when_it_is_too_much(tmp_path):
    manifest = make_exams(tmp_path, exams=2, frames=4)
    (tmp_path / "e1/2.png").unlink()
    assert "(--strict)" in extract(manifest, tmp_path / "strict.h5", "--strict", expect=3)
    assert extract(manifest, tmp_path / "three.h5", "--min-frames", 3, expect=1)["lost_frames"] == 1
    four = extract(manifest, tmp_path / "four.h5", "--min-frames", 4, expect=1)
    assert (four["lost"], four["extracted"]["exams"]) == ([], 1)
    assert "only 3 frames can be read, --min-frames asks for 4" in four["failures"][0]["reason"]
    assert "expected 1 or more" in extract(manifest, tmp_path / "none.h5", "--min-frames", 0, expect=2)


@pytest.mark.parametrize("selection", [["--fps", "4"], ["--start", "2", "--end", "9"], ["--frames", "2"]])
def test_a_frame_that_is_lost_stands_in_no_selection_s_way(tmp_path, selection):
    manifest = make_exams(tmp_path, exams=1, frames=5)
    (tmp_path / "e0/0.png").write_bytes(b"")
    summary = extract(manifest, tmp_path / "x.h5", *selection, expect=0 if "--start" in selection else 1)
    assert summary["extracted"]["exams"] == 1


def test_the_range_of_deep_images_survives_a_bad_frame(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["exam,path"]
    for frame in range(4):
        tifffile.imwrite(tmp_path / f"{frame}.tif", (rng.random((40, 50)) * 1000).astype(np.float32))
        rows.append(f"e,{frame}.tif")
    (tmp_path / "x.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "2.tif").write_bytes((tmp_path / "2.tif").read_bytes()[:4000])
    summary = extract(tmp_path / "x.csv", tmp_path / "x.h5", "--crop", "auto", expect=1)
    assert (summary["extracted"], summary["lost_frames"]) == ({"exams": 1, "frames": 4}, 1)
    (tmp_path / "x.csv").write_text("\n".join(row for row in rows if "2.tif" not in row) + "\n")
    extract(tmp_path / "x.csv", tmp_path / "three.h5", "--crop", "auto")
    three = frames_of(tmp_path / "three.h5")["e"]
    kept = [frame for frame in frames_of(tmp_path / "x.h5")["e"] if frame[1] is not None]
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(kept, three, strict=True))


def test_a_clip_that_is_cut_off_keeps_its_frames_and_is_accepted_on_request(tmp_path):
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:d=2:r=10", "-c:v", "mpeg4",
                    str(tmp_path / "a.avi")], check=True)
    content = (tmp_path / "a.avi").read_bytes()
    (tmp_path / "a.avi").write_bytes(content[:len(content) * 4 // 5])
    summary = extract(tmp_path / "a.avi", tmp_path / "x.h5", expect=1)
    assert summary["lost_frames"] == 1 and "how many are lost is not known" in summary["lost"][0]["reason"]
    accepted = extract(tmp_path / "a.avi", tmp_path / "accepted.h5", "--accept-broken-tail")
    assert accepted["extracted"]["frames"] == summary["extracted"]["frames"] - 1
    assert extract(tmp_path / "a.avi", tmp_path / "x.h5", expect=1)["unchanged"] == 1


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")
def test_a_cut_dicom_file_keeps_its_whole_frames(tmp_path):
    folder = SHARED / "data/dicom/multiframe"
    for name in ("emri_small.dcm", "emri_small_RLE.dcm", "emri_small_jpeg_2k_lossless.dcm", "Issue16.dcm"):
        extract(folder / name, tmp_path / f"{name}.whole.h5", "--window", "500,1000")
        (_, whole), = frames_of(tmp_path / f"{name}.whole.h5").items()
        content = (folder / name).read_bytes()
        (tmp_path / name).write_bytes(content[:len(content) * 3 // 4])
        summary = extract(tmp_path / name, tmp_path / f"{name}.h5", "--window", "500,1000", expect=1)
        (_, frames), = frames_of(tmp_path / f"{name}.h5").items()
        assert len(frames) == len(whole)
        kept = [feature is not None for _, feature in frames]
        assert kept == sorted(kept, reverse=True) and 0.5 * len(whole) < sum(kept) < len(whole), name
        assert all(np.array_equal(a[1], b[1]) for a, b in zip(frames[:sum(kept)], whole)), name
        assert summary["lost_frames"] == len(whole) - sum(kept) and "truncated" in summary["lost"][0]["reason"]


def test_frames_of_floats_without_a_number_are_lost_and_told(tmp_path):
    frames = np.random.default_rng(0).random((4, 40, 50)).astype(np.float32)
    frames[1], frames[2, :5] = np.nan, np.nan
    np.save(tmp_path / "a.npy", frames)
    summary = extract(tmp_path / "a.npy", tmp_path / "x.h5", expect=1)
    (exam,) = frames_of(tmp_path / "x.h5").values()
    assert [feature is not None for _, feature in exam] == [True, False, True, True]
    assert summary["partly_finite_frames"] == 1 and summary["lost_frames"] == 1
    assert "'a.npy': none of the values is a finite number" in summary["lost"][0]["reason"]
