"""Lost frames together with what else changes between runs: later failures, merging, ids, rows of a manifest."""

import json
import shutil

import numpy as np
from PIL import Image

from test_extract import coldframe
from test_lost_frames import extract, frames_of


def exam_of(folder, name, frames=6, seed=0):
    rng = np.random.default_rng([seed, *name.encode()])
    (folder / name).mkdir(parents=True)
    for frame in range(frames):
        pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name / f"{frame}.png")
    return folder / name


def masked(cache, exam):
    return [frame for frame, (_, feature) in enumerate(frames_of(cache)[exam]) if feature is None]


def test_a_lost_frame_is_tried_again_after_a_later_failure(tmp_path):
    source = exam_of(tmp_path / "in", "e1")
    exam_of(tmp_path / "in", "e2")
    whole = {name: (source / name).read_bytes() for name in ("3.png", "5.png")}
    cache = tmp_path / "x.h5"
    (source / "3.png").write_bytes(b"")
    extract(tmp_path / "in", cache, expect=1)
    (source / "5.png").write_bytes(b"")
    extract(tmp_path / "in", cache, expect=1)
    (source / "5.png").write_bytes(whole["5.png"])
    for _ in range(2):
        assert extract(tmp_path / "in", cache, expect=1)["lost_frames"] == 1
    assert masked(cache, "e1") == [3]
    (source / "3.png").write_bytes(whole["3.png"])
    extract(tmp_path / "in", cache)
    assert masked(cache, "e1") == []
    assert extract(tmp_path / "in", cache)["unchanged"] == 2


def test_merging_takes_lost_frames_from_where_it_takes_the_exam(tmp_path):
    source = exam_of(tmp_path / "in", "e1")
    extract(tmp_path / "in", tmp_path / "whole.h5")
    (source / "3.png").write_bytes(b"")
    extract(tmp_path / "in", tmp_path / "lost.h5", expect=1)
    for first, second, failures in [("whole", "lost", 0), ("lost", "whole", 1)]:
        out = tmp_path / f"{first}-first.h5"
        coldframe("cache", "merge", out, tmp_path / f"{first}.h5", tmp_path / f"{second}.h5", "--prefer", "first")
        info = json.loads(coldframe("cache", "info", out, "--json").stdout)
        assert len(info["failures"]) == failures, info["failures"]
        assert masked(out, "e1") == [3] * failures


def test_another_exam_under_a_cached_id_is_refused_until_that_one_is_pruned(tmp_path):
    """A lost frame does not make the new exam answer for the frames that the cached one had."""
    source, cache = exam_of(tmp_path / "in", "e1", frames=12), tmp_path / "x.cache"
    exam_of(tmp_path / "in", "e2")
    extract(tmp_path / "in", cache)
    shutil.rmtree(source)
    exam_of(tmp_path / "in", "e1", frames=6, seed=1)
    for frame in range(6):
        (source / f"{frame}.png").rename(source / f"new-{frame}.png")
    (source / "new-5.png").write_bytes(b"junk")
    refusal = extract(tmp_path / "in", cache, expect=3)
    assert "exam 'e1': the cache has 'e1/0.png' and 11 more files, the input 'e1/new-0.png' and 5 more files" in refusal
    (tmp_path / "ids.txt").write_text("e1\n")
    coldframe("cache", "prune", cache, "--exams", tmp_path / "ids.txt")
    done = extract(tmp_path / "in", cache, expect=1)
    assert (done["extracted"]["exams"], done["cached"]["exams"], done["lost_frames"]) == (1, 2, 1), done


def test_rows_that_name_a_file_twice_or_pass_one_over(tmp_path):
    exam_of(tmp_path, "e1", frames=3)
    (tmp_path / "e1" / "notes.xyz").write_text("no image")
    (tmp_path / "twice.csv").write_text("exam,path\ne,e1/*.png\ne,./e1/1.png\n")
    assert "names './e1/1.png' again, as line 2 did" in extract(tmp_path / "twice.csv", tmp_path / "a.h5", expect=3)
    (tmp_path / "folder.csv").write_text("exam,path\ne,e1\n")
    done = coldframe("extract", "--input", tmp_path / "folder.csv", "--dry-run")
    assert "'e1': " in done.stderr and "notes.xyz" in done.stderr


def test_an_array_that_may_be_one_colour_image_is_asked_about(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((48, 64, 3), np.uint8))
    (tmp_path / "x.csv").write_text("exam,path\ne,a.npy\n")
    done = extract(tmp_path / "x.csv", tmp_path / "x.h5", expect=1)
    assert "store a colour image as [1, H, W, 3]" in done["failures"][0]["reason"]
