"""MedNet's splits, elapsed times, phases and two streams in one image, from the files to the cache."""

import csv
import json
import pathlib
import sys

import numpy as np
import pytest
from PIL import Image

import loaded_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
REAL = ROOT.parent / "shared/data/angioreport"
sys.path.insert(0, str(ROOT / "common" / "python"))

from coldframe import Cache  # noqa: E402

BACKBONE = ["--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--pool", "mean", "--mean", 0.5, "--std", 0.5,
            "--image-size", 32, "--device", "cpu", "--precision", "fp32"]


def extract(*words, expect=0):
    done = loaded_program.coldframe("extract", *words)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def write(folder, name, size=(64, 40), seed=0):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def phase_stratified(seconds, count, bounds):
    """The frames that MedNet 2.1.0 takes with max_frames_span=phase_stratified, without those that it takes twice; of one
    frame a phase it takes the last, Coldframe the middle."""
    if len(seconds) <= count:
        return list(range(len(seconds)))
    phases = [[i for i, s in enumerate(seconds) if np.searchsorted(bounds, s, side="right") == p] for p in range(len(bounds) + 1)]
    taken = []
    for p, frames in enumerate(phases):
        share = count // len(phases) + (p < count % len(phases))
        if len(frames) <= share:
            taken += frames
        elif share == 1:
            taken.append(frames[round((len(frames) - 1) / 2)])
        else:
            taken += [frames[round(i * (len(frames) - 1) / (share - 1))] for i in range(share)]
    return sorted(taken)


def made_split(folder, exams=6):
    """A split in MedNet's words, and the same as a manifest."""
    rng, split, rows = np.random.default_rng(1), {"train": [], "validation": [], "test": []}, []
    for e in range(exams):
        part = list(split)[e % 3]
        times = np.sort(rng.integers(0, 900, 15)).astype(float)
        frames = []
        for f, time in enumerate(times):
            write(folder, f"Train/{e}_L/{f}.png", seed=100 * e + f)
            frames.append({"file": f"{f}.png", "elapsed_seconds": time})
            rows.append({"exam": f"{e}_L", "path": f"Train/{e}_L/{f}.png", "time": time, "patient": e, "split": part, "label": e % 2})
        split[part].append({"exam": f"Train/{e}_L", "label": e % 2, "frames": frames})
    (folder / "split.json").write_text(json.dumps(split))
    with open(folder / "exams.csv", "w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return split


PATIENTS = ["--exam-from", r"(?<exam>(?<patient>\d+)_[LR])$", "--patient-salt", "x"]


def test_a_split_gives_what_the_same_manifest_gives(tmp_path):
    split = made_split(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "split.json").rename(tmp_path / "elsewhere/split.json")
    phases = ["--frames", 7, "--phases", "103,518"]
    extract("--input", tmp_path / "elsewhere/split.json", "--root", tmp_path, "--out", tmp_path / "a.h5", *PATIENTS, *phases, *BACKBONE)
    extract("--input", tmp_path / "exams.csv", "--patient-salt", "x", "--out", tmp_path / "b.h5", *phases, *BACKBONE)
    a, b = Cache(tmp_path / "a.h5"), Cache(tmp_path / "b.h5")
    ours, theirs = a.exams.set_index("exam"), b.exams.set_index("exam")
    assert len(ours) == 6
    columns = ["patient", "elapsed_start", "split", "label"]
    assert ours[columns].sort_index().equals(theirs[columns].sort_index())
    times = {pathlib.Path(exam["exam"]).name: [frame["elapsed_seconds"] for frame in exam["frames"]]
             for exams in split.values() for exam in exams}
    for exam in ours.index:
        assert np.array_equal(a.features(exam), b.features(exam))
        expected = phase_stratified(times[exam], 7, [103, 518])
        assert (a.frames(exam)["time_s"] + ours["elapsed_start"][exam]).tolist() == pytest.approx([times[exam][f] for f in expected])


def test_elapsed_times_come_to_older_caches_without_extracting(tmp_path):
    made_split(tmp_path, exams=2)
    words = ["--input", tmp_path / "exams.csv", "--out", tmp_path / "x.h5", "--keep-patient-id", *BACKBONE]
    manifest = (tmp_path / "exams.csv").read_text()
    rows = list(csv.DictReader(manifest.splitlines()))
    with open(tmp_path / "exams.csv", "w", newline="") as file:  # dates tell no elapsed time
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        for row in rows:
            seconds = float(row["time"])
            table.writerow(row | {"time": f"2024-03-01T00:{int(seconds) // 60:02d}:{seconds % 60:04.1f}"})
    extract(*words)
    assert Cache(tmp_path / "x.h5").exams["elapsed_start"].isna().all()
    (tmp_path / "exams.csv").write_text(manifest)
    told = json.loads(extract(*words, "--json").stdout)
    assert told["extracted"]["exams"] == 0 and told["metadata_updated"] == 2
    first = {row["exam"]: float(row["time"]) for row in reversed(rows)}
    assert dict(Cache(tmp_path / "x.h5").exams.set_index("exam")["elapsed_start"]) == first


def test_both_halves_of_an_image_are_frames_of_two_streams(tmp_path):
    rows = []
    for f in range(5):
        image = Image.open(write(tmp_path, f"both/{f}.png", size=(64, 50), seed=f))
        image.crop((0, 0, 32, 40)).save(write(tmp_path, f"fa/{f}.png"))
        image.crop((32, 0, 64, 40)).save(write(tmp_path, f"icga/{f}.png"))
        for stream, x in (("FA", "0"), ("ICGA", "50%")):
            rows.append(f'e,both/{f}.png,{10 * f},"{x},0,50%,100%-10",{stream}')
    (tmp_path / "both.csv").write_text("\n".join(["exam,path,time,crop,stream", *rows]))
    apart = [f"e,{stream.lower()}/{f}.png,{10 * f},{stream}" for f in range(5) for stream in ("FA", "ICGA")]
    (tmp_path / "apart.csv").write_text("\n".join(["exam,path,time,stream", *apart]))
    chosen = ["--frame-columns", "stream", "--frames", 3, *BACKBONE]
    extract("--input", tmp_path / "both.csv", "--out", tmp_path / "both.h5", *chosen)
    extract("--input", tmp_path / "apart.csv", "--out", tmp_path / "apart.h5", *chosen)
    both, parts = Cache(tmp_path / "both.h5"), Cache(tmp_path / "apart.h5")
    assert both.frames("e")["time_s"].tolist() == [0, 0, 20, 20, 40, 40]
    assert both.frames("e")["stream"].tolist() == ["FA", "ICGA"] * 3
    assert np.array_equal(both.features("e"), parts.features("e"))


def test_a_rerun_after_corrected_times_chooses_anew(tmp_path):
    made_split(tmp_path, exams=2)
    words = ["--input", tmp_path / "exams.csv", "--keep-patient-id", "--frames", 6, "--phases", "103,518", *BACKBONE]
    extract(*words, "--out", tmp_path / "x.h5")
    rows = list(csv.DictReader(open(tmp_path / "exams.csv")))
    with open(tmp_path / "exams.csv", "w", newline="") as file:  # the zero was 300 s too late
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(row | {"time": float(row["time"]) + 300} for row in rows)
    extract(*words, "--out", tmp_path / "x.h5")
    extract(*words, "--out", tmp_path / "new.h5")
    cache, new = Cache(tmp_path / "x.h5"), Cache(tmp_path / "new.h5")
    for exam in new.exams["exam"]:
        assert np.array_equal(cache.features(exam), new.features(exam)) and cache.frames(exam).equals(new.frames(exam))


def test_two_crops_of_a_stack_keep_their_rows_on_a_rerun(tmp_path):
    pages = [Image.open(write(tmp_path, f"{f}.png", seed=f)) for f in range(3)]
    pages[0].save(tmp_path / "stack.tif", save_all=True, append_images=pages[1:])
    for label in (0, 1):
        (tmp_path / "exams.csv").write_text("exam,path,crop,stream,label\n" + "".join(
            f'e,stack.tif,"{x},0,50%,100%",{stream},{label}\n' for stream, x in (("FA", "0"), ("ICGA", "50%"))))
        extract("--input", tmp_path / "exams.csv", "--out", tmp_path / "x.h5", "--frame-columns", "stream", *BACKBONE)
        cache = Cache(tmp_path / "x.h5")
        assert cache.frames("e")["stream"].tolist() == ["FA"] * 3 + ["ICGA"] * 3 and cache.exams["label"].tolist() == [label]


@pytest.mark.parametrize("option", ["--frames", "--every", "--views"])
def test_a_number_is_no_empty_word(tmp_path, option):
    assert f"{option} '': expected " in extract("--input", tmp_path, "--dry-run", option, "", expect=2).stderr


@pytest.mark.skipif(not REAL.exists(), reason="needs ../shared/data/angioreport")
def test_the_real_split(tmp_path):
    """1 875 exams without images: what a dry run says of their times, and the frames of each phase."""
    rows = list(csv.DictReader(open(REAL / "exams.csv")))
    image = write(tmp_path, "one.png", size=(8, 8))
    for row in rows:
        path = tmp_path / "frames" / row["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.hardlink_to(image)
    looks = [json.loads(extract("--input", source, "--root", tmp_path / "frames", "--dry-run", "--json", "--frames", 12, "--phases",
                                "103,518", *words).stdout)
             for source, words in ((REAL / "temporal_hyperftype.json", PATIENTS), (REAL / "exams.csv", PATIENTS[2:]))]
    # In a split the images of a folder come by their names, in a manifest by its rows.
    of_split, of_manifest = ({exam["exam"]: {key: value for key, value in exam.items() if key != "order"} for exam in look["exams"]}
                             for look in looks)
    assert of_split == of_manifest and len(of_split) == 1875
    found = {finding["kind"]: len(finding["cases"]) for finding in looks[0]["findings"]}
    assert (found["decreasing_times"], found["duplicate_times"], found["one_frame"]) == (9, 320, 10)
    times = {}
    for row in rows:
        times.setdefault(row["exam"], []).append(float(row["time"]))
    for exam, seconds in times.items():
        assert of_split[exam]["selected"] == len(phase_stratified(seconds, 12, [103, 518])), exam
        assert of_split[exam]["phases"] == np.bincount(np.searchsorted([103, 518], seconds, side="right"), minlength=3).tolist()
