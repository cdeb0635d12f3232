"""`coldframe extract` as a user runs it: end to end against timm on Pillow's pixels, resuming, and bad input."""

import json
import os
import pathlib
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from torchvision import transforms

import loaded_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
SHARED = ROOT.parent / "shared"
RANDOM = ["--random-weights", "0", "--architecture", "vit_tiny_patch16_224", "--pool", "mean", "--mean", "0.5",
          "--std", "0.5", "--image-size", "64", "--device", "cpu"]


def coldframe(*arguments, expect=0):
    done = loaded_program.coldframe(*arguments)
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done


def make_exams(folder, exams=4, frames=3):
    rng = np.random.default_rng(0)
    rows = ["exam,path,time,patient,label"]
    for exam in range(exams):
        for frame in range(frames):
            path = folder / f"e{exam}" / f"{frame}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (70 + 9 * exam, 90, 3), dtype=np.uint8)).save(path)
            rows.append(f"exam-{exam},e{exam}/{frame}.png,{frame * 2.5},p{exam // 2},{exam % 2}")
    manifest = folder / "exams.csv"
    manifest.write_text("\n".join(rows) + "\n")
    return manifest


def read(cache):
    """(ids, [features of each exam]) of a single-file cache."""
    with h5py.File(cache) as file:
        offsets, values = file["exams/offset"][:], file["features/clean"][:]
        ids = [name.decode() for name in file["exams/id"][:]]
    return ids, [values[a:b] for a, b in zip(offsets, offsets[1:])]


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-4), ("auto", 3e-2)])
def test_features_equal_timm_on_pillow_pixels(tmp_path, precision, tolerance):
    manifest = make_exams(tmp_path)
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=0, global_pool="avg", fc_norm=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    save_file(model.state_dict(), tmp_path / "vit.safetensors")
    coldframe("extract", "--input", manifest, "--weights", tmp_path / "vit.safetensors", "--pool", "mean", "--heads", 3,
              "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225", "--store", "float32", "--device", "cpu",
              "--batch", 5, "--precision", precision, "--out", tmp_path / "x.h5")
    pixels = transforms.Compose([
        transforms.Resize(224, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(224), transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    ids, features = read(tmp_path / "x.h5")
    assert ids == [f"exam-{i}" for i in range(4)]
    for exam, values in enumerate(features):
        images = torch.stack([pixels(Image.open(tmp_path / f"e{exam}/{frame}.png").convert("RGB")) for frame in range(3)])
        with torch.no_grad():
            expected = model(images).numpy()
        assert np.abs(values - expected).max() <= tolerance


@pytest.mark.parametrize("out", ["x.h5", "x.cache"])
def test_second_run_extracts_nothing_and_labels_update(tmp_path, out):
    manifest = make_exams(tmp_path)
    command = ["extract", "--input", manifest, *RANDOM, "--out", tmp_path / out, "--json", "--quiet", "--keep-patient-id"]
    first = json.loads(coldframe(*command).stdout)
    assert first["extracted"] == {"exams": 4, "frames": 12} and not first["patients_hashed"]
    second = json.loads(coldframe(*command).stdout)
    assert (second["extracted"]["exams"], second["unchanged"], second["metadata_updated"]) == (0, 4, 0)

    manifest.write_text(manifest.read_text().replace("p1,0", "p7,0").replace("p0,1", "p0,covid"))
    third = coldframe(*[word for word in command if word != "--quiet"])
    summary = json.loads(third.stdout)
    assert (summary["extracted"]["exams"], summary["metadata_updated"]) == (0, 2)
    assert "exam 'exam-2': patient 'p1' -> 'p7'" in third.stderr
    assert "exam 'exam-1': label '1' -> 'covid'" in third.stderr
    listing = coldframe("cache", "ls", tmp_path / out).stdout
    assert "p7" in listing and "covid" in listing
    coldframe("cache", "verify", tmp_path / out)

    # Names and hashes do not meet in a cache.
    hashing = ["extract", "--input", manifest, *RANDOM]
    assert "give --keep-patient-id to go on with their names" in coldframe(*hashing, "--out", tmp_path / out, expect=3).stderr
    text = coldframe(*hashing, "--out", tmp_path / "hashed.h5").stdout
    assert "patients   3, stored as hashes (--keep-patient-id" in text
    assert "p7" not in coldframe("cache", "ls", tmp_path / "hashed.h5").stdout


def test_the_summary_states_how_long_each_stage_of_the_start_took(tmp_path):
    command = ["extract", "--input", make_exams(tmp_path), *RANDOM, "--precision", "bf16", "--out", tmp_path / "x.h5", "--json"]
    begin = {"list", "first_frames", "weights", "engine", "check_fp32", "check"}
    for stages in (begin | {"first_batch", "closing"}, begin):  # the second run extracts nothing
        seconds = json.loads(coldframe(*command).stdout)["stage_seconds"]
        assert set(seconds) == stages and all(np.isfinite(value) and value >= 0 for value in seconds.values())


def test_another_recipe_is_refused_with_the_difference(tmp_path):
    manifest = make_exams(tmp_path, exams=1)
    coldframe("extract", "--input", manifest, *RANDOM, "--precision", "fp32", "--out", tmp_path / "x.h5")
    before = (tmp_path / "x.h5").read_bytes()
    for extra, difference in [(["--interpolation", "bilinear"], "interpolation"), (["--frames", "2"], "frames"),
                              (["--store", "float32"], "store"), (["--precision", "bf16"], "bf16")]:
        done = coldframe("extract", "--input", manifest, *RANDOM, *extra, "--out", tmp_path / "x.h5", expect=3)
        assert difference in done.stderr
    assert (tmp_path / "x.h5").read_bytes() == before


def test_exif_turns_are_part_of_the_recipe(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8))
    image.save(tmp_path / "a.jpg", exif=exif, quality=95)
    command = ["extract", "--input", tmp_path / "a.jpg", *RANDOM, "--out"]
    coldframe(*command, tmp_path / "stored.h5", "--ignore-exif")
    coldframe(*command, tmp_path / "upright.h5")
    assert not np.array_equal(read(tmp_path / "stored.h5")[1][0], read(tmp_path / "upright.h5")[1][0])
    with h5py.File(tmp_path / "stored.h5") as stored, h5py.File(tmp_path / "upright.h5") as upright:
        assert "reading" not in json.loads(stored.attrs["recipe"])["features"]
        assert json.loads(upright.attrs["recipe"])["features"]["reading"] == {"exif": "upright"}
    assert "exif" in coldframe(*command, tmp_path / "stored.h5", expect=3).stderr
    assert "exif" in coldframe(*command, tmp_path / "upright.h5", "--ignore-exif", expect=3).stderr


def test_stopped_run_continues(tmp_path):
    manifest = make_exams(tmp_path, exams=40, frames=6)
    command = ["extract", "--input", manifest, *RANDOM, "--image-size", "224", "--out", tmp_path / "x.h5", "--batch", "4"]
    command = command[:command.index("--image-size")] + command[command.index("--image-size") + 2:]
    process = subprocess.Popen([BUILD / "bin" / "coldframe", *map(str, command)], stderr=subprocess.PIPE, text=True)
    while not any(path.name.startswith("x.h5") for path in tmp_path.iterdir()):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 75 and "same command again" in error, error
    coldframe(*command)
    assert len(read(tmp_path / "x.h5")[0]) == 40


def test_full_disk_is_one_clear_error(tmp_path):
    manifest = make_exams(tmp_path, exams=2)
    limited = f'ulimit -f 1; exec "{BUILD}/bin/coldframe" "$@"'
    done = subprocess.run(["bash", "-c", limited, "bash", "extract", "--input", manifest, *RANDOM, "--out",
                           tmp_path / "x.cache"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert "cannot write" in done.stderr
    assert not list((tmp_path / "x.cache").glob("*.h5"))


BAD_INPUTS = {
    "no such input": (lambda f: f / "nowhere", 3, "nowhere"),
    "empty folder": (lambda f: (f / "empty").mkdir() or f / "empty", 3, "no "),
    "missing column": (lambda f: write(f / "m.csv", "exam,file\na,b\n"), 3, "path"),
    "duplicate column": (lambda f: write(f / "m.csv", "exam,path,path\na,b,c\n"), 3, "path"),
    "empty exam": (lambda f: write(f / "m.csv", "exam,path\n,e0/0.png\n"), 3, "line 2"),
    "no rows": (lambda f: write(f / "m.csv", "exam,path\n"), 3, "m.csv"),
    "disagreeing label": (lambda f: write(f / "m.csv", "exam,path,label\na,e0/0.png,x\na,e0/1.png,y\n"), 3, "'x'"),
    "decreasing time": (lambda f: write(f / "m.csv", "exam,path,time\na,e0/0.png,4\na,e0/1.png,1\n"), 3, "allow-unordered"),
    "ragged row": (lambda f: write(f / "m.csv", "exam,path\na\n"), 3, "line 2"),
}


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_input_is_one_error_and_leaves_nothing(tmp_path, case):
    make_exams(tmp_path, exams=1)
    make, code, message = BAD_INPUTS[case]
    done = coldframe("extract", "--input", make(tmp_path), *RANDOM, "--out", tmp_path / "x.cache", expect=code)
    assert message in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error")]) == 1
    assert not (tmp_path / "x.cache").exists()


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x00\x00\x00\x18ftypmp42" + b"\0" * 200, b"\xff\xd8\xff\xe0" + b"\0" * 64])
def test_a_clip_that_cannot_be_read_fails_alone(tmp_path, content):
    make_exams(tmp_path, exams=1)
    (tmp_path / "clip.mp4").write_bytes(content)
    write(tmp_path / "m.csv", "exam,path\ngood,e0/0.png\nbad,clip.mp4\ngone,nowhere.mp4\n")
    done = coldframe("extract", "--input", tmp_path / "m.csv", *RANDOM, "--out", tmp_path / "x.h5", "--json", expect=1)
    summary = json.loads(done.stdout)
    assert summary["extracted"]["exams"] == 1
    assert sorted(failure["exam"] for failure in summary["failures"]) == ["bad", "gone"]
    assert all(failure["reason"] for failure in summary["failures"])


def test_an_empty_image_in_a_folder_is_lost_alone(tmp_path):
    make_exams(tmp_path, exams=2)
    (tmp_path / "exams.csv").unlink()
    (tmp_path / "e1" / "1.png").write_bytes(b"")
    done = coldframe("extract", "--input", tmp_path, *RANDOM, "--out", tmp_path / "x.h5", "--json", expect=1)
    summary = json.loads(done.stdout)
    assert (summary["extracted"]["exams"], summary["failures"], summary["lost_frames"]) == (2, [], 1)
    assert summary["lost"][0]["exam"] == "e1" and "is empty" in summary["lost"][0]["reason"]


def test_a_cache_of_failures_alone_binds_nobody(tmp_path):
    write(tmp_path / "m.csv", "exam,path\na,nowhere.png\n")
    coldframe("extract", "--input", tmp_path / "m.csv", *RANDOM, "--out", tmp_path / "x.h5", expect=1)
    make_exams(tmp_path, exams=1)
    write(tmp_path / "m.csv", "exam,path\na,e0/0.png\n")
    coldframe("extract", "--input", tmp_path / "m.csv", *RANDOM, "--store", "float32", "--out", tmp_path / "x.h5")


def test_wrong_weights_for_a_preset(tmp_path):
    manifest = make_exams(tmp_path, exams=1)
    save_file(timm.create_model("vit_tiny_patch16_224", num_classes=0).state_dict(), tmp_path / "tiny.safetensors")
    done = coldframe("extract", "--input", manifest, "--preset", "dino-vits16", "--weights", tmp_path / "tiny.safetensors",
                     "--out", tmp_path / "x.cache", expect=3)
    assert "192" in done.stderr and "384" in done.stderr
    (tmp_path / "half.safetensors").write_bytes((tmp_path / "tiny.safetensors").read_bytes()[:100000])
    coldframe("extract", "--input", manifest, "--preset", "dino-vits16", "--weights", tmp_path / "half.safetensors",
              "--out", tmp_path / "x.cache", expect=3)
    assert not (tmp_path / "x.cache").exists()


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")
def test_real_clips_through_a_torchscript_backbone(tmp_path):
    lines = (SHARED / "data/pocus/exams.csv").read_text().splitlines()
    header, rows = lines[0].split(","), lines[1:6]
    path = header.index("path")
    absolute = [",".join(value if i != path else str(SHARED / "data/pocus" / value) for i, value in enumerate(row.split(",")))
                for row in rows]
    write(tmp_path / "m.csv", "\n".join([lines[0], *absolute]) + "\n")
    done = coldframe("extract", "--input", tmp_path / "m.csv", "--backbone",
                     SHARED / "weights/mobilenet_v2_imagenet_features1280.ts.pt", "--mean", "0.5", "--std", "0.5",
                     "--frames", "4", "--device", "cpu", "--out", tmp_path / "x.h5", "--json")
    summary = json.loads(done.stdout)
    assert summary["extracted"] == {"exams": 5, "frames": 20} and summary["dimension"] == 1280
