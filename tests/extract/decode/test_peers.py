"""Small files of every kind that tells order, number, times, colour or shape of frames in a way of its own, against the
library that knows the kind: pydicom, tifffile, nibabel, Pillow, OpenCV and ffprobe. (Real files: test_dicom.py,
test_nifti.py, test_clips.py.)"""

import json
import subprocess
from collections import Counter

import cv2
import nibabel
import numpy as np
import pydicom
import pytest
import tifffile
from PIL import Image

from frames_helper import read, run
from dicom_reference import reference_frames
from test_dicom import new_dataset, pattern, store
from test_dicom_cases import CODES, group, part, store_code
from test_dicom_folders import axial
from nifti_helper import frames as slices_of
from nifti_helper import levels
from test_clips import opencv_frames, probed_times

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(5)
CASES = {}  # name: (kind, maker)


def case(kind):
    """Of a maker: folder -> (path, the peer's frames, its times, further options of ours, the greatest difference)."""
    def register(make):
        CASES[make.__name__] = kind, make
        return make
    return register


# ---- DICOM

def shown(number):
    """Its frames tell themselves apart by their levels."""
    return np.clip(pattern(1, 8) // 2 + 9 * number, 0, 255)


def dicom(path, numbers=(0,), values=None, **attributes):
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.concatenate([shown(number) for number in numbers]) if values is None else values
    data = new_dataset(**{"bits": 8, "allocated": 8, "frames": len(values), **attributes})
    store(data, path, values)
    return path


def series(folder, files, seconds, **common):
    """files: attributes by number in the order of pydicom's reader; their names say something else."""
    paths = []
    for number, attributes in enumerate(files):
        path = folder / "in" / f"{(number * 7 + 3) % len(files)}_{number % 3}.dcm"
        paths.append(dicom(path, [number], **{"InstanceNumber": (number * 5) % len(files), **common, **attributes}))
    return folder / "in", np.concatenate([reference_frames(path) for path in paths]), seconds


def stored_in(path, order, seconds, *rest):
    return path, reference_frames(path)[list(order)], seconds, *rest


AT_ONCE = {"AcquisitionDate": "20240101", "AcquisitionTime": "101010"}


@case("order of a series")
def two_slices_of_three_trigger_times(folder):
    files = [{"TriggerTime": 33 * phase, **axial(8 * z)} for phase in range(3) for z in range(2)]
    return series(folder, files, [0, 0, 0.033, 0.033, 0.066, 0.066], Modality="MR", **AT_ONCE)


@case("order of a series")
def temporal_positions_with_gaps(folder):
    files = [{"TemporalPositionIdentifier": t, **axial(z)} for t in (1, 4, 9) for z in (-5, 5)]
    return series(folder, files, [None] * 6, Modality="MR", **AT_ONCE)


@case("order of a series")
def acquisition_times_past_midnight(folder):
    files = [{"AcquisitionTime": t} for t in ("235958.5", "235959.5", "000001")]
    return series(folder, files, [0, 1, 2.5], StudyDate="20240101", StudyTime="2350")


@case("order of a series")
def content_times_at_one_place(folder):
    files = [{"ContentTime": f"10000{t}"} for t in (1, 3, 8)]
    return series(folder, files, [0, 2, 7], ContentDate="20240101", **AT_ONCE, **axial(3))


def listed(folder, row, files, seconds, **common):
    """A series in a manifest whose rows name its exam: a row for each file, or one for all."""
    path, theirs, seconds = series(folder, files, seconds, **common)
    names = [f"in/{(number * 7 + 3) % len(files)}_{number % 3}.dcm" for number in range(len(files))]
    with (folder / "manifest.csv").open("w") as file:
        file.write("exam,path\n" + "".join(f"e,{name}\n" for name in ([row] if row else names)))
    return folder / "manifest.csv", theirs, seconds


@case("order in a manifest")
def trigger_times_of_rows(folder):
    return listed(folder, "", [{"TriggerTime": 40 * t} for t in range(4)], [0, 0.04, 0.08, 0.12], Modality="MR", **AT_ONCE)


@case("order in a manifest")
def trigger_times_of_a_pattern(folder):
    files = [{"TriggerTime": 40 * t, **axial(z)} for t in range(2) for z in (0, 5)]
    return listed(folder, "in/*.dcm", files, [0, 0, 0.04, 0.04], Modality="MR", **AT_ONCE)


@case("order in a manifest")
def acquisition_times_of_a_folder(folder):
    files = [{"AcquisitionDate": "20240101", "AcquisitionTime": f"1010{10 + 5 * t}"} for t in range(3)]
    return listed(folder, "in", files, [0, 5, 10], Modality="XA")


@case("order in a manifest")
def slices_of_a_pattern_by_place(folder):
    files = [{"AcquisitionDate": "20240101", "AcquisitionTime": f"10101{9 - z}", **axial(4 * z)} for z in range(4)]
    return listed(folder, "in/?_*", files, [None] * 4, Modality="CT")


@case("order of a series")
def oblique_slices(folder):
    axes = [0.6, 0.8, 0, 0, 0, -1]
    normal = np.cross(axes[:3], axes[3:])
    files = [{"ImagePositionPatient": list(np.round(normal * 4 * z, 6)), "ImageOrientationPatient": axes} for z in range(5)]
    return series(folder, files, [None] * 5, Modality="CT")


@case("order of a series")
def feet_first_slices_by_descending_number(folder):
    return series(folder, [{"InstanceNumber": 9 - z, **axial(-30 + 3 * z)} for z in range(4)], [None] * 4, Modality="CT")


def enhanced(folder, groups, order, seconds, **attributes):
    path = dicom(folder / "a.dcm", range(len(groups)), Modality="MR",
                 PerFrameFunctionalGroupsSequence=[group(**facts) for facts in groups], **attributes)
    return stored_in(path, order, seconds)


@case("order in an enhanced object")
def temporal_position_indices_slice_by_slice(folder):
    groups = [{"temporal": t, "place": [0, 0, z]} for z in (5, 0) for t in (2, 1, 4)]
    return enhanced(folder, groups, [4, 1, 3, 0, 5, 2], [None] * 6)


@case("order in an enhanced object")
def slices_at_random(folder):
    places = [20, 0, 40, 10, 30]
    return enhanced(folder, [{"place": [0, 0, z]} for z in places], np.argsort(places), [None] * 5)


@case("order in an enhanced object")
def trigger_delays_backwards(folder):
    groups = [{"trigger": 50 * t, "place": [0, 0, 1]} for t in (3, 2, 1, 0)]
    return enhanced(folder, groups, [3, 2, 1, 0], [0, 0.05, 0.1, 0.15])


@case("order in an enhanced object")
def volumes_of_ultrasound_by_temporal_offsets(folder):
    groups = [{"offset": t / 4, "place": [0, 0, z]} for z in (0, 2) for t in (1, 0)]
    return enhanced(folder, groups, [1, 3, 0, 2], [0, 0, 0.25, 0.25])


@case("times within a file")
def a_vector_of_frame_times(folder):
    path = dicom(folder / "a.dcm", range(4), FrameIncrementPointer=0x00181065, FrameTimeVector=[0, 40, 20, 60])
    return stored_in(path, range(4), [0, 0.04, 0.06, 0.12])


@case("times within a file")
def the_frame_time_beside_a_vector(folder):
    path = dicom(folder / "a.dcm", range(3), FrameIncrementPointer=0x00181063, FrameTime=25, FrameTimeVector=[0, 1, 1])
    return stored_in(path, range(3), [0, 0.025, 0.05])


@case("times within a file")
def a_vector_of_the_wrong_length(folder):
    path = dicom(folder / "a.dcm", range(5), FrameIncrementPointer=0x00181065, FrameTimeVector=[0, 10, 10])
    return stored_in(path, range(5), [None] * 5)


def concatenation(folder, numbers, seconds, **attributes):
    paths = [dicom(folder / "in" / f"{9 - n}.dcm", range(2 * n - 2, 2 * n), **part(n, 3, 2 * n - 2, **attributes)) for n in numbers]
    return folder / "in", np.concatenate([reference_frames(path) for path in paths]), seconds


@case("concatenation")
def a_clip_in_three_files(folder):
    return concatenation(folder, (1, 2, 3), [0.02 * i for i in range(6)], FrameTime=20)


@case("concatenation")
def a_clip_without_its_second_file(folder):
    return concatenation(folder, (1, 3), [0, 0.02, 0.08, 0.1], FrameTime=20)


def counted(folder, stated, values, **attributes):
    """Pixel data of other frames than NumberOfFrames says."""
    path = dicom(folder / "a.dcm", values=values, **attributes)
    theirs = reference_frames(path)
    data = pydicom.dcmread(path)
    data.NumberOfFrames = stated
    if stated is None:
        del data.NumberOfFrames
    data.save_as(path)
    return path, theirs, [0, 0.04, 0.08, 0.12]


@case("number of frames")
def no_number_of_frames(folder):
    return counted(folder, None, pattern(4, 12), bits=12, allocated=16, FrameTime=40)


@case("number of frames")
def one_colour_frame_stated_of_four(folder):
    return counted(folder, 1, pattern(4, 8, samples=3), samples=3, photometric="RGB", FrameTime=40)


def ybr_frames(columns):
    values = pattern(2, 8, samples=3)[:, :, :columns]
    return np.stack([values[..., 0], 90 + values[..., 1] // 4, 100 + values[..., 2] // 4], -1)


@case("more bytes than the shape")
def full_chroma_called_422(folder):
    path = dicom(folder / "a.dcm", values=ybr_frames(50), samples=3, photometric="YBR_FULL", Columns=50)
    theirs = reference_frames(path)
    data = pydicom.dcmread(path)
    data.PhotometricInterpretation = "YBR_FULL_422"
    data.save_as(path)
    return path, theirs, [None] * 2, (), 1


@case("more bytes than the shape")
def chroma_of_an_odd_width(folder):
    path = dicom(folder / "a.dcm", values=ybr_frames(51), samples=3, photometric="YBR_FULL")
    return stored_in(path, range(2), [None] * 2, (), 1)


@case("more bytes than the shape")
def zeros_behind_the_frames(folder):
    path = dicom(folder / "a.dcm", range(2))
    theirs = reference_frames(path)
    data = pydicom.dcmread(path)
    data.PixelData += bytes(4000)
    data.save_as(path)
    return path, theirs, [None] * 2


def palette(bits):
    ramp = np.linspace(0, 2 ** bits - 1, 256).astype("u1" if bits == 8 else "u2")
    tables = {}
    for colour, values in (("Red", ramp), ("Green", ramp[::-1]), ("Blue", np.roll(ramp, 90))):
        tables[f"{colour}PaletteColorLookupTableDescriptor"] = [256, 0, bits]
        tables[f"{colour}PaletteColorLookupTableData"] = values.tobytes()
    return tables


@case("colour")
def a_palette_of_8_bits(folder):
    return stored_in(dicom(folder / "a.dcm", range(2), photometric="PALETTE COLOR", **palette(8)), range(2), [None] * 2)


@case("colour")
def a_palette_of_16_bits(folder):
    return stored_in(dicom(folder / "a.dcm", range(2), photometric="PALETTE COLOR", **palette(16)), range(2), [None] * 2)


@case("colour")
def ycbcr_of_jpeg_called_rgb(folder):
    x = np.linspace(20, 230, 32)
    rgb = np.stack([x + 0 * x[:, None], x[::-1] + 0 * x[:, None], x[:, None] + 0 * x], -1).astype(np.uint8)
    code = CODES["JFIF called RGB"][1](rgb)
    (folder / "a.jpg").write_bytes(code)
    data = new_dataset("RGB", 8, 8, frames=1, samples=3, Rows=32, Columns=32)
    return store_code(data, folder / "a.dcm", [code]), np.asarray(Image.open(folder / "a.jpg"))[None], [None]


@case("colour")
def reversible_components_of_jpeg_2000(folder):
    path = dicom(folder / "a.dcm", values=pattern(2, 8, samples=3), samples=3, photometric="RGB")
    data = pydicom.dcmread(path)
    data.compress(pydicom.uid.JPEG2000Lossless, generate_instance_uid=False)
    data.save_as(path)
    return stored_in(path, range(2), [None] * 2)


@case("colour")
def signed_jpeg_2000(folder):
    path = dicom(folder / "a.dcm", values=pattern(2, 12, signed=True), bits=12, allocated=16, signed=True)
    data = pydicom.dcmread(path)
    data.compress(pydicom.uid.JPEG2000Lossless, generate_instance_uid=False)
    data.save_as(path)
    return stored_in(path, range(2), [None] * 2)


def beside(folder, **attributes):
    """A CT of three slices beside what is no image."""
    found = series(folder, [axial(3 * z) for z in range(3)], [None] * 3, Modality="CT")
    dicom(folder / "in" / "other.dcm", range(3), **attributes)
    return found


STORAGE = "1.2.840.10008.5.1.4.1.1."


@case("what is no image")
def a_segmentation(folder):
    return beside(folder, SOPClassUID=STORAGE + "66.4", Modality="SEG", SeriesInstanceUID="1.2.3.9")


@case("what is no image")
def a_dose_grid_in_the_series(folder):
    return beside(folder, SOPClassUID=STORAGE + "481.2", Modality="RTDOSE")


@case("what is no image")
def objects_without_pixels(folder):
    found = series(folder, [axial(3 * z) for z in range(3)], [None] * 3, Modality="CT")
    for modality, uid in (("RTSTRUCT", "481.3"), ("SR", "88.22"), ("KO", "88.59"), ("PR", "11.1")):
        path = dicom(folder / "in" / f"{modality}.dcm", SOPClassUID=STORAGE + uid, Modality=modality)
        data = pydicom.dcmread(path)
        for name in ("PixelData", "Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "SamplesPerPixel", "NumberOfFrames"):
            delattr(data, name)
        data.save_as(path)
    return found


@case("headers that contradict themselves")
def a_file_without_preamble_and_meta_header(folder):
    path = dicom(folder / "a.dcm", range(3), FrameTime=40)
    theirs = reference_frames(path)
    data = pydicom.dcmread(path)
    pydicom.dcmwrite(path, pydicom.Dataset(data), implicit_vr=True, little_endian=True)
    return path, theirs, [0, 0.04, 0.08]


@case("headers that contradict themselves")
def implicit_values_called_explicit(folder):
    path = dicom(folder / "a.dcm", range(3))
    theirs = reference_frames(path)
    explicit, data = path.read_bytes(), pydicom.dcmread(path)
    pydicom.dcmwrite(folder / "b", pydicom.Dataset(data), implicit_vr=True, little_endian=True)
    length = int.from_bytes(explicit[140:144], "little")  # of the meta header
    path.write_bytes(explicit[:144 + length] + (folder / "b").read_bytes())
    return path, theirs, [None] * 3


def video(folder, syntax, words):
    stream = folder / "stream"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:r=20:d=0.5", "-pix_fmt", "yuv420p", *words, str(stream)],
                   check=True)
    data = new_dataset("YBR_PARTIAL_420", 8, 8, frames=10, samples=3, Rows=48, Columns=64, FrameTime=50)
    path = store_code(data, folder / "a.dcm", [stream.read_bytes()], "1.2.840.10008.1.2.4." + syntax, table=False)
    return path, np.stack(list(opencv_frames(stream))), [0.05 * i for i in range(10)], (), 1


@case("video in DICOM")
def mpeg_2_in_dicom(folder):
    return video(folder, "100", ["-c:v", "mpeg2video", "-f", "mpeg2video"])


@case("video in DICOM")
def h264_in_dicom(folder):
    return video(folder, "102", ["-c:v", "libx264", "-f", "mp4"])


# ---- TIFF

def noise(shape, kind="u1"):
    return RNG.integers(0, np.iinfo(kind).max, shape).astype(kind)


def as_rgb(pages):
    return np.repeat(pages[..., None], 3, -1)


def to_8_bits(pages):
    return np.floor(pages.astype(float) * 255 / 65535 + 0.5).astype(np.uint8)


@case("axes of stacks")
def imagej_hyperstack(folder):
    """As ImageJ writes all of them: big-endian, in the order T, Z, C."""
    tifffile.imwrite(folder / "a.tif", noise((3, 2, 2, 12, 15), "u2"), imagej=True, metadata={"axes": "TZCYX", "finterval": 0.5})
    stack = tifffile.imread(folder / "a.tif")
    return folder / "a.tif", as_rgb(to_8_bits(stack.reshape(-1, 12, 15))), [0.5 * t for t in range(3) for _ in range(4)]


def ome(folder, axes, shape, order, seconds, **stated):
    """`order` brings tifffile's array, whose axes are as written, into times, slices, channels."""
    tifffile.imwrite(folder / "a.ome.tif", noise(shape), metadata={"axes": axes, **stated})
    stack = tifffile.imread(folder / "a.ome.tif").transpose(*order, -2, -1)
    return folder / "a.ome.tif", as_rgb(stack.reshape(-1, *shape[-2:])), seconds


@case("axes of stacks")
def ome_of_dimension_order_xyzct(folder):
    return ome(folder, "TCZYX", (2, 2, 3, 9, 8), (0, 2, 1), [0] * 6 + [1.5] * 6, TimeIncrement=1.5)


@case("axes of stacks")
def ome_of_dimension_order_xyczt(folder):
    return ome(folder, "TZCYX", (2, 3, 2, 9, 8), (0, 1, 2), [0] * 6 + [1.5] * 6, TimeIncrement=1.5)


@case("axes of stacks")
def ome_with_times_innermost(folder):
    return ome(folder, "ZCTYX", (2, 2, 3, 9, 8), (2, 0, 1), [0] * 4 + [2] * 4 + [4] * 4, TimeIncrement=2.0)


@case("axes of stacks")
def ome_with_uneven_times(folder):
    return ome(folder, "TYX", (3, 9, 8), (0,), [0, 0.5, 4], Plane={"DeltaT": [1.0, 1.5, 5.0], "DeltaTUnit": ["s"] * 3})


@case("axes of stacks")
def the_axes_that_tifffile_writes(folder):
    tifffile.imwrite(folder / "a.tif", noise((2, 3, 2, 9, 8)), photometric="minisblack", metadata={"axes": "CTZYX"})
    stack = tifffile.imread(folder / "a.tif").transpose(1, 2, 0, 3, 4)
    return folder / "a.tif", as_rgb(stack.reshape(-1, 9, 8)), [None] * 12


@case("number of frames")
def imagej_stack_behind_one_directory(folder):
    stack = noise((5, 10, 12))
    tifffile.imwrite(folder / "a.tif", stack[:1], byteorder=">", photometric="minisblack", metadata=None,
                     description="ImageJ=1.53t\nimages=5\nframes=5\nfinterval=0.1\n")
    with (folder / "a.tif").open("ab") as file:
        file.write(stack[1:].tobytes())
    return folder / "a.tif", as_rgb(tifffile.imread(folder / "a.tif")), [0, 0.1, 0.2, 0.3, 0.4]


@case("shape of an image")
def tiff_in_planes_and_tiles(folder):
    tifffile.imwrite(folder / "a.tif", noise((3, 40, 50)), photometric="rgb", planarconfig="separate", tile=(16, 16), compression="zlib")
    return folder / "a.tif", np.moveaxis(tifffile.imread(folder / "a.tif"), 0, -1)[None], [None]


@case("shape of an image")
def tiff_of_grey_and_alpha(folder):
    Image.fromarray(noise((20, 30, 2)), "LA").save(folder / "a.tif")
    return folder / "a.tif", as_rgb(np.asarray(Image.open(folder / "a.tif"))[None, ..., 0]), [None]


# ---- NIfTI

TURNED = nibabel.affines.from_matvec(np.array([[0, 0, 3.0], [-2, 0, 0], [0, 2.5, 0]]), [1, 2, 3])


def by_nibabel(path, seconds, slope=False):
    data = nibabel.as_closest_canonical(nibabel.load(path)).get_fdata()
    pages = np.stack([levels(page, *np.percentile(data, (0.5, 99.5))) for page in slices_of(data, 2)])
    return path, as_rgb(pages), seconds


@case("volumes")
def times_of_a_series_in_milliseconds(folder):
    image = nibabel.Nifti1Image(noise((6, 5, 3, 4), "i2"), TURNED)
    image.header.set_xyzt_units("mm", "msec")
    image.header["pixdim"][4] = 2500
    nibabel.save(image, folder / "a.nii.gz")
    return by_nibabel(folder / "a.nii.gz", [2.5 * t for t in range(4) for _ in range(5)])


@case("volumes")
def a_volume_of_big_endian_floats(folder):
    header = nibabel.Nifti1Header(endianness=">")
    header.set_data_dtype(">f4")
    nibabel.save(nibabel.Nifti1Image(RNG.normal(size=(7, 6, 5)).astype(">f4"), TURNED, header), folder / "a.nii")
    assert (folder / "a.nii").read_bytes()[:4] == b"\0\0\1\x5c"
    return by_nibabel(folder / "a.nii", [None] * 6)


@case("headers that contradict themselves")
def an_sform_of_zeros(folder):
    nibabel.save(nibabel.Nifti1Image(noise((6, 5, 4)), TURNED), folder / "a.nii")
    found = by_nibabel(folder / "a.nii", [None] * 5)
    content = bytearray((folder / "a.nii").read_bytes())
    content[252:256], content[280:328] = np.array([1, 1], "<i2").tobytes(), bytes(48)
    (folder / "a.nii").write_bytes(content)
    return found


def colours(folder, fields):
    voxels = np.empty((7, 6, 4), [(name, "u1") for name in fields])
    for name in fields:
        voxels[name] = noise(voxels.shape)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), folder / "a.nii")
    data = np.asarray(nibabel.load(folder / "a.nii").dataobj)
    rgb = np.stack([data[name] for name in fields[:3]], -1)
    return folder / "a.nii", np.stack([np.rot90(rgb[:, :, z]) for z in range(4)]), [None] * 4


@case("colour")
def a_volume_of_rgb24(folder):
    return colours(folder, ["R", "G", "B"])


@case("colour")
def a_volume_of_rgba32(folder):
    return colours(folder, ["R", "G", "B", "A"])


# ---- Clips

def clip(path, *words, source="testsrc2=s=64x48:r=20:d=1", stamps=None):
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, *words, str(path)], check=True)
    return by_opencv(path, stamps)


def by_opencv(path, stamps=None, options=()):
    stamps = probed_times(path) if stamps is None else np.array(stamps)
    return path, np.stack(list(opencv_frames(path))), list(stamps - stamps[0]), options, 1


@case("times of clips")
def frames_at_uneven_times(folder):
    return clip(folder / "a.mp4", "-vf", "setpts='(N+N*N/8)/20/TB'", "-fps_mode", "passthrough", "-c:v", "libx264")


@case("times of clips")
def an_edit_list_that_begins_later(folder):
    clip(folder / "long.mp4", "-c:v", "libx264", "-g", "5", "-bf", "2")
    path = folder / "a.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-ss", "0.35", "-i", str(folder / "long.mp4"), "-c", "copy", str(path)], check=True)
    return by_opencv(path)


@case("times of clips")
def matroska_without_a_duration(folder):
    (folder / "a.mkv").write_bytes(subprocess.run(
        ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:r=20:d=1", "-c:v", "libx264", "-f", "matroska", "-"],
        capture_output=True, check=True).stdout)
    return by_opencv(folder / "a.mkv")


@case("times of clips")
def borders_between_frames(folder):
    path, frames, seconds, _, most = clip(folder / "a.mov", "-c:v", "libx264", "-g", "4")
    kept = [i for i, time in enumerate(seconds) if 0.25 - 1e-9 <= time < 0.6 - 1e-9]
    return path, frames[kept], [seconds[i] for i in kept], ["--start=0.25", "--end=0.6"], most


@case("streams of clips")
def a_small_stream_before_the_large_one(folder):
    large = clip(folder / "large.mkv", "-c:v", "ffv1")
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=16x16:d=1", "-i", str(large[0]), "-map", "0", "-map", "1",
                    "-c:v", "ffv1", str(folder / "a.mkv")], check=True)
    return folder / "a.mkv", *large[1:]


@case("streams of clips")
def an_attached_picture(folder):
    plain = clip(folder / "plain.mp4", "-c:v", "libx264")
    Image.fromarray(noise((200, 200, 3))).save(folder / "cover.jpg")
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(plain[0]), "-i", str(folder / "cover.jpg"), "-map", "0", "-map", "1", "-c", "copy",
                    "-disposition:v:1", "attached_pic", str(folder / "a.mp4")], check=True)
    return folder / "a.mp4", *plain[1:]


@case("shape of a clip")
def a_clip_that_is_turned(folder):
    plain = clip(folder / "plain.mp4", "-c:v", "libx264")
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(plain[0]), "-c", "copy", "-metadata:s:v", "rotate=90", str(folder / "a.mp4")], check=True)
    rows = json.loads(subprocess.run(["ffprobe", "-v", "error", "-show_streams", "-of", "json", str(folder / "a.mp4")], capture_output=True,
                                     check=True).stdout)["streams"][0]["side_data_list"]
    assert rows[0]["rotation"] == 90
    return by_opencv(folder / "a.mp4")


@case("shape of a clip")
def pixels_that_are_not_square(folder):
    path, frames, seconds, _, _ = clip(folder / "a.mp4", "-vf", "setsar=3/2", "-c:v", "libx264", source="testsrc2=s=64x48:r=20:d=0.3")
    wide = np.stack([cv2.resize(frame, (96, 48), interpolation=cv2.INTER_AREA) for frame in frames])
    return path, wide, seconds, ["--square-pixels"], 255


@case("damage of clips")
def a_stream_of_192_bytes_that_begins_within_a_packet(folder):
    clip(folder / "whole.m2ts", "-c:v", "libx264", "-g", "5", "-bf", "0", "-mpegts_m2ts_mode", "1", "-f", "mpegts")
    (folder / "a.m2ts").write_bytes((folder / "whole.m2ts").read_bytes()[100:])
    return by_opencv(folder / "a.m2ts")


@case("damage of clips")
def a_broadcast_that_was_joined_late(folder):
    clip(folder / "whole.ts", "-c:v", "mpeg2video", "-g", "5", "-bf", "0")
    content = (folder / "whole.ts").read_bytes()
    (folder / "a.ts").write_bytes(content[188 * (len(content) // 188 // 2):])
    return by_opencv(folder / "a.ts")


@pytest.mark.parametrize("name", CASES)
def test_frames_and_times_equal_the_peers(tmp_path, name):
    path, theirs, seconds, options, most = (*CASES[name][1](tmp_path), (), 0)[:5]
    exam, = read(path, 0, [f"--dump={tmp_path / 'ours'}", *options]).values()
    assert "error" not in exam, exam["error"]
    slots = exam["slots"]
    assert len(slots) == len(theirs) and all(slot["present"] for slot in slots), [slot["fault"] for slot in slots]
    assert {(slot["height"], slot["width"]) for slot in slots} == {theirs.shape[1:3]}
    ours = np.fromfile(tmp_path / "ours", np.uint8).reshape(theirs.shape)
    assert np.abs(ours.astype(int) - theirs).max() <= most
    assert [slot["time_s"] for slot in slots] == [None if time is None else pytest.approx(time, abs=1e-6) for time in seconds]


REFUSED = {}  # what is not read, in words


def refused(words):
    def register(make):
        REFUSED[make.__name__] = make, words
        return make
    return register


@refused("comes before frame 0 by trigger time, by their headers; sort the manifest, give --sort time")
def rows_against_their_trigger_times(folder):
    path = listed(folder, "", [{"TriggerTime": 40 * (3 - t)} for t in range(4)], [], Modality="MR", **AT_ONCE)[0]
    exam, = read(path, 0, ["--sort-by-time"]).values()
    assert [slot["time_s"] for slot in exam["slots"]] == pytest.approx([0, 0.04, 0.08, 0.12]) and exam["order"] == "trigger time"
    exam, = read(path, 0, ["--allow-unordered"]).values()
    assert [slot["time_s"] for slot in exam["slots"]] == pytest.approx([0, -0.04, -0.08, -0.12]) and exam["order"] == "the manifest"
    return path


@refused("comes before frame 0 by temporal position")
def rows_against_their_temporal_positions(folder):
    return listed(folder, "", [{"TemporalPositionIdentifier": 3 - t} for t in range(3)], [], Modality="MR", **AT_ONCE)[0]


@refused("have two samples, and it does not call the second one alpha")
def two_samples_of_a_tiff(folder):
    tifffile.imwrite(folder / "a.tif", noise((20, 30, 2)), photometric="minisblack", planarconfig="contig")
    return folder / "a.tif"


@refused("have two samples, and it does not call the second one alpha")
def two_channels_of_ome_in_planes_of_a_page(folder):
    tifffile.imwrite(folder / "a.ome.tif", noise((3, 2, 20, 30)), photometric="minisblack", planarconfig="separate", metadata={"axes": "TCYX"})
    return folder / "a.ome.tif"


@refused("states the axes TYXC of shape [4,9,8,3], and it has 36 pages")
def channels_that_are_no_pages(folder):
    tifffile.imwrite(folder / "a.tif", noise((4, 9, 8, 3)), photometric="minisblack", metadata={"axes": "TYXC"})
    return folder / "a.tif"


@refused("too few for 7 frames")
def more_frames_stated_than_pixel_data_holds(folder):
    dicom(folder / "a.dcm", range(4))
    data = pydicom.dcmread(folder / "a.dcm")
    data.NumberOfFrames = 7
    data.save_as(folder / "a.dcm")
    with pytest.raises(ValueError):
        reference_frames(folder / "a.dcm")
    return folder / "a.dcm"


@refused("bits allocated are 12")
def samples_packed_into_12_bits(folder):
    path = dicom(folder / "a.dcm", values=pattern(2, 12), bits=12, allocated=16)
    data = pydicom.dcmread(path)
    data.BitsAllocated, data.PixelData = 12, bytes(2 * 37 * 51 * 3 // 2 + 1)
    data.save_as(path)
    return path


@refused("ANALYZE 7.5 volume, which is not read")
def a_volume_of_analyze(folder):
    nibabel.save(nibabel.AnalyzeImage(noise((6, 5, 4)), np.eye(4)), folder / "a.img")
    return folder / "a.hdr"


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_in_words(tmp_path, name):
    make, words = REFUSED[name]
    done = run(make(tmp_path))
    assert words in done.stderr + done.stdout


def test_every_kind_is_made_twice():
    kinds = Counter(kind for kind, _ in CASES.values())
    assert len(CASES) >= 50 and min(kinds.values()) >= 2, kinds
