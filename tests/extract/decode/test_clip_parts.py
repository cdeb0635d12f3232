"""--start and --end seek within clips: the same frames and times as decoding all."""

import shutil
import subprocess

import pytest

from frames_helper import read, write_manifest


def made_by_ffmpeg(path, *words):
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=96x64:r=25:d=6", *words, str(path)],
                   check=True)
    return path


OPEN_GOP = ["-c:v", "libx264", "-bf", "3", "-g", "20", "-x264-params", "open-gop=1:scenecut=0"]
# Name, ffmpeg's words, and whether frames outside a part need not be decoded.
PARTS = {
    "b-frames.mp4": (["-c:v", "libx264", "-bf", "3", "-g", "20"], True),
    "open-gop.mp4": (OPEN_GOP, True),
    "open-gop.mkv": (OPEN_GOP, True),
    "hevc.mp4": (["-c:v", "libx265", "-x265-params", "keyint=20:bframes=3:open-gop=1:log-level=none"], True),
    "intra-refresh.mp4": (["-c:v", "libx264", "-g", "30", "-x264-params", "intra-refresh=1"], False),
    "uneven.mkv": (["-c:v", "libx264", "-g", "15", "-vf", "select='gt(mod(n,7),2)'", "-vsync", "vfr"], True),
    "intra.mov": (["-c:v", "mjpeg"], True),
    "late.mp4": (["-c:v", "libx264", "-g", "20", "-output_ts_offset", "2.5"], True),
    "xvid.avi": (["-c:v", "mpeg4", "-bf", "2", "-g", "20"], False),
    "packed.mp4": (["-c:v", "mpeg4", "-bf", "2", "-g", "20"], False),
    "stream.ts": (["-c:v", "libx264", "-g", "20"], False),
    "program.mpg": (["-c:v", "mpeg2video", "-bf", "2", "-g", "20"], False),
    "vp9.webm": (["-c:v", "libvpx-vp9", "-g", "20", "-deadline", "realtime"], False),
    "animation.gif": (["-vf", "fps=10"], False),
}


def parts_of(path, start, end, *words):
    options = [f"--start={start}", *([f"--end={end}"] if end else []), *words]
    (exam,) = read(path, 0, options).values()
    return exam


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_clips_are_those_of_the_whole(tmp_path, name):
    path = made_by_ffmpeg(tmp_path / name, *PARTS[name][0])
    for start, end in [(0, 0.5), (1, 1.9), (1.7, 1.75), (2.02, 4), (3.99, None), (5.5, 60)]:
        part, whole = parts_of(path, start, end), parts_of(path, start, end, "--decode-all")
        assert part == whole and ("error" in whole or whole["slots"]), (start, end)


def flip_in_first_tenth(path):
    """Damages pictures that lie long before the parts that are asked for."""
    packets = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=pos,size", "-of", "csv=p=0",
                              path], capture_output=True, text=True, check=True).stdout.split()
    size, at = map(int, packets[12].strip(",").split(","))
    content = bytearray(path.read_bytes())
    for i in range(at + size // 3, at + size - 2):
        content[i] ^= 0x5A
    path.write_bytes(content)


@pytest.mark.parametrize("name", [name for name, (_, in_parts) in PARTS.items() if in_parts])
def test_what_lies_before_a_part_is_not_decoded(tmp_path, name):
    path = made_by_ffmpeg(tmp_path / name, *PARTS[name][0])
    whole = parts_of(path, 4, 5)
    flip_in_first_tenth(path)
    assert parts_of(path, 4, 5)["slots"] == whole["slots"]


def test_a_file_without_an_index_is_read_whole(tmp_path):
    path = made_by_ffmpeg(tmp_path / "a.mkv", "-c:v", "libx264", "-g", "20", "-f", "matroska", "-live", "1")
    assert parts_of(path, 3, 4) == parts_of(path, 3, 4, "--decode-all")


def test_a_clip_that_is_cut_off_is_read_whole(tmp_path):
    path = made_by_ffmpeg(tmp_path / "a.mkv", "-c:v", "libx264", "-g", "20")
    path.write_bytes(path.read_bytes()[:-3000])
    part, whole = parts_of(path, 1, 2), parts_of(path, 1, 2, "--decode-all")
    assert part == whole and all(slot["present"] for slot in part["slots"])


def test_parts_of_rows_and_of_several_clips_are_those_of_the_whole(tmp_path):
    made_by_ffmpeg(tmp_path / "a.mp4", *PARTS["b-frames.mp4"][0])
    shutil.copy(tmp_path / "a.mp4", tmp_path / "b.mp4")
    rows = [("range", "a.mp4", "20-99", ""), ("two", "a.mp4", "", "0"), ("two", "b.mp4", "", "10")]
    manifest = write_manifest(tmp_path, [dict(zip(("exam", "path", "frame", "time"), row)) for row in rows])
    options = ["--start=1", "--end=2"]
    found = read(manifest, 0, [*options, "--decode-all"])
    assert read(manifest, 0, options) == found and all("slots" in exam for exam in found.values()), found
