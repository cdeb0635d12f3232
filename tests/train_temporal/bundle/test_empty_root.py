"""A bundle and the programs are all that predictions need: they run in a root that holds nothing else."""
import csv
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from bundle_support import bundle, coldframe, files_of, flip, study, vit_study

REPO = pathlib.Path(__file__).resolve().parents[3]
SHARED = REPO.parent / "shared"
SALT = "one salt for both machines"
sys.path.append(str(REPO / "tests" / "gpu"))
from test_gpu_run import empty_root, load  # noqa: E402
# The same on both sides, where somebody limits them.
INSTRUCTIONS = {name: value for name, value in os.environ.items() if name == "ONEDNN_MAX_CPU_ISA"}


def clips_study(folder):
    """Lung ultrasound clips of ../shared by the MobileNet there, six of each class."""
    data = SHARED / "data" / "pocus"
    rows = list(csv.DictReader(open(data / "exams.csv")))
    rows.sort(key=lambda row: (data / row["path"]).stat().st_size)
    lines = ["exam,path,patient,label"]
    for label in "01":
        chosen = {row["patient"]: row for row in reversed([row for row in rows if row["abnormal"] == label])}
        for row in list(chosen.values())[-6:]:
            name = f"clip{len(lines)}{pathlib.Path(row['path']).suffix}"
            shutil.copy(data / row["path"], folder / name)
            lines.append(f"clip{len(lines)},{name},{row['patient']},{label}")
    (folder / "exams.csv").write_text("\n".join(lines) + "\n")
    weights = SHARED / "weights" / "mobilenet_v2_imagenet_features1280.ts.pt"
    made = study(folder, "--backbone", weights, "--patient-salt", SALT, manifest=folder / "exams.csv",
                 pixels=["--mean", "0.5", "--std", "0.5", "--frames", "4"])
    made.weights = weights
    return made


class EmptyRoot:
    """The programs, the C library, LibTorch's wheel, and the folder /data."""

    def __init__(self, folder, data):
        import torch

        self.site, self.data = pathlib.Path(torch.__file__).resolve().parents[1], data
        self.root = empty_root(folder, self.site)
        for name in ["data", "dev"]:  # LibTorch seeds its generators by /dev/urandom
            (self.root / name).mkdir()
        load("pack").stage(self.root / "carry", ["bin/coldframe", "bin/coldframe-train_temporal"], {})

    def coldframe(self, *words):
        lines = [f"mount --bind {self.site} {self.root}/site", f"mount --bind {self.data} {self.root}/data",
                 f"mount --rbind /proc {self.root}/proc", f"mount --rbind /dev {self.root}/dev", 'exec chroot "$@"']
        return subprocess.run(["unshare", "-rm", "sh", "-ec", "\n".join(lines), "sh", str(self.root), "/carry/bin/coldframe",
                               *map(str, words)], capture_output=True, text=True, env={"OMP_WAIT_POLICY": "PASSIVE", "COLDFRAME_PATIENT_SALT": SALT} | INSTRUCTIONS)


@pytest.mark.skipif(subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0,
                    reason="this user may not make namespaces")
def test_raw_exams_are_predicted_where_there_is_nothing_else(tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    made = clips_study(folder) if (SHARED / "data" / "pocus").exists() else vit_study(folder, "--patient-salt", SALT)
    bundle(made, "model.bundle", "--weights", made.weights)
    coldframe("predict", "--run", made.run, "--cache", made.cache, "--out", tmp_path / "two-steps.csv")
    shutil.rmtree(made.run)
    shutil.rmtree(made.cache)

    nowhere = EmptyRoot(tmp_path, folder)
    words = ["predict", "--bundle", "/data/model.bundle", "--input", f"/data/{made.exams.relative_to(folder)}", "--device", "cpu"]
    done = nowhere.coldframe(*words, "--out", "/data/there.csv")
    assert done.returncode == 0, done.stderr
    assert (folder / "there.csv").read_bytes() == (tmp_path / "two-steps.csv").read_bytes()

    # As it refuses every file elsewhere (test_hostile_bundles.py).
    file = max(files_of(folder / "model.bundle"), key=lambda path: path.stat().st_size)
    flip(file, file.stat().st_size // 2)
    refused = nowhere.coldframe(*words, "--out", "/data/none.csv")
    assert refused.returncode == 3 and str(file.relative_to(folder / "model.bundle")) in refused.stderr, refused.stderr
    assert not (folder / "none.csv").exists()
