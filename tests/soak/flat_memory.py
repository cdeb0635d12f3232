"""A long extraction keeps its memory: resident bytes over 50 000 small frames, each of its own content.

Prints resident memory after the first 1 000 frames, at the end and at most in between, and fails when they differ by
more than 2 %. After tests/run:
  build/test-venv/bin/python tests/soak/flat_memory.py [--frames 50000]
"""
import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PER_EXAM = 12


def make_frames(folder, frames):
    random = np.random.default_rng(0)
    for first in range(0, frames, PER_EXAM):
        exam = folder / f"exam{first // PER_EXAM:05d}"
        exam.mkdir()
        for i in range(first, min(first + PER_EXAM, frames)):
            Image.fromarray(random.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(exam / f"{i:06d}.png")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=50_000)
    frames = parser.parse_args().frames
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "input").mkdir()
        make_frames(folder / "input", frames)
        done = subprocess.run(
            [ROOT / "build/bin/coldframe", "extract", "--input", folder / "input", "--out", folder / "out.cache",
             "--random-weights", "0", "--architecture", "vit_tiny_patch16_224", "--image-size", "32", "--mean", "0.5",
             "--std", "0.5", "--pool", "cls", "--monitor", folder / "monitor.csv", "--json", "--quiet"],
            capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        summary = json.loads(done.stdout)
        rows = [(float(row["time_s"]), int(row["resident_bytes"])) for row in csv.DictReader(open(folder / "monitor.csv"))]
    computed, repeated = summary["extracted"]["frames"], summary["repeated_frames"]
    assert computed == frames and repeated == 0, (computed, repeated)
    after = rows[-1][0] * 1000 / frames
    resident = [bytes_ for time, bytes_ in rows if time >= after]
    first, last, most = resident[0], resident[-1], max(resident)
    print(f"{frames} frames in {rows[-1][0]:.0f} s, {len(resident)} samples: resident {first / 2**20:.1f} MiB after the "
          f"first 1000 frames, {last / 2**20:.1f} MiB at the end, at most {most / 2**20:.1f} MiB: "
          f"{100 * (most / first - 1):+.2f} %")
    sys.exit(most > 1.02 * first)


if __name__ == "__main__":
    main()
