"""One cohort of DICOM files in five layouts: the same exams, ids and features."""

import csv
import shutil
import subprocess

import h5py
import numpy as np
import pydicom
import pytest

from dicom_directory import write_dicomdir
from test_dicom import new_dataset, store
from test_extract import RANDOM, coldframe

pytestmark = pytest.mark.filterwarnings("ignore")

PATIENTS = 50
RNG = np.random.default_rng(7)


def make_cohort():
    """Data sets by (patient, study, name): a series of three files each, and a clip of every third."""
    cohort = {}
    for patient in range(PATIENTS):
        for study in range(1 + patient % 2):
            shared = {"PatientID": f"P{patient}", "StudyInstanceUID": f"1.2.{patient}.{study}",
                      "SeriesNumber": 1, "SeriesInstanceUID": f"1.2.{patient}.{study}.1",
                      "StudyDate": "20240301", "Modality": "US"}
            for i in RNG.permutation(3):
                uid = f"1.2.{patient}.{study}.1.{i}"
                cohort[patient, study, f"IM{i}"] = new_dataset(
                    bits=8, allocated=8, frames=1, SOPInstanceUID=uid, AcquisitionTime=f"10000{i}", **shared)
            if patient % 3 == 0:
                cohort[patient, study, "CINE"] = new_dataset(
                    bits=8, allocated=8, frames=2, FrameTime=40, **shared)
    for dataset in cohort.values():
        frames = int(dataset.NumberOfFrames)
        dataset.pixels = None
        store(dataset, "/dev/null", RNG.integers(0, 256, (frames, dataset.Rows, dataset.Columns)))
    return cohort


def place(cohort, folder, path_of):
    for key, dataset in cohort.items():
        path = folder / path_of(*key)
        path.parent.mkdir(parents=True, exist_ok=True)
        pydicom.dcmwrite(path, dataset, enforce_file_format=True)


def flat(patient, study, name):
    return f"{name}-{(patient * 7) % PATIENTS}-{study}"


def by_patient(patient, study, name):
    return f"patient{patient}/{study}-{name}.dcm"


def by_study(patient, study, name):
    return f"{patient}/study{study}/{name}"


def on_disc(patient, study, name):
    return f"DICOM/PA{patient:06}/ST{study:06}/{name}"


def inputs(folder, cohort):
    for name, path_of in (("flat", flat), ("patients", by_patient), ("studies", by_study), ("disc", on_disc)):
        place(cohort, folder / name, path_of)
    shuffled = [list(cohort)[i] for i in RNG.permutation(len(cohort))]
    manifest = folder / "manifest.csv"
    with open(manifest, "w", newline="") as file:
        csv.writer(file).writerows([["path"], *([f"studies/{by_study(*key)}"] for key in shuffled)])
    return {"flat": folder / "flat", "patients": folder / "patients", "studies": folder / "studies",
            "disc": write_dicomdir(folder / "disc", [on_disc(*key).split("/") for key in shuffled]), "manifest": manifest}


def content(cache):
    """{id: (patient, times, features)}"""
    with h5py.File(cache) as file:
        offsets, values, times = (file[name][:] for name in ("exams/offset", "features/clean", "frames/time_s"))
        patients, ids = file["exams/patient"][:], file["exams/id"][:]
    return {id: (patient, times[a:b].tobytes(), values[a:b].tobytes())
            for id, patient, a, b in zip(ids, patients, offsets, offsets[1:])}


def test_five_layouts_give_the_same_exams_ids_and_features(tmp_path):
    cohort = make_cohort()
    found = {}
    for name, source in inputs(tmp_path, cohort).items():
        coldframe("extract", "--input", source, *RANDOM, "--patient-salt", "s", "--precision", "fp32", "--batch", "8",
                  "--out", tmp_path / f"{name}.h5", "--quiet")
        found[name] = content(tmp_path / f"{name}.h5")
    assert len(found["flat"]) == PATIENTS + PATIENTS // 2 + sum(1 + p % 2 for p in range(0, PATIENTS, 3))
    for name, exams in found.items():
        assert exams.keys() == found["flat"].keys(), name
        assert exams == found["flat"], name


def test_a_cache_follows_its_cohort_from_layout_to_layout(tmp_path):
    cohort = {key: dataset for key, dataset in make_cohort().items() if key[0] < 6}
    sources = inputs(tmp_path, cohort)
    command = ["extract", *RANDOM, "--patient-salt", "s", "--frames", "2", "--out", tmp_path / "x.h5", "--input"]
    coldframe(*command, sources["flat"])
    first = content(tmp_path / "x.h5")
    for name in ("patients", "studies", "disc", "manifest"):
        done = coldframe(*command, sources[name], "--json")
        assert '"exams": 0' in done.stdout, name
        assert content(tmp_path / "x.h5") == first
