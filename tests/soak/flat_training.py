"""Training keeps its memory over many folds: resident bytes of 40 fits, one after another and two side by side.

Prints resident memory after the first fit, at the end and at most in between, and fails when they differ by more than
50 MB. After tests/run:
  build/test-venv/bin/python tests/soak/flat_training.py [--exams 2000]
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "train_temporal"))
import training_support  # noqa: E402

FOLDS, REPEATS, ALLOWED = 10, 4, 50e6


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def measure(cache, out, jobs):
    words = [training_support.PROGRAM, "train", "--cache", cache, "--target", "label", "--out", out, "--folds", FOLDS,
             "--repeats", REPEATS, "--epochs", 4, "--bootstrap", 50, "--jobs", jobs]
    state, samples = out.with_name(out.name + ".unfinished") / "state", []
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while run.poll() is None:
            done = len(list(state.glob("*.record")))
            if jobs <= done < FOLDS * REPEATS:  # while fits are computed; the report comes after
                samples.append(resident(run.pid))
            time.sleep(0.02)
    assert run.returncode == 0 and len(samples) > 10, (run.returncode, len(samples))
    spread = max(samples) - min(samples)
    print(f"--jobs {jobs}: {FOLDS * REPEATS} fits, {len(samples)} samples: resident {samples[0] / 1e6:.1f} MB after the "
          f"first, {samples[-1] / 1e6:.1f} MB at the last, spread {spread / 1e6:.1f} MB", flush=True)
    return spread <= ALLOWED


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exams", type=int, default=2000)
    exams = parser.parse_args().exams
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cache = training_support.ramp_cache(folder, exams, frames=12, dimension=384)
        flat = [measure(cache, folder / str(jobs), jobs) for jobs in (1, 2)]
    sys.exit(not all(flat))


if __name__ == "__main__":
    main()
