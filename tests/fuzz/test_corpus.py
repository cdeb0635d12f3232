"""The fuzzers' seeds are what they claim to be: the readers take them. (The fuzzers themselves need Clang and
time: tests/fuzz/run, tests/soak/fuzz.)"""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))

# Seeds that are refused, each for what it is.
REFUSED = {
    "bits.tif": "compression is 4", "cmyk.tif": "photometric interpretation is 5",
    "Nifti1Pair.pair": "voxels are in a file", "Spm2AnalyzeImage.pair": "an ANALYZE 7.5 volume",
    "shared_row_major.dconn.nii": "CIFTI",
}


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    subprocess.run([sys.executable, ROOT / "tests/fuzz/make_corpus.py", folder], check=True)
    return folder


@pytest.mark.parametrize("reader", ["clip", "dicom", "image", "nifti", "tiff"])
def test_readers_take_the_seeds(seeds, reader):
    files = sorted(path.name for path in (seeds / reader).iterdir())
    manifest = seeds / reader / "exams.csv"
    with open(manifest, "w", newline="") as file:
        csv.writer(file).writerows([("exam", "path"), *((name, name) for name in files)])
    done = subprocess.run([BUILD / "tests/frames_driver", manifest, "0"], capture_output=True, text=True)
    manifest.unlink()
    assert done.returncode == 0 and done.stderr == "", done.stderr
    errors = {exam["id"]: exam.get("error") for exam in map(json.loads, done.stdout.splitlines())}
    assert sorted(errors) == files and len(files) > 10
    wrong = {name: error for name, error in errors.items()
             if (name in REFUSED) != (error is not None) or REFUSED.get(name, "") not in (error or "")}
    assert not wrong
