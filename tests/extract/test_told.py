"""What `coldframe extract` and `coldframe cache info` tell of weights, failures and exams that are no longer in the input."""
import hashlib
import json

import numpy as np
import pytest
import torch
from PIL import Image

import loaded_program



class Brightness(torch.nn.Module):
    """The mean of each channel; a bright image is beyond float16."""
    def forward(self, images):
        means = images.mean([2, 3])
        return torch.where(means > 0.9, means * 1e6, means)


@pytest.fixture
def job(tmp_path):
    for exam, level in (("a", 10), ("b", 60), ("c", 255)):
        Image.fromarray(np.full((40, 40, 3), level, np.uint8)).save(tmp_path / f"{exam}.png")
    (tmp_path / "exams.csv").write_text("exam,path\na,a.png\nb,b.png\n")
    torch.jit.script(Brightness()).save(str(tmp_path / "brightness.ts.pt"))
    return tmp_path


def coldframe(*words, expect=0):
    done = loaded_program.coldframe(*words)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def extract(job, *words, weights="brightness.ts.pt", expect=0):
    return coldframe("extract", "--input", job / "exams.csv", "--backbone", job / weights, "--image-size", 32, "--mean", 0.0,
                     "--std", 1.0, "--device", "cpu", "--out", job / "x.h5", *words, expect=expect)


def test_info_names_the_weights_file(job):
    extract(job)
    digest = hashlib.sha256((job / "brightness.ts.pt").read_bytes()).hexdigest()
    assert f"brightness.ts.pt (SHA-256 {digest})" in coldframe("cache", "info", job / "x.h5").stdout
    before = json.loads(coldframe("cache", "info", job / "x.h5", "--json").stdout)
    assert before["notes"]["weights"] == "brightness.ts.pt" and "brightness" not in json.dumps(before["recipe"])
    # Weights are the same under another name: the cache goes on, and copies keep the note.
    (job / "brightness.ts.pt").rename(job / "renamed.pt")
    (job / "exams.csv").write_text("exam,path\na,a.png\nb,b.png\nd,b.png\n")
    assert "unchanged  2 exams" in extract(job, weights="renamed.pt").stdout
    coldframe("cache", "pack", job / "y.h5", job / "x.h5")
    after = json.loads(coldframe("cache", "info", job / "y.h5", "--json").stdout)
    assert after["cache_digest"] == before["cache_digest"] and after["exams"] == 3
    assert after["notes"]["weights"] in ("brightness.ts.pt", "renamed.pt")


def test_a_cache_gives_back_its_options(job):
    extract(job, "--frames", 3, "--keep-patient-id", "--patient-salt", "secret", "--batch", 2)
    lines = coldframe("cache", "info", job / "x.h5", "--options").stdout
    assert lines.splitlines() == [
        "# coldframe extract --config THIS, with the weights brightness.ts.pt",
        "# besides: --input, --patient-salt, --backbone, --out",
        "frames = 3", "keep-patient-id = true", "image-size = 32", "mean = 0.0", "std = 1.0"]
    (job / "study.ini").write_text(f"device = cpu\n[extract]\n{lines}[train]\nfolds = 3\n")
    coldframe("extract", "--config", job / "study.ini", "--input", job / "exams.csv", "--backbone", job / "brightness.ts.pt",
              "--patient-salt", "rock", "--out", job / "again.h5")
    assert (job / "again.h5").read_bytes() == (job / "x.h5").read_bytes()


def test_a_failure_names_its_exam_once(job):
    (job / "exams.csv").write_text("exam,path\na,a.png\nc,c.png\n")
    done = extract(job, expect=1)
    told = done.stderr + done.stdout + coldframe("cache", "info", job / "x.h5").stdout
    assert "exam 'c': frame 0: a feature is 1e+06, beyond float16's range" in done.stdout and told.count("exam 'c', ") == 0
    assert "exam 'c'" not in coldframe("cache", "info", job / "x.h5").stdout
    (job / "x.h5").unlink()
    message = extract(job, "--strict", expect=3).stderr
    assert message.count("exam 'c'") == 1 and "--store float32" in message


def test_exams_that_the_input_no_longer_names_are_counted_in_english(job):
    (job / "exams.csv").write_text("exam,path\na,a.png\nb,b.png\nd,b.png\n")
    extract(job)
    (job / "exams.csv").write_text("exam,path\na,a.png\nb,b.png\n")
    assert "1 cached exam is not in the input; it stays in the cache" in extract(job).stderr
    (job / "exams.csv").write_text("exam,path\na,a.png\n")
    assert "2 cached exams are not in the input; they stay in the cache" in extract(job).stderr


def test_a_pruned_cache_goes_on(job):
    (job / "exams.csv").write_text("exam,path\na,a.png\nb,b.png\nd,b.png\n")
    extract(job)
    coldframe("cache", "prune", job / "x.h5", "--where", "exam=b")
    coldframe("cache", "verify", job / "x.h5")
    (job / "exams.csv").write_text("exam,path\na,a.png\nd,b.png\n")
    done = extract(job)
    assert "extracted" not in done.stdout and "not in the input" not in done.stderr
    coldframe("cache", "verify", job / "x.h5", "--input", job / "exams.csv")
    assert [exam["id"] for exam in json.loads(coldframe("cache", "ls", job / "x.h5", "--json").stdout)] == ["a", "d"]
