"""`extract --reuse`: further views and thumbnails beside features that an older cache has already."""

import json

import numpy as np
import pytest
from PIL import Image

import loaded_program
from cache_data import all_data

RANDOM = ["--random-weights", "0", "--architecture", "vit_tiny_patch16_224", "--pool", "mean", "--mean", "0.5",
          "--std", "0.5", "--image-size", "32", "--device", "cpu", "--precision", "fp32", "--quiet", "--json"]
VIEWS = ["--views", "2", "--augment", "flip,brightness=0.2", "--thumbnails", "32"]


def coldframe(*arguments, expect=0):
    done = loaded_program.coldframe(*arguments)
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done


def picture(seed):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (40, 48, 3), dtype=np.uint8))


class Cohort:
    """Three exams of images, one of them with a lost frame, and a clip: 12 frames that can be read."""

    def __init__(self, folder):
        self.manifest = folder / "m.csv"
        rows = ["exam,path,time,patient,label"]
        for exam in range(3):
            for t in range(3):
                picture(10 * exam + t).save(folder / f"{exam}-{t}.png")
                rows.append(f"E{exam},{exam}-{t}.png,{t},p{exam},{exam % 2}")
        (folder / "2-1.png").write_bytes(b"")
        first, *others = [picture(100 + t) for t in range(4)]
        first.save(folder / "clip.gif", save_all=True, append_images=others, duration=100)
        rows.append("C,clip.gif,,p9,1")
        self.manifest.write_text("\n".join(rows) + "\n")

    def extract(self, out, *options, expect=1):  # 1: a frame is lost
        done = coldframe("extract", "--input", self.manifest, "--out", out, *RANDOM, *options, expect=expect)
        return json.loads(done.stdout) if expect < 2 else done.stderr


@pytest.fixture
def cohort(tmp_path):
    return Cohort(tmp_path)


@pytest.mark.parametrize("old", ["old.h5", "old.cache"])
def test_views_and_thumbnails_are_added_as_if_extracted_from_nothing(cohort, tmp_path, old):
    cohort.extract(tmp_path / old)
    before = {path: path.read_bytes() for path in tmp_path.rglob(f"{old}*") if path.is_file()}
    grown = cohort.extract(tmp_path / "grown.h5", *VIEWS, "--reuse", tmp_path / old)
    scratch = cohort.extract(tmp_path / "scratch.h5", *VIEWS)
    assert (grown["reused_features"], scratch["reused_features"]) == (12, 0)
    assert grown["extracted"] == scratch["extracted"] == {"exams": 4, "frames": 13}
    assert all_data(tmp_path / "grown.h5") == all_data(tmp_path / "scratch.h5")
    assert before == {path: path.read_bytes() for path in before}
    coldframe("cache", "verify", tmp_path / "grown.h5")
    again = cohort.extract(tmp_path / "grown.h5", *VIEWS)
    assert (again["unchanged"], again["extracted"]["exams"]) == (4, 0)


def test_views_that_are_drawn_alike_are_taken_over_as_well(cohort, tmp_path):
    cohort.extract(tmp_path / "old.h5", *VIEWS)
    three = ["--views", "3", *VIEWS[2:]]
    assert cohort.extract(tmp_path / "grown.h5", *three, "--reuse", tmp_path / "old.h5")["reused_features"] == 3 * 12
    cohort.extract(tmp_path / "scratch.h5", *three)
    assert all_data(tmp_path / "grown.h5") == all_data(tmp_path / "scratch.h5")
    fewer = cohort.extract(tmp_path / "fewer.h5", "--thumbnails", "32", "--reuse", tmp_path / "old.h5")
    assert (fewer["reused_features"], fewer["compute_seconds"]) == (12, 0)
    other = cohort.extract(tmp_path / "other.h5", *VIEWS, "--augment-seed", 1, "--reuse", tmp_path / "old.h5")
    assert other["reused_features"] == 12


def test_only_unchanged_exams_are_taken_over_and_a_stopped_run_goes_on(cohort, tmp_path):
    cohort.extract(tmp_path / "old.h5")
    picture(77).save(tmp_path / "0-1.png")
    text = cohort.manifest.read_text()
    cohort.manifest.write_text("\n".join(text.splitlines()[:7]) + "\n")  # E0 and E1
    assert cohort.extract(tmp_path / "grown.h5", *VIEWS, "--reuse", tmp_path / "old.h5", expect=0)["reused_features"] == 3
    cohort.manifest.write_text(text.replace("p1,1", "p1,severe"))
    rest = cohort.extract(tmp_path / "grown.h5", *VIEWS, "--reuse", tmp_path / "old.h5")
    assert (rest["extracted"]["exams"], rest["metadata_updated"], rest["reused_features"]) == (2, 1, 6)
    cohort.extract(tmp_path / "scratch.h5", *VIEWS)
    coldframe("cache", "diff", tmp_path / "grown.h5", tmp_path / "scratch.h5")


@pytest.mark.parametrize("other, keys", [
    (["--frames", 2], ["frames"]), (["--store", "float32"], ["store"]),
    (["--interpolation", "bilinear", "--every", 2], ["preprocessing.interpolation", "every"]),
    (["--precision", "bf16"], ["computed in fp32", "computes in bf16", "--precision fp32"])])
def test_features_of_another_recipe_are_refused_with_what_differs(cohort, tmp_path, other, keys):
    cohort.extract(tmp_path / "old.h5")
    words = ["--precision", "fp32"]
    arguments = ["extract", "--input", cohort.manifest, "--out", tmp_path / "grown.h5",
                 *[word for word in RANDOM if word not in words], *(words if "--precision" not in other else []), *other,
                 *VIEWS, "--reuse", tmp_path / "old.h5"]
    error = coldframe(*arguments, expect=3).stderr
    assert all(key in error for key in ["--reuse", *keys]), error
    assert "views" not in error.split("\n", 1)[-1]
    assert not list(tmp_path.glob("grown*"))


def test_the_cache_itself_cannot_be_its_own_source(cohort, tmp_path):
    cohort.extract(tmp_path / "old.h5")
    assert "is --reuse" in cohort.extract(tmp_path / "old.h5", *VIEWS, "--reuse", tmp_path / "old.h5", expect=2)
    assert "no such cache" in cohort.extract(tmp_path / "x.h5", "--reuse", tmp_path / "none.h5", expect=3)
    for looks_only in ("--dry-run", "--benchmark"):
        assert "leave it out" in cohort.extract(tmp_path / "x.h5", "--reuse", tmp_path / "old.h5", looks_only, expect=2)
