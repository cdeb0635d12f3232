"""Files → cache: `coldframe extract` beside the Python pipeline of peer.py, interleaved in one run.

Two inputs: the lung-ultrasound clips of ../shared/data/pocus (12 frames each), and JPEGs of 1024×1024 pixels made
here (8 per exam). Prints the median frames/s of each, their ratio, and the least cosine between the two caches'
features, so that a fast wrong answer shows.
  tests/benchmarks/extract/run [--rounds 3] [--precision auto] [--peers fp32 bf16] [--exams 40] [--only clips|jpegs]
  tests/benchmarks/extract/run --device cuda [--build FOLDER] [--batch 256] [--peers bf16 compile]
A peer "compile" is bf16 by torch.compile(mode="max-autotune"), its start left out of its time.
"""
import argparse
import csv
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[3]
WORK = ROOT / "build" / "benchmarks" / "extract"
sys.path.insert(0, str(ROOT / "common/python"))


def make_weights():
    path = WORK / "vit_small_patch16_224.safetensors"
    torch.manual_seed(0)
    save_file(timm.create_model("vit_small_patch16_224", num_classes=0).state_dict(), path)
    return path


def make_jpegs(exams, frames=8, side=1024):
    """Fundus-like: a bright disc, vessels of low-pass noise, grain; about 300 kB each at quality 92."""
    folder = WORK / f"jpegs-{exams}x{frames}-{side}"
    manifest = folder / "exams.csv"
    if manifest.exists():
        return manifest
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    y, x = np.mgrid[0:side, 0:side] / side - 0.5
    disc = np.clip((0.48 - np.hypot(x, y)) * 40, 0, 1)[..., None]
    rows = []
    for exam in range(exams):
        coarse = Image.fromarray(random.integers(0, 255, (32, 32, 3), dtype=np.uint8)).resize((side, side), Image.BICUBIC)
        for frame in range(frames):
            noise = random.normal(0, 6, (side, side, 1))
            pixels = disc * (np.asarray(coarse) * 0.6 + 60 + 5 * frame + noise)
            name = f"{exam:03d}_{frame}.jpg"
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / name, quality=92)
            rows.append((f"exam{exam:03d}", name))
    with open(manifest, "w", newline="") as file:
        csv.writer(file).writerows([("exam", "path"), *rows])
    return manifest


def run(command):
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started, done.stdout


def run_ours(manifest, weights, frames, args):
    out = WORK / "ours.h5"
    out.unlink(missing_ok=True)
    command = [args.build / "bin/coldframe", "extract", "--input", manifest, "--out", out, "--weights", weights,
               "--mean", "0.5", "--std", "0.5", "--pool", "cls", "--precision", args.precision]
    if args.device:
        command += ["--device", args.device]
    return run(command + (["--frames", str(frames)] if frames else []))[0], out


def run_peer(manifest, weights, frames, precision, workers, args):
    out = WORK / "peer.h5"
    script = Path(__file__).with_name("peer.py")
    command = [sys.executable, script, manifest, weights, out, "--frames", str(frames), "--workers", str(workers),
               "--precision", precision, "--batch", str(args.batch)]
    if args.device:
        command += ["--device", args.device]
    seconds, printed = run(command)
    count, without_start = re.match(r"(\d+) frames ([\d.]+) s", printed).groups()
    return float(without_start) if precision == "compile" else seconds, int(count), out


def min_cosine(ours, peer):
    """Over frames of exams that have as many in both (a container's stated frame count may be wrong)."""
    from coldframe import Cache
    least, compared = 1.0, 0
    with h5py.File(peer) as other:
        cache = Cache(ours)
        for exam in cache.exams["exam"]:
            a, b = np.asarray(cache.features(exam), np.float64), other[exam][:].astype(np.float64)
            if a.shape == b.shape:
                cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
                least, compared = min(least, float(cosine.min())), compared + len(cosine)
    return least, compared


def compare(name, manifest, weights, frames, args):
    ours, peers = [], {(precision, workers): [] for precision in args.peers for workers in args.workers}
    for _ in range(args.rounds):
        seconds, out = run_ours(manifest, weights, frames, args)
        ours.append(seconds)
        for (precision, workers), times in peers.items():
            seconds, count, peer_out = run_peer(manifest, weights, frames, precision, workers, args)
            times.append(seconds)
    least, compared = min_cosine(out, peer_out)
    mine, best = statistics.median(ours), min(statistics.median(times) for times in peers.values())
    print(f"{name}: {count} frames, medians of {args.rounds} interleaved rounds")
    print(f"  coldframe extract, {args.precision:20} {count / mine:7.1f} frames/s")
    for (precision, workers), times in peers.items():
        print(f"  timm {precision}, {workers} DataLoader worker(s)   {count / statistics.median(times):7.1f} frames/s")
    print(f"  ratio to the best of these              {best / mine:7.2f}")
    print(f"  least cosine of {compared} frames to the last of these {least:.6f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="auto", help="of coldframe")
    parser.add_argument("--peers", nargs="+", default=["fp32", "bf16"], help="precisions of timm, or compile")
    parser.add_argument("--exams", type=int, default=40, help="of 8 generated JPEGs each")
    parser.add_argument("--side", type=int, default=1024, help="of these, in pixels")
    parser.add_argument("--only", choices=["clips", "jpegs"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count()])
    parser.add_argument("--device", help="of both, e.g. cuda (default: what each finds)")
    parser.add_argument("--batch", type=int, default=16, help="of timm")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    args = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    weights = make_weights()
    pocus = ROOT.parent / "shared/data/pocus/exams.csv"
    if pocus.exists() and args.only != "jpegs":
        compare("clips (pocus)", pocus, weights, 12, args)
    if args.only != "clips":
        compare(f"JPEGs of {args.side}×{args.side}", make_jpegs(args.exams, side=args.side), weights, 0, args)


if __name__ == "__main__":
    main()
