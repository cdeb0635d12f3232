"""Clips against OpenCV's own Python reader, on the real ones where they are, and damaged ones."""

import json
import shutil
import subprocess

import cv2
import numpy as np
import pytest
from PIL import Image

from frames_helper import BUILD, SHARED, kept_frames, read, write_manifest

POCUS = SHARED / "data/pocus"


def make_clip(path, frames=20, codec="mpeg4", rate=10, noise=0):
    """Grey level 10·i in frame i, up to `noise` more."""
    rng = np.random.default_rng(1)
    video = subprocess.Popen(
        ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "64x48", "-r",
         str(rate), "-i", "-", "-c:v", codec, "-g", "5", str(path)], stdin=subprocess.PIPE)
    for i in range(frames):
        frame = 10 * i + rng.integers(0, noise + 1, (48, 64, 3))
        video.stdin.write(frame.astype(np.uint8).tobytes())
    video.stdin.close()
    assert video.wait() == 0
    return path


def frames_of(path):
    """(time, RGB pixels) of every frame, as our reader gives them."""
    driver = subprocess.Popen([BUILD / "tests/pixels_driver", str(path)], stdout=subprocess.PIPE)
    while line := driver.stdout.readline():
        _, time, width, height = line.split()
        size = (int(height), int(width), 3)
        yield float(time), np.frombuffer(driver.stdout.read(np.prod(size)), np.uint8).reshape(size)
    assert driver.wait() == 0


def probed_times(path):
    """ffprobe's best-effort time stamp of every frame, NaN where it has none."""
    probe = subprocess.run(
        ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries",
         "frame=best_effort_timestamp_time", "-of", "json", str(path)],
        capture_output=True, text=True, check=True)
    stamps = [frame.get("best_effort_timestamp_time", "nan")
              for frame in json.loads(probe.stdout)["frames"]]
    return np.array(stamps, dtype=float)


def opencv_frames(path):
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    while (read := capture.read())[0]:
        yield np.ascontiguousarray(read[1][..., ::-1])


def times_and_difference(path, others):
    """Our times, and the largest difference of a pixel from another reader's, which must read as
    many frames."""
    levels, times = 0, []
    for (time, ours), theirs in zip(frames_of(path), others, strict=True):
        times.append(time)
        levels = max(levels, int(cv2.absdiff(theirs, np.asarray(ours)).max()))
    return times, levels


def difference(path, others):
    return times_and_difference(path, others)[1]


def compare_clip(path):
    """Frames, the largest difference of a pixel from OpenCV's and of a time from ffprobe's."""
    times, levels = times_and_difference(path, opencv_frames(path))
    probed = probed_times(path)
    assert len(probed) == len(times)
    # ffprobe knows no time of the frames that the decoder holds at an MPEG stream's end.
    known = ~np.isnan(probed)
    seconds = np.abs(np.array(times) - (probed - probed[0]))[known].max()
    return {"frames": len(times), "levels": levels, "seconds": seconds, "timed": int(known.sum())}


def check_clips(paths):
    print(f"\n{'clip':48} frames levels  seconds  timed by ffprobe")
    for path in paths:
        found = compare_clip(path)
        print(f"{path.name:48} {found['frames']:6} {found['levels']:6} {found['seconds']:8.6f}"
              f" {found['timed']:8}")
        assert found["levels"] <= 1, path
        assert found["seconds"] < 0.001, path
        assert found["frames"] - found["timed"] <= 1, path


def real_clips():
    rows = (POCUS / "exams.csv").read_text().splitlines()[1:]
    return [POCUS / row.split(",")[1] for row in rows]


@pytest.mark.skipif(not POCUS.exists(), reason="needs ../shared/data/pocus")
def test_every_real_clip_is_readable():
    exams = read(POCUS / "exams.csv", 2)
    assert len(exams) == 130
    assert not [exam for exam in exams.values() if "error" in exam]


@pytest.mark.skipif(not POCUS.exists(), reason="needs ../shared/data/pocus")
def test_real_clips_have_opencvs_pixels_and_ffprobes_times():
    """A spread of them; tests/soak/clips takes them all."""
    small = sorted(real_clips(), key=lambda path: (path.suffix, path.stat().st_size))
    check_clips(small[5::20])


@pytest.mark.parametrize("tags", [
    ["-colorspace", "bt709", "-color_range", "tv"], ["-colorspace", "smpte170m"],
    ["-color_range", "pc"], []])
@pytest.mark.parametrize("size", ["64x48", "64x49"])
def test_colours_follow_what_the_stream_states(tmp_path, tags, size):
    path = tmp_path / "a.mkv"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc=s={size}:d=0.2",
                    "-pix_fmt", "yuv420p", *tags, "-c:v", "ffv1", str(path)], check=True)
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    width, height = map(int, size.split("x"))
    for _, ours in frames_of(path):
        theirs = capture.read()[1][..., ::-1].astype(int)
        assert ours.shape == (height, width, 3)
        assert np.abs(ours.astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("codec, pixels", [
    ("mpeg4", "yuv420p"), ("mpeg2video", "yuv422p"), ("mjpeg", "yuvj420p"), ("ffv1", "yuv420p"),
    ("libx264", "yuv444p"), ("libx264rgb", "rgb24")])
def test_chroma_lies_where_the_codec_has_it(tmp_path, codec, pixels):
    """Odd sizes interpolate chroma: MPEG-4's lies on the left pixel of two, JPEG's between them."""
    path = tmp_path / "a.mkv"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=65x49:d=0.2:r=25",
                    "-c:v", codec, "-pix_fmt", pixels, str(path)], check=True)
    assert difference(path, opencv_frames(path)) <= 1


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_clips_are_turned_as_players_show_them(tmp_path, degrees):
    upright, turned = tmp_path / "a.mp4", tmp_path / "b.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:d=0.2",
                    "-pix_fmt", "yuv420p", str(upright)], check=True)
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(upright), "-c", "copy",
                    "-metadata:s:v:0", f"rotate={degrees}", str(turned)], check=True)
    capture = cv2.VideoCapture(str(turned), cv2.CAP_FFMPEG)
    for (_, plain), (_, ours) in zip(frames_of(upright), frames_of(turned), strict=True):
        assert any(np.array_equal(ours, np.rot90(plain, turns))
                   for turns in (degrees // 90, -degrees // 90))
        assert cv2.absdiff(ours, np.ascontiguousarray(capture.read()[1][..., ::-1])).max() <= 1


def test_times_of_a_variable_frame_rate(tmp_path):
    clip = tmp_path / "a.mkv"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:d=1:r=20",
                    "-vf", "select='not(mod(n,3))+not(mod(n,7))'", "-vsync", "vfr", str(clip)],
                   check=True)
    times = [time for time, _ in frames_of(clip)]
    wanted = [n / 20 for n in range(20) if n % 3 == 0 or n % 7 == 0]
    assert times == pytest.approx(wanted, abs=0.001)
    assert times == pytest.approx(list(probed_times(clip)), abs=0.001)


@pytest.mark.parametrize("name", ["a.mp4", "a.mov", "a.avi", "a.mpg", "a.mkv", "a.gif"])
def test_frames_and_times_of_each_container(tmp_path, name):
    codec = {"a.mpg": "mpeg1video", "a.gif": "gif"}.get(name, "mpeg4")
    rate = 25 if name == "a.mpg" else 10  # MPEG-1 knows few rates
    exam = read(make_clip(tmp_path / name, codec=codec, rate=rate))["a"]
    assert exam["kind"] == "video"
    assert [slot["index"] for slot in exam["slots"]] == list(range(20))
    times = [slot["time_s"] for slot in exam["slots"]]
    assert times == pytest.approx([i / rate for i in range(20)], abs=0.002)
    assert {(slot["width"], slot["height"]) for slot in exam["slots"]} == {(64, 48)}


def test_a_selection_takes_the_same_pixels_as_reading_everything(tmp_path):
    clip = make_clip(tmp_path / "a.mp4")
    everything = [slot["sha256"] for slot in read(clip)["a"]["slots"]]
    assert len(set(everything)) == 20
    some = read(clip, 5)["a"]["slots"]
    assert [slot["index"] for slot in some] == [0, 5, 10, 14, 19]
    assert [slot["sha256"] for slot in some] == [everything[i] for i in (0, 5, 10, 14, 19)]


def test_an_exam_of_many_clips_takes_the_memory_and_the_open_files_of_few(tmp_path):
    """Decoded, the 40 clips are 280 MB."""
    clip = tmp_path / "0.avi"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=320x240:r=30:d=2",
                    "-c:v", "mpeg4", str(clip)], check=True)
    for i in range(1, 40):
        (tmp_path / f"{i}.avi").hardlink_to(clip)
    manifest = write_manifest(tmp_path, [{"exam": "e", "path": f"{i}.avi"} for i in range(40)])
    done = subprocess.run(["bash", "-c", 'ulimit -n 24; exec "$@"', "-", BUILD / "tests/frames_driver",
                           manifest, "80", "--peak"], capture_output=True, text=True, timeout=300)
    exam = json.loads(done.stdout)
    assert "error" not in exam, exam["error"]
    assert int(done.stderr) < 245_000_000
    # Those of the first clips were kept from counting, those of the others are decoded once more.
    first, last = (slot["sha256"] for slot in (exam["slots"][0], exam["slots"][-1]))
    slots = read(clip)["0"]["slots"]
    assert (first, last) == (slots[0]["sha256"], slots[-1]["sha256"])


def test_ranges_and_times_of_a_manifest(tmp_path):
    make_clip(tmp_path / "a.mp4")
    rows = [{"exam": "range", "path": "a.mp4", "frame": "3-6", "time": ""},
            {"exam": "single", "path": "a.mp4", "frame": "7", "time": ""},
            {"exam": "stated", "path": "a.mp4", "frame": "4-5", "time": "100"},
            {"exam": "stated", "path": "a.mp4", "frame": "8", "time": "103.5"},
            {"exam": "beyond", "path": "a.mp4", "frame": "3-20", "time": ""},
            {"exam": "absent", "path": "b.mp4", "frame": "", "time": ""}]
    exams = read(write_manifest(tmp_path, rows))
    slots = {name: [(slot["index"], slot["time_s"]) for slot in exam.get("slots", [])]
             for name, exam in exams.items()}
    assert slots["range"] == [(3, 0.0), (4, pytest.approx(0.1)), (5, pytest.approx(0.2)),
                              (6, pytest.approx(0.3))]
    assert slots["single"] == [(7, 0.0)]
    assert slots["stated"] == [(4, 0.0), (5, pytest.approx(0.1)), (8, 3.5)]
    assert [slot["present"] for slot in exams["beyond"]["slots"]] == [True] * 17 + [False]
    assert "has 20 frames; frame 20 was asked for" in exams["beyond"]["slots"][-1]["fault"]
    assert "b.mp4" in exams["absent"]["error"]


def test_of_truncated_clips_whole_frames_are_kept(tmp_path):
    rows, kept = [], {}
    for name, codec in (("a.avi", "mpeg4"), ("a.mp4", "mpeg4"), ("a.mov", "mpeg4"), ("a.gif", "gif"),
                        ("a.mkv", "mpeg4")):
        whole = make_clip(tmp_path / name, codec=codec, rate=25, noise=60).read_bytes()
        rows.append({"exam": f"whole_{name}", "path": name})
        for part in (0, 1, 12, 40, len(whole) // 4, len(whole) // 2, len(whole) - 1):
            cut = f"{part}_{name}"
            (tmp_path / cut).write_bytes(whole[:part])
            rows.append({"exam": cut, "path": cut})
    exams = read(write_manifest(tmp_path, rows))
    for name, exam in exams.items():
        part, clip = name.split("_")
        whole = exams[f"whole_{clip}"]["slots"]
        assert len(whole) == 20
        if part == "whole":
            continue
        kept[name] = kept_frames(exam, whole)
        fault = exam["slots"][-1]["fault"] if kept[name] else exam["error"]
        assert name in fault, name
        if int(part) > 40:
            assert "truncated" in fault, fault
        if kept[name]:
            assert f"{kept[name]} frames before that can be read, how many are lost is not known" in fault
            assert len(exam["slots"]) == kept[name] + 1
    # An MP4's directory is its end.
    halves = {name.split("_")[1]: count for name, count in kept.items() if 1000 < int(name.split("_")[0])}
    assert halves["a.avi"] >= 18 and halves["a.mkv"] >= 18 and halves["a.gif"] >= 18, kept


def test_an_mpeg_stream_states_no_length_and_gives_what_it_holds(tmp_path):
    whole = make_clip(tmp_path / "a.mpg", codec="mpeg1video", rate=25, noise=60).read_bytes()
    rows = []
    for part in (0, 1, 12, 40, len(whole) // 2, len(whole) - 1):
        (tmp_path / f"{part}_a.mpg").write_bytes(whole[:part])
        rows.append({"exam": str(part), "path": f"{part}_a.mpg"})
    for exam in read(write_manifest(tmp_path, rows)).values():
        assert "error" in exam or 1 <= len(exam["slots"]) <= 20


def test_decoders_do_not_chatter_about_damaged_clips(tmp_path):
    from frames_helper import run
    whole = bytearray(make_clip(tmp_path / "a.avi").read_bytes())
    whole[len(whole) // 2:len(whole) // 2 + 200] = bytes(200)
    (tmp_path / "a.avi").write_bytes(whole)
    assert run(tmp_path / "a.avi").stderr == ""


def test_a_folder_mixes_image_exams_and_clips(tmp_path):
    for name in ("p2/b/frame10.png", "p2/b/frame9.png", "p10/x.png", "loose.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4)).save(tmp_path / name)
    make_clip(tmp_path / "clip.mp4")
    shutil.copy(tmp_path / "clip.mp4", tmp_path / "p2/same.mp4")
    shutil.copy(tmp_path / "clip.mp4", tmp_path / "p2/same.mov")
    (tmp_path / "notes.txt").write_text("hello")
    exams = read(tmp_path, 3)
    assert list(exams) == sorted([tmp_path.name, "clip", "p2/b", "p2/same.mov", "p2/same.mp4",
                                  "p10"], key=list(exams).index)
    assert set(exams) == {tmp_path.name, "clip", "p2/b", "p2/same.mov", "p2/same.mp4", "p10"}
    assert list(exams).index("p2/b") < list(exams).index("p10")
    assert exams["p2/b"]["kind"] == "images" and exams["p10"]["kind"] == "image"
    assert len(exams["clip"]["slots"]) == 3
