"""Runs frames_driver on an input."""

import csv
import hashlib
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
SHARED = ROOT.parent / "shared"


def run(source, frames=0, options=()):
    return subprocess.run([BUILD / "tests/frames_driver", str(source), str(frames), *options],
                          capture_output=True, text=True, timeout=600)


def read(source, frames=0, options=()):
    """{exam id: what came of it}; nothing may be printed but our own messages."""
    done = run(source, frames, options)
    assert done.returncode == 0, done.stderr
    exams = [json.loads(line) for line in done.stdout.splitlines()]
    return {exam["id"]: exam for exam in exams}


def kept_frames(exam, whole):
    """How many frames were read of a damaged file, of which the whole one has the slots `whole`. Those are the
    whole one's, and the others, one at least, say what is wrong."""
    if "error" in exam:
        return 0
    assert not all(slot["present"] for slot in exam["slots"]), exam["id"]
    for slot in exam["slots"]:
        if slot["present"]:
            assert slot["sha256"] == whole[slot["index"]]["sha256"], (exam["id"], slot["index"])
        else:
            assert slot["fault"] and slot["width"] == 0, exam["id"]
    return sum(slot["present"] for slot in exam["slots"])


def write_manifest(folder, rows):
    """rows: dicts with the same keys."""
    path = folder / "manifest.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def sha256(rgb):
    return hashlib.sha256(rgb.tobytes()).hexdigest()
