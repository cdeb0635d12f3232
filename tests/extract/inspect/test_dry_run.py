"""`coldframe extract --dry-run` as a user runs it, and on a folder of clips, DICOM and NIfTI in one go."""

import json
import os
import pathlib
import subprocess

import nibabel
import numpy as np
import pytest
from PIL import Image

import loaded_program

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
SHARED = ROOT.parent / "shared"


def dry_run(source, *extra, expect=0):
    done = loaded_program.coldframe("extract", "--input", source, "--dry-run", *extra)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def exams(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["exam,path,time,patient"]
    for exam in range(3):
        for frame in range(4):
            Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8)).save(tmp_path / f"{exam}-{frame}.png")
            rows.append(f"E{exam},{exam}-{frame}.png,{frame * 2.5},p{exam}")
    (tmp_path / "m.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_lists_what_would_be_extracted_and_writes_nothing(exams):
    before = sorted(path.name for path in exams.iterdir())
    report = json.loads(dry_run(exams / "m.csv", "--json", "--frames", "2", "--keep-patient-id").stdout)
    assert sorted(path.name for path in exams.iterdir()) == before
    assert report["findings"] == []
    assert {key: report["totals"][key] for key in ("exams", "frames", "selected", "patients", "unreadable")} == {
        "exams": 3, "frames": 12, "selected": 6, "patients": 3, "unreadable": 0}
    first = report["exams"][0]
    assert (first["exam"], first["patient"], first["kind"], first["frames"], first["sizes"]) == (
        "E0", "p0", "images", 4, [[80, 60]])
    assert first["times"] == {"kind": "constant", "span_s": 7.5, "median_interval_s": 2.5, "frames_per_time": 1,
                              "duplicate": 0, "decreasing": 0}
    text = dry_run(exams / "m.csv").stdout
    assert "3 exams, 12 frames, 3 patients\nPatients: stored as hashes (" in text and "Look at" not in text


def test_what_the_order_rests_on_is_told(exams, tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    for path in exams.glob("1-*.png"):
        (folder / path.name).write_bytes(path.read_bytes())
    report = json.loads(dry_run(folder, "--json").stdout)
    assert report["exams"][0]["order"] == {"by": "file names", "times_by": "", "names_alone": True}
    assert "order_by_names" in [finding["kind"] for finding in report["findings"]]
    assert "by file names" in dry_run(folder).stdout
    report = json.loads(dry_run(exams / "m.csv", "--json").stdout)
    assert report["exams"][0]["order"] == {"by": "the manifest", "times_by": "the input", "names_alone": False}


def test_an_unreadable_exam_is_a_finding_and_the_exit_code(exams):
    for frame in range(4):
        (exams / f"1-{frame}.png").write_bytes(b"")
    done = dry_run(exams / "m.csv", expect=1)
    assert "cannot be extracted (1)" in done.stdout and "1-0.png' is empty" in done.stdout


def test_tells_what_mask_and_crop_would_do(exams):
    done = dry_run(exams / "m.csv", "--crop", "0,0,81,60", "--json", expect=1)
    assert all("0,0,81,60" in exam["failure"] for exam in json.loads(done.stdout)["exams"])
    dry_run(exams / "m.csv", "--crop", "0,0,80,60")


def test_slices_of_a_volume_share_its_time(tmp_path):
    volumes = nibabel.Nifti1Image(np.arange(5 * 6 * 3 * 4, dtype=np.int16).reshape(5, 6, 3, 4), np.eye(4))
    volumes.header.set_zooms((1, 1, 1, 2))
    volumes.header.set_xyzt_units("mm", "sec")
    nibabel.save(volumes, tmp_path / "a.nii")
    assert "6.00 s, 3 frames every 2.00 s" in dry_run(tmp_path / "a.nii").stdout
    times = json.loads(dry_run(tmp_path / "a.nii", "--json").stdout)["exams"][0]["times"]
    assert (times["kind"], times["median_interval_s"], times["frames_per_time"]) == ("constant", 2, 3)


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")
def test_takes_a_mixed_folder_in_one_go(tmp_path):
    clips = sorted((SHARED / "data/pocus/pocus_videos/linear").iterdir())
    for source in [SHARED / "data/dicom", SHARED / "data/nifti", SHARED / "data/pocus/pocus_videos/linear"]:
        (tmp_path / source.name).symlink_to(source)
    report = json.loads(dry_run(tmp_path, "--json", "--quiet", expect=1).stdout)
    kinds = {exam["kind"] for exam in report["exams"]}
    assert {"video", "dicom", "nifti"} <= kinds
    found = [exam for exam in report["exams"] if exam["exam"].startswith("linear/")]
    assert len(found) == len(clips) and all(exam["failure"] is None and exam["frames"] > 20 for exam in found)
    unreadable = [case["exams"][0] for finding in report["findings"] if finding["kind"] == "unreadable"
                  for case in finding["cases"]]
    assert unreadable


def test_tells_of_frames_that_cannot_be_read(exams):
    (exams / "1-2.png").write_bytes(b"")
    report = json.loads(dry_run(exams / "m.csv", "--json", expect=1).stdout)
    assert [exam["lost"] for exam in report["exams"]] == [0, 1, 0]
    finding, = (finding for finding in report["findings"] if finding["kind"] == "lost_frames")
    assert [case["exams"] for case in finding["cases"]] == [["E1"]] and "1-2.png' is empty" in finding["cases"][0]["detail"]
    assert report["totals"]["unreadable"] == 0


@pytest.mark.parametrize("name, codec, more", [
    ("a.mp4", "libx264", ["-g", "12", "-bf", "2"]), ("a.mov", "mpeg4", []), ("a.avi", "mpeg4", []), ("a.avi", "mjpeg", []),
    ("a.mkv", "libx264", ["-g", "300"]), ("a.webm", "libvpx-vp9", []), ("a.mpg", "mpeg1video", []), ("a.gif", "gif", [])])
@pytest.mark.parametrize("rate", [10, 25])
def test_clips_are_estimated_as_the_job_finds_them(tmp_path, name, codec, more, rate):
    if name == "a.mpg" and rate == 10:
        pytest.skip("MPEG-1 knows few rates")
    clip = tmp_path / name
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=s=64x48:d=4:r={rate}", "-c:v", codec, *more,
                    str(clip)], check=True)
    done = subprocess.run([BUILD / "tests/frames_driver", clip, "0"], capture_output=True, text=True, check=True)
    slots = json.loads(done.stdout)["slots"]
    report = json.loads(dry_run(clip, "--json").stdout)
    exam, = report["exams"]
    assert report["totals"]["clips_are_estimates"] and report["totals"]["decode_core_seconds"] >= 0
    assert exam["frames"] == pytest.approx(len(slots), rel=0.05)
    assert exam["times"]["span_s"] == pytest.approx(slots[-1]["time_s"], rel=0.05)
    assert exam["times"]["median_interval_s"] == pytest.approx(1 / rate, rel=0.05)
    assert exam["sizes"] == [[64, 48]]
    text = dry_run(clip).stdout
    assert "counted by their packets, an estimate" in text and "of one core" in text


def test_a_clip_that_is_cut_off_is_found_without_decoding_it(tmp_path):
    clip = tmp_path / "a.avi"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:d=4:r=10", "-c:v", "mpeg4", str(clip)],
                   check=True)
    clip.write_bytes(clip.read_bytes()[:-5000])
    exam, = json.loads(dry_run(clip, "--json", expect=1).stdout)["exams"]
    assert exam["failure"] is None and exam["lost"] == 1 and exam["frames"] > 20


@pytest.mark.parametrize("more", [[], ["--thumbnails", "64"], ["--views", "2", "--thumbnails", "--store", "float32"],
                                  ["--frames", "4"]])
def test_frames_and_size_are_estimated_within_a_tenth_of_the_jobs(tmp_path, more):
    rng = np.random.default_rng(3)
    rows = ["exam,path,patient,label,site"]
    for exam in range(12):
        for t in range(3):
            small = Image.fromarray(rng.integers(0, 256, (6, 7, 3), dtype=np.uint8))
            small.resize((120 + 20 * (exam % 3), 100), Image.Resampling.BICUBIC).save(tmp_path / f"exam-{exam}-{t}.png")
            rows.append(f"exam-{exam},exam-{exam}-{t}.png,patient-{exam % 5},{exam % 2},the northern hospital")
    clip = [Image.fromarray(rng.integers(0, 256, (40, 50), dtype=np.uint8)) for _ in range(9)]
    clip[0].save(tmp_path / "clip.gif", save_all=True, append_images=clip[1:], duration=80)
    rows.append("clip,clip.gif,patient-9,1,the northern hospital")
    (tmp_path / "m.csv").write_text("\n".join(rows) + "\n")
    estimate = json.loads(dry_run(tmp_path / "m.csv", "--json", *more).stdout)["totals"]
    job = loaded_program.coldframe("extract", "--input", tmp_path / "m.csv", "--out", tmp_path / "x.h5", "--json",
                                   "--architecture", "vit_small_patch16_224", "--random-weights", 0, "--pool", "cls", "--mean", 0,
                                   "--std", 1, "--image-size", 16, "--device", "cpu", *more)
    assert job.returncode == 0, job.stderr
    made = json.loads(job.stdout)["cached"]
    assert estimate["selected"] == made["frames"]
    assert abs(estimate["cache_bytes"] / made["bytes"] - 1) < 0.1, (estimate["cache_bytes"], made["bytes"])
