"""Made exams, and `extract --part` on them: for tests and tests/soak."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
EXAMS, FRAMES, SIDE = 23, 3, 32
sys.path[:0] = [str(ROOT / "common/python"), str(ROOT / "tests/support")]

import loaded_program  # noqa: E402
from coldframe import Cache  # noqa: E402


def make_job(folder):
    """Images, their manifest, and the cache of one undisturbed process."""
    rng, rows = np.random.default_rng(0), ["exam,path,label"]
    for exam in range(EXAMS):
        for frame in range(FRAMES):
            Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(folder / f"{exam}-{frame}.png")
            rows.append(f"E{exam:02d},{exam}-{frame}.png,{exam % 2}")
    (folder / "exams.csv").write_text("\n".join(rows) + "\n")
    extract(folder, "whole.cache")
    return folder


def command(folder, out, *extra):
    return [str(word) for word in (BUILD / "bin/coldframe", "extract", "--input", folder / "exams.csv", "--out", folder / out,
                                   "--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--image-size", SIDE,
                                   "--pool", "mean", "--mean", 0.5, "--std", 0.5, "--device", "cpu", "--precision", "fp32",
                                   "--batch", 2, *extra)]


def environment(**variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "JOB_COMPLETION"))}
    return clean | {name: str(value) for name, value in variables.items()}


def extract(folder, out, *extra, expect=0, **variables):
    words, clean = command(folder, out, *extra), environment(**variables)
    if clean == dict(os.environ):
        done = loaded_program.coldframe(*words[1:])
    else:
        done = subprocess.run(words, capture_output=True, text=True, env=clean)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def cache(verb, path, *extra, expect=0):
    done = loaded_program.coldframe("cache", verb, path, *extra)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout) if "--json" in extra else done.stdout + done.stderr


def assert_equals_whole(folder, out):
    one, other = Cache(folder / "whole.cache"), Cache(folder / out)
    assert list(one.exams["exam"]) == list(other.exams["exam"]) and list(one.exams["label"]) == list(other.exams["label"])
    for exam in one.exams["exam"]:
        assert np.array_equal(one.features(exam), other.features(exam)), exam


def failing(under, seed, every):
    """The environment of a process under which calls on these paths fail now and then; see failing_files.c."""
    return dict(LD_PRELOAD=BUILD / "tests/failing_files.so", COLDFRAME_TEST_FAULTS_UNDER=under, COLDFRAME_TEST_FAULTS_SEED=seed,
                COLDFRAME_TEST_FAULTS_EVERY=every)


def run_on_failing_storage(folder, out, seed, parts=3, every=40, links=True):
    """Parts side by side on storage that fails, each killed once and started again until it is done; then `finish`. The cache
    must be that of the undisturbed job. Returns how often a part was started."""
    rng = random.Random(seed)
    starts, without = 0, {} if links else dict(COLDFRAME_TEST_FAULTS_LINKS="no")

    def start(part, number):
        return subprocess.Popen(command(folder, out, "--part", f"{part}/{parts}"), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment(**failing(folder, 1000 * seed + number, every), **without))

    waiting = list(range(parts))
    to_kill = set(waiting)
    while waiting:
        running = {}
        for part in waiting:
            running[part] = start(part, starts)
            starts += 1
        for part in sorted(to_kill & set(waiting), key=lambda _: rng.random()):
            while running[part].poll() is None and not (folder / out / f".part-{part}-of-{parts}.json").exists():
                pass
            running[part].send_signal(signal.SIGKILL)
            to_kill.discard(part)
        waiting = []
        for part, process in running.items():
            _, said = process.communicate()
            assert process.returncode in (0, 1, 3, -signal.SIGKILL), said
            assert process.returncode != 3 or "Input/output error" in said or "Stale file handle" in said, said
            if process.returncode != 0:
                waiting.append(part)
        assert starts < 100 * parts, "it comes to no end"
    cache("finish", folder / out)
    cache("verify", folder / out)
    assert_equals_whole(folder, out)
    assert not list((folder / out).glob(".*"))
    return starts
