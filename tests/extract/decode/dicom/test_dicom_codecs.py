"""Compressed DICOM: files that DCMTK's tools and pydicom's encoders wrote, read as pydicom reads
them. (DCMTK's tools are of the Debian package dcmtk, which only this test needs.)"""

import subprocess

import numpy as np
import pydicom
import pytest

from dicom_reference import reference_frames
from test_dicom import greatest_difference, make, read_one, store

GREY = {
    "8 bits": {"bits": 8, "allocated": 8},
    "12 bits": {"WindowCenter": 1500, "WindowWidth": 2000},
    "16 bits": {"bits": 16},
    "16 bits signed": {"bits": 16, "signed": True, "WindowCenter": -50, "WindowWidth": 30000},
}
COLOR = {
    "RGB": {"bits": 8, "allocated": 8, "samples": 3, "photometric": "RGB"},
    "RGB by plane": {"bits": 8, "allocated": 8, "samples": 3, "photometric": "RGB", "planar": 1},
}

# Commands that turn an uncompressed file into a compressed one, and the pictures that they take
# (dcmcjpeg codes colour by plane as if it were by pixel).
# Lossy colour has chroma of full size: decoders differ in how they enlarge smaller ones.
TOOLS = {
    "JPEG lossless": (["dcmcjpeg", "+e1"], {**GREY, "RGB": COLOR["RGB"]}, 0),
    "JPEG lossless, process 14": (["dcmcjpeg", "+el"], {**GREY, "RGB": COLOR["RGB"]}, 0),
    "JPEG lossless in short fragments": (["dcmcjpeg", "+e1", "+fs", "1"], GREY, 0),
    "JPEG baseline": (["dcmcjpeg", "+eb", "+q", "90", "+s4"],
                      {"8 bits": GREY["8 bits"], "RGB": COLOR["RGB"]}, 2),
    "JPEG extended": (["dcmcjpeg", "+ee", "+q", "90"], {"12 bits": GREY["12 bits"]}, 2),
    "JPEG-LS lossless": (["dcmcjpls", "+el"], {**GREY, **COLOR}, 0),
    "JPEG-LS near-lossless": (["dcmcjpls", "+en", "+md", "2"], {"8 bits": GREY["8 bits"]}, 0),
    "RLE": (["dcmcrle"], {**GREY, **COLOR}, 0),
    "deflated": (["dcmconv", "+td"], {**GREY, **COLOR}, 0),
    "big endian": (["dcmconv", "+tb"], {**GREY, **COLOR}, 0),
    "implicit": (["dcmconv", "+ti"], {**GREY, **COLOR}, 0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TOOLS)
def test_files_of_dcmtks_tools_equal_pydicoms(tmp_path, name):
    command, pictures, tolerance = TOOLS[name]
    plain, coded = tmp_path / "plain.dcm", tmp_path / "coded.dcm"
    for picture, options in pictures.items():
        dataset, values = make(options)
        store(dataset, plain, values)
        subprocess.run([command[0], *command[1:], plain, coded], check=True)
        exam, frames = read_one(coded, tmp_path)
        assert frames is not None, (picture, exam)
        assert greatest_difference(frames, reference_frames(coded)) <= tolerance, picture
        if tolerance == 0 and "near" not in name:
            assert np.array_equal(frames, read_one(plain, tmp_path)[1]), picture


ENCODED = {
    "JPEG 2000 lossless": (pydicom.uid.JPEG2000Lossless, {}, True),
    "JPEG 2000 lossy": (pydicom.uid.JPEG2000, {"j2k_psnr": [45]}, False),
    "JPEG-LS of pyjpegls": (pydicom.uid.JPEGLSLossless, {}, True),
    "RLE of pydicom": (pydicom.uid.RLELossless, {}, True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ENCODED)
def test_files_of_pydicoms_encoders_equal_pydicoms(tmp_path, name):
    syntax, options, lossless = ENCODED[name]
    plain, coded = tmp_path / "plain.dcm", tmp_path / "coded.dcm"
    # Not colour by plane, which these encoders take for colour by pixel.
    for picture, how in {**GREY, "RGB": COLOR["RGB"]}.items():
        dataset, values = make(how)
        store(dataset, plain, values)
        dataset.compress(syntax, generate_instance_uid=False, **options)
        dataset.save_as(coded)
        exam, frames = read_one(coded, tmp_path)
        assert frames is not None, (picture, exam)
        assert greatest_difference(frames, reference_frames(coded)) <= (0 if lossless else 2)
        if lossless:
            assert np.array_equal(frames, read_one(plain, tmp_path)[1]), picture
