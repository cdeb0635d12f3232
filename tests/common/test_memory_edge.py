"""Programs whose memory ends while they work: they do it, or say so once and end with 3; they leave nothing half-written.

tests/soak/memory_edge runs the same with as many limits as it is told."""

import os
import pathlib
import re
import resource
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
MiB = 1 << 20
EXTRACT = ["--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--image-size", 32, "--pool", "mean", "--mean", 0.5,
           "--std", 0.5, "--device", "cpu", "--precision", "fp32", "--threads", 2, "--decode-threads", 2, "--batch", 4, "--strict"]
TRAIN = ["--target", "label", "--folds", 2, "--epochs", 2, "--threads", 2, "--device", "cpu", "--bootstrap", 50]
PROGRAMS = {"extract": "coldframe-extract", "train": "coldframe-train_temporal", "verify": "coldframe-cache"}


def run(program, *words, limit=None):
    """The program with `limit` bytes of address space, as ulimit -v has it."""
    def confine():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return subprocess.run([BUILD / "bin" / program, *map(str, words)], capture_output=True, preexec_fn=confine, timeout=300,
                          text=True, errors="replace")


class Job:
    """One command on made exams. `words` by the folder that it writes to."""

    def __init__(self, name, folder):
        self.name, self.program, self.folder, self.runs = name, PROGRAMS[name], folder, 0
        if not (folder / "exams.cache").exists():
            made = run("coldframe-make-exams", "--out", folder / "exams", "--exams", 12, "--frames", 4, "--size", 64, "--seed", 1)
            assert made.returncode == 0, made.stderr
            made = run("coldframe-extract", *self.extract_words(folder / "exams.cache"))
            assert made.returncode == 0, made.stderr

    def extract_words(self, out):
        return ["--input", self.folder / "exams/exams.csv", "--out", out, "--quiet", *EXTRACT]

    def words(self, out):
        cache = self.folder / "exams.cache"
        return {"extract": self.extract_words(out / "x.h5"),
                "train": ["train", "--cache", cache, "--out", out / "run", "--quiet", *TRAIN],
                "verify": ["verify", cache, "--quiet"]}[self.name]

    def attempt(self, limit):
        """What the program did, and the folder that it wrote to."""
        self.runs += 1
        out = self.folder / f"{self.name}-{self.runs}"
        out.mkdir()
        return run(self.program, *self.words(out), limit=limit), out

    def smallest(self, works, step=MiB // 16):
        """The smallest limit, up to `step` more, with which `works` is true and stays so."""
        low, high = 1 * MiB, 4096 * MiB
        while high - low > step:
            middle = (low + high) // 2
            low, high = (low, middle) if works(middle) else (middle, high)
        return high

    def starts(self, limit):
        return run(self.program, "--version", limit=limit).returncode == 0

    def works(self, limit):
        return self.attempt(limit)[0].returncode == 0


# What glibc and libgomp write themselves before they end the program; the program's error follows.
OF_LIBRARIES = re.compile(r"(Fatal glibc error|libgomp): .*([Oo]ut of memory|Thread creation failed)")


def fault(job, done, out):
    """Says what is wrong about an end; "" for nothing."""
    lines = [line for line in done.stderr.splitlines() if line and not OF_LIBRARIES.match(line)]
    errors = [line for line in lines if line.startswith("error: ")]
    if done.returncode not in (0, 3) or len(errors) != (done.returncode == 3):
        return f"exit {done.returncode}: {done.stderr[-400:]!r}"
    if strange := [line for line in lines if not line.startswith(("error: ", "warning: "))]:
        return f"exit {done.returncode}, and it also says {strange[0]!r}"
    if job.name == "train" and done.returncode == 3 and (out / "run").exists():
        return "a run that is not finished has the name of one"
    cache = out / "x.h5"
    if cache.exists() and run("coldframe-cache", "verify", cache).returncode != 0:
        return "a cache that does not verify"
    return ""


@pytest.mark.parametrize("name, count, step", [("verify", 20, MiB // 16), ("extract", 5, 16 * MiB), ("train", 5, 16 * MiB)])
def test_the_edge(tmp_path, name, count, step):
    job = Job(name, tmp_path)
    least = job.smallest(job.starts, step)
    codes = set()
    for number in range(count):  # as far as a fifth more, with which most work
        limit = least + least * number // (5 * count)
        done, out = job.attempt(limit)
        assert not fault(job, done, out), limit
        codes.add(done.returncode)
    assert 3 in codes, "no run met the end of its memory"
