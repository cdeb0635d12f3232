"""Order, number, times, colour and shape of frames of stacks, volumes and clips, against the libraries that wrote them."""

import json
import subprocess

import nibabel
import numpy as np
import pytest
import tifffile
from PIL import Image

import h264_fields
from frames_helper import SHARED, read, run, sha256, write_manifest
from nifti_helper import hashes

RNG = np.random.default_rng(11)
CASES = SHARED / "cases"
needs_cases = pytest.mark.skipif(not CASES.exists(), reason="needs ../shared/cases")


def one(path, *options):
    (exam,) = read(path, 0, options).values()
    assert "error" not in exam, exam["error"]
    return exam


def times(exam):
    return [slot["time_s"] for slot in exam["slots"]]


def grey(page):
    """As a frame shows it: 16 bits from 0 to 65535, the half up."""
    levels = page if page.dtype == np.uint8 else np.floor(page.astype(float) * 255 / 65535 + 0.5).astype(np.uint8)
    return sha256(np.repeat(levels[..., None], 3, -1) if levels.ndim == 2 else levels)


def behind_one_directory(path, stack, **description):
    """As ImageJ writes what has more than 4 GB: one directory, and all images behind one another."""
    text = "ImageJ=1.53t\n" + "".join(f"{key}={value}\n" for key, value in {"images": len(stack), **description}.items())
    tifffile.imwrite(path, stack[:1], byteorder=">", photometric="rgb" if stack.ndim == 4 else "minisblack",
                     description=text, metadata=None)
    with tifffile.TiffFile(path) as file:
        offset, size = file.pages[0].dataoffsets[0], stack[0].nbytes
    content = bytearray(path.read_bytes())
    assert offset + size == len(content)
    path.write_bytes(content[:offset] + stack.astype(stack.dtype.newbyteorder(">")).tobytes())


@pytest.mark.parametrize("shape, kind", [((7, 20, 30), "u1"), ((5, 33, 17), "u2"), ((4, 9, 11, 3), "u1")])
def test_images_behind_one_directory_are_all_read(tmp_path, shape, kind):
    stack = RNG.integers(0, np.iinfo(kind).max, shape).astype(kind)
    behind_one_directory(tmp_path / "a.tif", stack, frames=shape[0], finterval="250.0", tunit="ms")
    exam = one(tmp_path / "a.tif")
    assert exam["kind"] == "stack" and hashes(exam) == [grey(page) for page in stack]
    assert times(exam) == [i / 4 for i in range(len(stack))]
    if stack.ndim == 3:
        assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), stack)


def test_of_images_that_are_cut_off_the_whole_ones_are_read(tmp_path):
    stack = RNG.integers(0, 255, (7, 20, 30)).astype("u1")
    behind_one_directory(tmp_path / "a.tif", stack, frames=7)
    content = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(content[:-1000])
    slots = one(tmp_path / "a.tif")["slots"]
    assert [slot["present"] for slot in slots] == [True] * 5 + [False] * 2
    assert [slot["sha256"] for slot in slots[:5]] == [grey(page) for page in stack[:5]]
    assert "states 7 images, and it holds 6" in slots[6]["fault"]
    (tmp_path / "a.tif").write_bytes(content[:-6 * stack[0].nbytes])  # a single image that kept the text
    assert len(one(tmp_path / "a.tif")["slots"]) == 1


def channels_of(path, *options):
    """{name: (times, hashes)} of a stack's streams, by the manifest's frame column that names them."""
    exam = one(path, *options)
    done = run(path, 0, options)
    assert "hold" in done.stderr and "train --streams" in done.stderr, done.stderr
    streams = {}
    for slot, name in zip(exam["slots"], exam["streams"], strict=True):
        streams.setdefault(name, ([], []))[0].append(slot["time_s"])
        streams[name][1].append(slot["sha256"])
    return streams


@pytest.mark.parametrize("axes, shape, interval", [("TCYX", (6, 2, 16, 20), 2.0), ("TZCYX", (3, 2, 3, 12, 10), 0.5)])
@pytest.mark.parametrize("writer", ["imagej", "ome", "ome, other order"])
def test_channels_are_streams(tmp_path, axes, shape, interval, writer):
    stack = RNG.integers(0, 255, shape).astype("u1")
    path = tmp_path / "a.tif"
    stated = {"axes": axes}
    if writer == "imagej":
        stated["finterval"] = interval
        tifffile.imwrite(path, stack, imagej=True, metadata=stated)
    else:
        if writer != "ome":  # channels last, and times within them
            order = "C" + axes.replace("C", "")
            stack = np.moveaxis(stack, axes.index("C"), 0)
            stated["axes"] = order
        stated |= {"TimeIncrement": interval * 1000, "TimeIncrementUnit": "ms"}
        if writer == "ome":
            stated["Channel"] = {"Name": ["FA", "ICGA", "red"][:shape[axes.index("C")]]}
        tifffile.imwrite(path, stack, ome=True, metadata=stated)
        if writer != "ome":
            stack = np.moveaxis(stack, 0, axes.index("C"))
    per_time = int(np.prod(shape[1:axes.index("C")]))
    names = (["FA", "ICGA", "red"] if writer == "ome" else ["channel0", "channel1", "channel2"])[:shape[axes.index("C")]]
    streams = channels_of(path)
    assert list(streams) == names
    for i, name in enumerate(names):
        pages = np.take(stack, i, axes.index("C")).reshape(-1, *shape[-2:])
        found, pixels = streams[name]
        assert pixels == [grey(page) for page in pages]
        assert found == pytest.approx([t * interval for t in range(shape[0]) for _ in range(per_time)], abs=1e-12)


def test_times_of_planes_come_before_the_interval(tmp_path):
    stack = RNG.integers(0, 255, (4, 8, 9)).astype("u1")
    deltas = [0.5, 1.25, 3.0, 3.125]
    tifffile.imwrite(tmp_path / "a.tif", stack, ome=True, metadata={
        "axes": "TYX", "TimeIncrement": 9.0, "Plane": {"DeltaT": deltas, "DeltaTUnit": ["s"] * 4}})
    assert times(one(tmp_path / "a.tif")) == [0, 0.75, 2.5, 2.625]


def test_a_selection_takes_instants_and_keeps_all_channels(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((6, 2, 8, 8), "u1"), imagej=True, metadata={"axes": "TCYX", "finterval": 2.0})
    (exam,) = read(tmp_path / "a.tif", 3).values()
    assert [slot["index"] for slot in exam["slots"]] == [0, 1, 4, 5, 10, 11]
    (exam,) = read(tmp_path / "a.tif", 0, ["--start=2", "--end=6"]).values()
    assert [slot["index"] for slot in exam["slots"]] == [2, 3, 4, 5] and times(exam) == [2, 2, 4, 4]


def test_a_manifest_may_hold_stacks_of_channels(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((3, 2, 8, 8), "u1"), imagej=True, metadata={"axes": "TCYX", "finterval": 2.0})
    tifffile.imwrite(tmp_path / "b.tif", np.zeros((3, 8, 8), "u1"), photometric="minisblack")
    rows = [{"exam": "a", "path": "a.tif", "time": "10", "frame": ""}, {"exam": "b", "path": "b.tif", "time": "", "frame": ""},
            {"exam": "some", "path": "a.tif", "time": "", "frame": "2-3"}]
    exams = read(write_manifest(tmp_path, rows))
    assert exams["a"]["streams"] == ["channel0", "channel1"] * 3 and times(exams["a"]) == [0, 0, 2, 2, 4, 4]
    assert exams["b"]["streams"] == [""] and len(exams["some"]["slots"]) == 2
    rows = [{"exam": "a", "path": "a.tif", "stream": "FA"}]
    done = run(write_manifest(tmp_path, rows), 0, ["stream", "--streams=stream"])
    assert done.returncode == 3 and "its row names one stream, 'FA'" in done.stderr, done.stderr


def test_descriptions_that_do_not_fit_are_refused_in_words(tmp_path):
    stack = np.zeros((5, 8, 8), "u1")
    text = "ImageJ=1.53t\nimages=6\nchannels=2\nframes=3\n"
    tifffile.imwrite(tmp_path / "a.tif", stack, photometric="minisblack", description=text, metadata=None)
    (exam,) = read(tmp_path / "a.tif").values()
    assert "2 channels of 1 slices at 3 times in 6 images, and it has 5 pages" in exam["error"]
    with tifffile.TiffWriter(tmp_path / "b.tif", ome=True) as writer:
        writer.write(stack, photometric="minisblack")
        writer.write(stack, photometric="minisblack")
    (exam,) = read(tmp_path / "b.tif").values()
    assert "describes 2 images in it" in exam["error"]


def described(path, pages, planes, times=3, channels=1):
    """Pages with OME-XML whose elements TiffData are `planes`."""
    text = ('<?xml version="1.0"?><!-- <Pixels> of the file --><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
            f'UUID="urn:uuid:1"><Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8" SizeX="8" SizeY="6" '
            f'SizeZ="1" SizeC="{channels}" SizeT="{times}" TimeIncrement="2">{planes}</Pixels></Image></OME>')
    tifffile.imwrite(path, pages, description=text, metadata=None, photometric="minisblack")


def test_planes_lie_where_their_description_places_them(tmp_path):
    pages = RNG.integers(0, 255, (3, 6, 8)).astype("u1")
    plane = '<TiffData FirstC="{}" FirstT="{}" IFD="{}"><UUID FileName="x.tif">urn:uuid:{}</UUID></TiffData>'
    backwards = [plane.format(1, t, 2 - t, 1) for t in range(3)]
    elsewhere = [plane.format(0, t, t, 2) for t in range(3)]
    described(tmp_path / "a.tif", pages, "".join(elsewhere + backwards), channels=2)
    exam = one(tmp_path / "a.tif")
    assert hashes(exam) == [grey(page) for page in pages[::-1]] and times(exam) == [0, 2, 4]
    described(tmp_path / "b.tif", pages, "<TiffData/>", times=5)
    slots = one(tmp_path / "b.tif")["slots"]
    assert [slot["present"] for slot in slots] == [True] * 3 + [False] * 2
    assert "places this frame in page 3, and it has 3 pages" in slots[3]["fault"]
    described(tmp_path / "c.tif", pages, '<TiffData IFD="1" PlaneCount="2"/>', times=2)
    exam = one(tmp_path / "c.tif")
    assert hashes(exam) == [grey(page) for page in pages[1:]] and "left out" in exam["notes"][0]


def nifti(path, values, affine=np.diag([-2.0, 2, 3, 1]), change=lambda header: None):
    image = nibabel.Nifti1Image(values, affine)
    change(image.header)
    nibabel.save(image, path)


@pytest.mark.parametrize("broken", [0.0, np.nan])
def test_a_qform_holds_where_the_sform_is_singular(tmp_path, broken):
    values = RNG.integers(0, 255, (12, 9, 5)).astype("u1")
    turned = nibabel.affines.from_matvec(np.array([[0, 0, 3.0], [-2, 0, 0], [0, 2, 0]]), [1, 2, 3])
    nifti(tmp_path / "whole.nii", values, turned)
    content = bytearray((tmp_path / "whole.nii").read_bytes())
    content[252:256] = np.array([1, 1], "<i2").tobytes()
    content[280:328] = np.full(12, broken, "<f4").tobytes()
    (tmp_path / "zero.nii").write_bytes(content)
    assert hashes(one(tmp_path / "zero.nii")) == hashes(one(tmp_path / "whole.nii"))


def colour_slices(rgb):
    """rgb: [X, Y, Z, 3], x to the right."""
    return [sha256(np.ascontiguousarray(np.rot90(rgb[:, :, z]))) for z in range(rgb.shape[2])]


@pytest.mark.parametrize("shape, intent", [((7, 5, 4, 3), 2003), ((6, 8, 3, 4), 2004), ((7, 5, 4, 1, 3), 0), ((5, 5, 3, 1, 3), 2003)])
def test_colour_of_a_volume_is_one_frame_a_slice(tmp_path, shape, intent):
    values = RNG.integers(0, 255, shape).astype("u1")
    nifti(tmp_path / "a.nii.gz", values, np.diag([2.0, 2, 3, 1]), lambda header: header.__setitem__("intent_code", intent))
    assert hashes(one(tmp_path / "a.nii.gz")) == colour_slices(values.reshape(*shape[:3], -1)[..., :3])


@needs_cases
@pytest.mark.parametrize("name", ["23_imagej_one_directory/cut.tif", "23_imagej_one_directory/whole.tif"])
def test_case_of_an_imagej_stack(name):
    expected = json.loads((CASES / "expected.json").read_text())["23"]
    exam = one(CASES / name)
    assert hashes(exam) == [grey(page) for page in tifffile.imread(CASES / name)]
    assert times(exam) == expected["times_from_finterval"]


@needs_cases
@pytest.mark.parametrize("name", ["a.ome.tif", "imagej.tif"])
def test_case_of_channels_in_pages(name):
    expected = json.loads((CASES / "expected.json").read_text())["24"]
    stack = tifffile.imread(CASES / "24_channels_in_pages" / name)
    for i, (found, pixels) in enumerate(channels_of(CASES / "24_channels_in_pages" / name).values()):
        assert found == expected["times_s"] and pixels == [grey(page) for page in stack[:, i]]


@needs_cases
def test_case_of_an_sform_of_zeros():
    folder = CASES / "25_sform_of_zeros"
    assert hashes(one(folder / "zero.nii")) == hashes(one(folder / "whole.nii.gz"))


def ffmpeg(path, *words, source="testsrc2=s=96x64:r=25:d=4"):
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, *map(str, words), str(path)], check=True)
    return path


def packets(path):
    """(offset, size, whether it is a key frame) of each."""
    rows = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=pos,size,flags", "-of",
                           "csv=p=0", path], capture_output=True, text=True, check=True).stdout.split()
    return [(int(row.split(",")[1]), int(row.split(",")[0]), "K" in row.split(",")[2]) for row in rows]


def damage(path, packet, within=True):
    """Of a packet, or behind its first quarter. Returns how many frames it takes along: up to the next key frame."""
    found = packets(path)
    at, size, _ = found[packet]
    content = bytearray(path.read_bytes())
    begin, end = (size // 4, size - 2) if within else (0, size)
    content[at + begin:at + end] = np.random.default_rng(packet).bytes(end - begin)
    path.write_bytes(content)
    return next((i for i in range(packet + 1, len(found)) if found[i][2]), len(found)) - packet


@pytest.mark.parametrize("name, words, packet", [
    ("a.mp4", ["-c:v", "libx264", "-bf", "0", "-g", "12"], 30), ("a.mkv", ["-c:v", "libx264", "-bf", "0", "-g", "10"], 50),
    ("a.avi", ["-c:v", "mpeg4", "-g", "10"], 33), ("b.mov", ["-c:v", "mjpeg", "-q:v", "2"], 17), ("c.mkv", ["-c:v", "ffv1"], 40),
    ("d.mp4", ["-c:v", "libx264", "-bf", "2", "-g", "20"], 40)])
def test_frames_behind_a_damaged_packet_are_read(tmp_path, name, words, packet):
    path = ffmpeg(tmp_path / name, *words)
    whole = one(path)["slots"]
    lost = damage(path, packet)
    slots = one(path)["slots"]
    assert len(slots) == len(whole) and times({"slots": slots}) == times({"slots": whole})
    gone = [slot["index"] for slot in slots if not slot["present"]]
    if gone or words[1] not in ("mjpeg", "ffv1"):  # what a decoder takes for whole is not noticed
        assert 1 <= len(gone) <= lost and gone == list(range(gone[0], gone[0] + len(gone))), gone
        assert "to the next key frame" in slots[gone[0]]["fault"]
        assert all(slots[i]["sha256"] == whole[i]["sha256"] for i in range(len(whole)) if i not in gone)


@pytest.mark.parametrize("packet", [10, 11, 22, 29])
@pytest.mark.parametrize("name", ["a.mp4", "a.ts"])
def test_of_a_frame_of_two_fields_each_loss_counts_once(tmp_path, name, packet):
    """Two packets hold a frame of H.264; one of them is damaged."""
    raw, path = tmp_path / "a.h264", tmp_path / name
    raw.write_bytes(h264_fields.stream([30 + 8 * i for i in range(20)]))
    subprocess.run(["ffmpeg", "-v", "fatal", "-y", "-r", "50", "-i", str(raw), "-c", "copy", str(path)], check=True)
    whole = one(path)["slots"]
    assert len(whole) == 20 and len({slot["sha256"] for slot in whole}) == 20
    assert len(packets(path)) == 40 or name == "a.ts"
    damage(path, packet, within=False)
    slots = one(path)["slots"]
    gone = [slot["index"] for slot in slots if not slot["present"]]
    assert len(slots) == 20 and gone and set(range(20)) - set(gone) >= set(range(4)) | set(range(15, 20))
    assert times({"slots": slots})[:4] == times({"slots": whole})[:4]
    assert [slot["sha256"] for slot in slots if slot["present"]] == [whole[i]["sha256"] for i in range(20) if i not in gone]


def test_frames_that_a_damaged_container_hides_are_told(tmp_path):
    """Matroska's reader goes on at the next cluster, and says nothing."""
    path = ffmpeg(tmp_path / "a.mkv", "-c:v", "mjpeg", "-cluster_time_limit", "400", source="testsrc2=s=64x48:r=25:d=4")
    assert len(one(path)["slots"]) == 100 and one(path)["notes"] == []
    damage(path, 52, within=False)
    exam = one(path)
    assert 80 < len(exam["slots"]) < 99 and one(path, "--estimate")["notes"] == exam["notes"]
    assert times(exam)[51] == pytest.approx(51 / 25) and times(exam)[52] > 2.1
    assert "pass between its frames 51 and 52, and 0.040 s between the others" in exam["notes"][0]


def test_a_look_at_a_clip_of_fields_counts_frames(tmp_path):
    raw, path = tmp_path / "a.h264", tmp_path / "a.mkv"
    raw.write_bytes(h264_fields.stream([30 + 8 * i for i in range(20)]))
    subprocess.run(["ffmpeg", "-v", "fatal", "-y", "-r", "50", "-i", str(raw), "-c", "copy", str(path)], check=True)
    exam = one(path, "--estimate")
    assert times(exam) == [slot["time_s"] for slot in one(path)["slots"]]
    for more in ([], ["--decode-all"]):
        assert [slot["index"] for slot in one(path, "--start=0.4", "--end=0.6", *more)["slots"]] == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("name, codec", [("a.ts", "libx264"), ("a.mts", "mpeg2video"), ("a.mpg", "mpeg2video")])
@pytest.mark.parametrize("part", [2, 3])
def test_what_is_read_of_a_damaged_stream_is_whole(tmp_path, name, codec, part):
    more = ["-mpegts_m2ts_mode", "1", "-f", "mpegts"] if name == "a.mts" else []
    path = ffmpeg(tmp_path / name, "-c:v", codec, "-g", "10", "-bf", "2", *more)
    whole = {round(slot["time_s"], 6): slot["sha256"] for slot in one(path)["slots"]}
    content = bytearray(path.read_bytes())
    at = len(content) // part
    content[at:at + 900] = bytes(900)
    path.write_bytes(content)
    slots = one(path)["slots"]
    present = [slot for slot in slots if slot["present"]]
    assert 60 < len(present) < len(slots)
    assert all(slot["sha256"] in whole.values() for slot in present)
    if name != "a.mpg":  # whose packets do not all state a time
        assert all(whole[round(slot["time_s"], 6)] == slot["sha256"] for slot in present)


@pytest.mark.parametrize("name", ["a.mts", "a.m2ts", "a.ts", "a.mpg"])
@pytest.mark.parametrize("cut", [0, 77])
def test_streams_may_begin_within_a_packet(tmp_path, name, cut):
    codec = ["-c:v", "mpeg2video"] if name == "a.mpg" else ["-c:v", "libx264", "-bf", "0", "-g", "5"]
    more = ["-mpegts_m2ts_mode", "1", "-f", "mpegts"] if name in ("a.mts", "a.m2ts") else []
    path = ffmpeg(tmp_path / name, *codec, *more)
    path.write_bytes(path.read_bytes()[cut:])
    frames = subprocess.run(["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v", "-show_entries", "stream=nb_read_frames",
                             "-of", "csv=p=0", path], capture_output=True, text=True, check=True).stdout.split()[0]
    slots = one(path)["slots"]
    assert len(slots) == int(frames.strip(",")) and all(slot["present"] for slot in slots)


def test_a_clip_that_is_cut_off_is_not_short_in_silence(tmp_path):
    path = ffmpeg(tmp_path / "a.mkv", "-c:v", "libx264", "-g", "10")
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
    for options in (["--fps=2"], ["--every=7"]):
        slots = one(path, *options)["slots"]
        assert not slots[-1]["present"] and "how many are lost is not known" in slots[-1]["fault"]
        assert all(slot["present"] for slot in slots[:-1])
    assert all(slot["present"] for slot in one(path, "--fps=2", "--end=1")["slots"])


@pytest.mark.parametrize("words", [["-c:v", "libx264", "-g", "10"], ["-c:v", "mpeg4", "-g", "10"]])
@pytest.mark.parametrize("name", ["a.mp4", "a.ts"])
def test_borders_are_those_of_the_time_stamps(tmp_path, words, name):
    path = ffmpeg(tmp_path / name, *words, "-output_ts_offset", "2.5", source="testsrc2=s=96x64:r=10:d=3")
    for start, end, wanted in [("0.3", "0.7", range(3, 7)), ("0.6", "1.1", range(6, 11)), ("1.2", "1.3", [12]), ("0.31", "0.69", range(4, 7))]:
        for more in ([], ["--decode-all"]):
            assert [slot["index"] for slot in one(path, f"--start={start}", f"--end={end}", *more)["slots"]] == list(wanted)


def test_of_two_streams_of_pictures_the_larger_is_read(tmp_path):
    for order in ("01", "10"):
        path = tmp_path / f"{order}.mkv"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=32x24:d=1", "-f", "lavfi", "-i", "testsrc2=s=160x120:d=1",
                        "-map", f"{order[0]}:v", "-map", f"{order[1]}:v", "-c:v", "ffv1", str(path)], check=True)
        exam = one(path)
        assert {(slot["width"], slot["height"]) for slot in exam["slots"]} == {(160, 120)}
        assert exam["notes"] == ["of 2 streams of pictures the largest is read"]


@pytest.mark.parametrize("stored, aspect, shown", [((80, 112), "7/5", (112, 112)), ((96, 64), "16/15", (102, 64)), ((90, 40), "1/2", (45, 40))])
def test_square_pixels(tmp_path, stored, aspect, shown):
    size = f"{stored[0]}x{stored[1]}"
    path = ffmpeg(tmp_path / "a.mkv", "-vf", f"setsar={aspect}", "-pix_fmt", "gray", "-c:v", "ffv1", source=f"testsrc2=s={size}:d=0.2")
    exam = one(path)
    assert (exam["slots"][0]["width"], exam["slots"][0]["height"]) == stored and "--square-pixels" in exam["notes"][0]
    exam = one(path, "--square-pixels", f"--dump={tmp_path / 'ours'}")
    assert (exam["slots"][0]["width"], exam["slots"][0]["height"]) == shown and exam["notes"] == []
    ours = np.fromfile(tmp_path / "ours", np.uint8).reshape(-1, shown[1], shown[0], 3)
    scaled = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-vf", f"scale={shown[0]}:{shown[1]}:flags=bicubic", "-f", "rawvideo",
                             "-pix_fmt", "gray", "-"], capture_output=True, check=True).stdout
    theirs = np.frombuffer(scaled, np.uint8).reshape(ours.shape[:3])
    assert np.abs(ours.astype(int) - theirs[..., None]).max() <= 2


@pytest.mark.parametrize("pixels, first", [("gray", "tff"), ("gray10le", "bff")])
def test_deinterlacing_keeps_the_first_field(tmp_path, pixels, first):
    words = ["-vf", f"interlace=scan={first},format={pixels}", "-c:v", "ffv1", "-field_order", "tt" if first == "tff" else "bb"]
    path = ffmpeg(tmp_path / "a.mkv", *words, source="testsrc2=s=64x48:r=20:d=0.4")
    wide = pixels != "gray"
    window = ["--window=511.5,1023"] if wide else []
    exam = one(path, *window)
    assert "interlaced" in exam["notes"][0]
    exam = one(path, "--deinterlace", *window, f"--dump={tmp_path / 'ours'}")
    assert exam["notes"] == []
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", pixels, "-"], capture_output=True, check=True)
    stored = np.frombuffer(raw.stdout, "<u2" if wide else "u1").reshape(-1, 48, 64).astype(int)
    wanted = stored.copy()
    for y in range(1 if first == "tff" else 0, 48, 2):
        above, below = max(y - 1, 0) if y else 1, y + 1 if y < 47 else y - 1
        wanted[:, y] = (stored[:, above] + stored[:, below] + 1) // 2
    if wide:
        wanted = np.floor(wanted * 255 / 1023 + 0.5)
    ours = np.fromfile(tmp_path / "ours", np.uint8).reshape(-1, 48, 64, 3)
    assert np.abs(ours[..., 0].astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("pixels, bits", [("gray12le", 12), ("gray16le", 16), ("gray10le", 10), ("gbrp12le", 12), ("rgb48le", 16)])
def test_clips_of_deep_samples_have_a_window(tmp_path, pixels, bits):
    channels = 1 if pixels.startswith("gray") else 3
    values = RNG.integers(0, 1 << (bits - 2), (4, 20, 30, channels)).astype("<u2")
    stored = np.moveaxis(values[..., [1, 2, 0]], -1, 1) if pixels.startswith("gbrp") else values
    path = tmp_path / "a.mkv"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", pixels, "-s", "30x20", "-r", "5", "-i", "-", "-c:v",
                    "ffv1" if pixels != "rgb48le" else "png", str(path)], input=np.ascontiguousarray(stored).tobytes(), check=True)

    def level(low, high):
        return [sha256(np.broadcast_to(np.clip(np.floor((frame - low) * 255.0 / (high - low) + 0.5), 0, 255), (20, 30, 3)).astype(np.uint8))
                for frame in values.astype(float)]
    width = 1 << (bits - 2)
    assert hashes(one(path, f"--window={width // 2},{width}")) == level(0, width)
    assert hashes(one(path, "--window=0%,100%")) == level(values.min(), values.max())


def boxes(brand, *compatible):
    body = b"".join(brand.encode().ljust(4)[:4] for brand in (brand, "\0\0\0\0", *compatible))
    return (8 + len(body)).to_bytes(4, "big") + b"ftyp" + body + bytes(64)


def test_kinds_that_are_not_read_are_called_by_their_names(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png")
    for i in range(3):
        (tmp_path / f"IMG_{i}.HEIC").write_bytes(boxes("heic", "mif1"))
    (tmp_path / "b.heif").write_bytes(boxes("mif1", "avif"))
    nibabel.save(nibabel.AnalyzeImage(np.zeros((4, 4, 4), "u1"), np.eye(4)), tmp_path / "old.hdr")
    done = run(tmp_path)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1
    assert "passed over 3 HEIC images, which are not read, 'IMG_0.HEIC' first: convert to JPEG or PNG" in done.stderr
    assert "passed over 1 AVIF images" in done.stderr and "passed over 1 ANALYZE 7.5 volumes" in done.stderr
    assert done.stderr.count("passed over") == 3, done.stderr
    for name, said in [("IMG_0.HEIC", "a HEIC image"), ("b.heif", "an AVIF image"), ("old.hdr", "an ANALYZE 7.5 volume")]:
        done = run(tmp_path / name)
        assert done.returncode == 3 and f"is {said}, which is not read; " in done.stderr, done.stderr


def test_a_list_of_clips_as_echonet_has_it_is_read(tmp_path):
    (tmp_path / "Videos").mkdir()
    for name in ("0X10A", "0X11B"):
        ffmpeg(tmp_path / f"Videos/{name}.avi", "-c:v", "mjpeg", source="testsrc2=s=32x24:r=5:d=1")
    text = "FileName,EF,NumberOfFrames,Split\n0X10A,55.1,5,TRAIN\n0X11B,30.2,5,VAL\n"
    (tmp_path / "FileList.csv").write_text(text)
    done = run(tmp_path / "FileList.csv")
    assert done.returncode == 3 and f"--root {tmp_path / 'Videos'} says where they lie" in done.stderr, done.stderr
    (tmp_path / "Videos/FileList.csv").write_text(text)
    exams = read(tmp_path / "Videos/FileList.csv")
    assert list(exams) == ["0X10A", "0X11B"]
    assert exams["0X10A"]["columns"] == {"EF": "55.1", "NumberOfFrames": "5", "split": "TRAIN"} and len(exams["0X11B"]["slots"]) == 5


@needs_cases
def test_case_of_damage_in_the_middle():
    folder = CASES / "17_damage_in_the_middle"
    whole, slots = (one(folder / f"{name}.mp4")["slots"] for name in ("whole", "damaged"))
    assert [slot["index"] for slot in slots if not slot["present"]] == [40, 41, 42, 43]
    assert all(a["sha256"] == b["sha256"] and a["time_s"] == b["time_s"] for a, b in zip(whole, slots, strict=True) if b["present"])


@needs_cases
@pytest.mark.parametrize("name", ["ffv1_gray12.mkv", "ffv1_gray16.mkv"])
def test_case_of_twelve_bits(name):
    folder = CASES / "19_sixteen_bits"
    (images,) = read(folder / "png", 0, ["--window=2048,4096"]).values()
    assert hashes(one(folder / name, "--window=2048,4096")) == hashes(images)


@needs_cases
def test_case_of_pixels_that_are_not_square():
    path = CASES / "21_sample_aspect/anamorphic.mp4"
    assert "pixels are not square" in one(path)["notes"][0]
    slot = one(path, "--square-pixels")["slots"][0]
    assert (slot["width"], slot["height"]) == (224, 224)
