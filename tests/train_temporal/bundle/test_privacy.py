"""No pixel and nothing of a patient gets into a bundle."""
import numpy as np
import pydicom
from bundle_support import bundle, study

SECRET = "Hortensia"


def store(path, number, random):
    """A DICOM file whose every name, id and date holds a word of its own."""
    dataset = pydicom.Dataset()
    dataset.SOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    dataset.SOPInstanceUID, dataset.StudyInstanceUID = f"1.2.777{number}.1", f"1.2.777{number}.2"
    dataset.SeriesInstanceUID, dataset.Modality = f"1.2.777{number}.3", "OT"
    dataset.PatientID, dataset.PatientName = f"{SECRET}-id-{number}", f"{SECRET}^{number}"
    dataset.PatientBirthDate, dataset.StudyDate, dataset.StudyTime = "19310517", "20190823", "112233"
    dataset.InstitutionName, dataset.AccessionNumber = f"{SECRET} Hospital", f"Q7788{number}"
    dataset.Rows, dataset.Columns, dataset.NumberOfFrames = 64, 64, 2
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 8, 8, 7, 0
    pixels = random.integers(0, 256, (2, 64, 64), np.uint8)
    dataset.PixelData = pixels.tobytes()
    dataset["PixelData"].VR = "OB"
    dataset.file_meta = pydicom.dataset.FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    pydicom.dcmwrite(path, dataset, enforce_file_format=True)
    return pixels


def test_a_bundle_of_dicom_exams_names_nobody(tmp_path):
    folder = tmp_path / f"{SECRET}-folder"
    folder.mkdir()
    random = np.random.default_rng(5)
    pixels = [store(folder / f"{SECRET}-{number}.dcm", number, random) for number in range(12)]
    rows = [f"{SECRET}-exam-{number},{SECRET}-{number}.dcm,{number % 2}" for number in range(12)]
    (folder / "exams.csv").write_text("\n".join(["exam,path,label", *rows]))
    made = study(folder, "--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--patient-salt", "x",
                 manifest=folder / "exams.csv")
    patients = {line.split(",")[3] for line in (made.run / "predictions.csv").read_text().splitlines()[1:]}
    assert len(patients) == 12
    bundle(made)
    words = [SECRET.encode(), b"19310517", b"20190823", b"1.2.777", b"Q7788", str(tmp_path).encode(), *map(str.encode, patients)]
    words += [frame[row].tobytes()[:16] for exam in pixels for frame in exam for row in range(0, 64, 16)]
    names = []
    for path in (folder / "model.bundle").rglob("*"):
        if not path.is_file():
            continue
        names.append(path.name)
        content = path.read_bytes()
        assert not [word for word in words if word in content], path
        assert SECRET not in str(path.relative_to(folder))
    assert {"bundle.json", "unlike_training.safetensors"} <= set(names)
