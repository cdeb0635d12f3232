"""Writes a DICOMDIR."""

import pydicom


def write_dicomdir(folder, names):
    """A DICOMDIR of image records alone: `names` are lists of components."""
    directory = pydicom.Dataset()
    directory.DirectoryRecordSequence = []
    for name in names:
        record = pydicom.Dataset()
        record.DirectoryRecordType, record.ReferencedFileID = "IMAGE", name
        directory.DirectoryRecordSequence.append(record)
    directory.file_meta = pydicom.dataset.FileMetaDataset()
    directory.file_meta.MediaStorageSOPClassUID = pydicom.uid.MediaStorageDirectoryStorage
    directory.file_meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
    directory.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    pydicom.dcmwrite(folder / "DICOMDIR", directory, enforce_file_format=True)
    return folder / "DICOMDIR"
