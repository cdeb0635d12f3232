"""The memory and time that a large 4-D volume takes, in the open. Makes the file itself:
    build/test-venv/bin/python tests/extract/decode/nifti_memory.py [GB] [FOLDER]
A volume of GB × 10^9 bytes of float32 noise (default 2), sliced along x and z, plain and (a quarter
of it) compressed. Exit 1 when a peak passes 300 MB."""

import gzip
import pathlib
import sys
import tempfile
import time

import nibabel as nib
import numpy as np

from frames_helper import run

LIMIT = 300_000_000
BLOCK = np.random.default_rng(3).normal(0, 1, (256, 256, 8)).astype("f4").tobytes()


def make(path, opener, volumes):
    image = nib.Nifti1Image(np.zeros((1, 1, 1), "f4"), np.eye(4))
    image.header.set_data_shape((256, 256, 64, volumes))
    with opener(path, "wb") as file:
        image.header.write_to(file)
        file.write(bytes(4))
        for _ in range(8 * volumes):
            file.write(BLOCK)


def main(gigabytes, folder):
    volumes = round(gigabytes * 1e9 / (8 * len(BLOCK)))
    make(folder / "plain.nii", open, volumes)
    make(folder / "packed.nii.gz", lambda path, mode: gzip.open(path, mode, 1), volumes // 4)
    worst = 0
    for name in ("plain.nii", "packed.nii.gz"):
        for axis in (0, 2):
            started = time.time()
            done = run(folder / name, options=["--peak", f"--axis={axis}"])
            assert '"slots"' in done.stdout, done.stdout + done.stderr
            peak = int(done.stderr)
            worst = max(worst, peak)
            print(f"{name}: {(folder / name).stat().st_size / 1e9:.2f} GB, "
                  f"{done.stdout.count('sha256')} frames along {'xyz'[axis]}: peak "
                  f"{peak / 1e6:.0f} MB, {time.time() - started:.1f} s with percentiles and hashes",
                  flush=True)
    return worst > LIMIT


if __name__ == "__main__":
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        sys.exit(main(size, pathlib.Path(name)))
