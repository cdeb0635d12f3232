"""`coldframe extract --clip` as a user runs it: a module whose features are the grey levels of the frames that it is given
tells which frames each row saw; then resuming, lost frames, views, parts, and bad options."""

import json
import subprocess

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

import loaded_program

PIXELS = ["--std", "1", "--image-size", "16", "--device", "cpu", "--store", "float32", "--precision", "fp32"]
BLACK_TO_WHITE = ["--mean", "0", *PIXELS]
WINDOW_COLUMNS = ("window_first", "window_last", "window_padded")


def coldframe(*arguments, expect=0):
    done = loaded_program.coldframe(*arguments)
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done


class Levels(torch.nn.Module):
    """[B, 3, T, H, W] -> [B, T]: the mean of each frame."""

    def forward(self, x):
        return x.mean(dim=[1, 3, 4])


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    path = tmp_path_factory.mktemp("levels") / "levels.pt"
    torch.jit.script(Levels()).save(str(path))
    return path


def make_exams(folder, frames=(30, 9, 4), streams=False, uneven=False):
    """Exams of frames of one grey level each, 1 + their number; returns the manifest."""
    rng = np.random.default_rng(3)
    rows = ["exam,path,time,patient,label,stream"]
    for exam, count in enumerate(frames):
        steps = rng.choice([0.1, 0.35], count) if uneven else np.full(count, 0.1)
        for frame, time in enumerate(np.cumsum(steps) - steps[0]):
            name = f"e{exam}/{frame}.png"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((20, 24), 1 + frame, np.uint8)).save(folder / name)
            rows.append(f"e{exam},{name},{time:.3f},p{exam},{exam % 2},{'AB'[frame % 2] if streams else 'A'}")
    (folder / "x.csv").write_text("\n".join(rows) + "\n")
    return folder / "x.csv"


def extract(manifest, out, module, *words, expect=0):
    mean = [] if "--mean" in words else ["--mean", "0"]
    done = coldframe("extract", "--input", manifest, "--backbone", module, "--clip-axes", "bcthw", *mean, *PIXELS, "--out", out,
                     "--json", *words, expect=expect)
    return json.loads(done.stdout) if done.stdout else done.stderr


def rows_of(cache):
    """{exam: rows}, of each row what the cache says and the levels that it saw."""
    found = {}
    with h5py.File(cache) as file:
        columns = {name: file[f"frames/columns/{name}"].asstr()[:] for name in file["frames/columns"]}
        offsets = file["exams/offset"][:]
        for number, exam in enumerate(file["exams/id"].asstr()[:]):
            found[exam] = [{"time": file["frames/time_s"][i], "present": bool(file["frames/present"][i]),
                            "index": file["frames/index"][i], "source": file["frames/source"].asstr()[i],
                            "levels": np.round(file["features/clean"][i] * 255, 3),
                            **{name: values[i] for name, values in columns.items()}}
                           for i in range(offsets[number], offsets[number + 1])]
    return found


def starts(rows, every=1):
    """(first, last) of the rows; each saw just the frames that it says."""
    for row in rows:
        if not row["present"]:
            continue
        first, last, padded = (int(row[name]) for name in WINDOW_COLUMNS)
        seen = np.arange(first, last + 1, every)
        assert np.array_equal(row["levels"][:len(seen)], 1 + seen) and padded == len(row["levels"]) - len(seen), row
        assert row["source"].endswith(f"/{seen[(len(seen) - 1) // 2]}.png") and row["index"] == 0
    return [(int(row["window_first"]), int(row["window_last"])) for row in rows]


def test_rows_saw_what_they_say(tmp_path, levels):
    manifest = make_exams(tmp_path)
    summary = extract(manifest, tmp_path / "x.h5", levels, "--clip", 4, "--clip-every", 2, "--clip-step", 5)
    rows = rows_of(tmp_path / "x.h5")
    assert starts(rows["e0"], 2) == [(0, 6), (5, 11), (10, 16), (15, 21), (20, 26)]
    assert starts(rows["e1"], 2) == [(0, 6)] and starts(rows["e2"], 2) == [(0, 2)]
    assert np.allclose([row["time"] for row in rows["e0"]], [0.3, 0.8, 1.3, 1.8, 2.3]) and rows["e2"][0]["time"] == 0.1
    assert np.array_equal(rows["e2"][0]["levels"], [1, 3, 3, 3])  # repeat-last
    assert (summary["extracted"], summary["clip_frames"], summary["dimension"]) == ({"exams": 3, "frames": 7}, 4, 4)
    with h5py.File(tmp_path / "x.h5") as file:
        recipe = json.loads(file.attrs["recipe"])
    assert recipe["features"]["clip"] == {"frames": 4, "every": 2, "pad": "repeat-last"}
    assert recipe["storage"]["clip"] == {"step": 5} and recipe["features"]["backbone"]["axes"] == "bcthw"


def test_images_are_windows_of_one_frame(tmp_path, levels):
    """The same features, rows and recipe with and without --clip 1."""
    manifest = make_exams(tmp_path)
    torch.jit.trace(torch.nn.Flatten(), torch.zeros(2, 3, 16, 16)).save(str(tmp_path / "flat.pt"))
    for name, words in {"without": [], "with": ["--clip", "1"]}.items():
        coldframe("extract", "--input", manifest, "--backbone", tmp_path / "flat.pt", *BLACK_TO_WHITE, "--out", tmp_path / f"{name}.h5", *words)
    assert coldframe("cache", "diff", tmp_path / "without.h5", tmp_path / "with.h5").returncode == 0


@pytest.mark.parametrize("pad, expected", [("repeat-last", [1, 2, 3, 4, 4, 4]), ("zero", [1, 2, 3, 4, 127.5, 127.5]),
                                           ("wrap", [1, 2, 3, 4, 1, 2])])
def test_trap_too_short_exams(tmp_path, levels, pad, expected):
    """Zeros are those of normalised pixels: with a mean of 0.5 the grey between black and white."""
    manifest = make_exams(tmp_path, frames=(4, 12))
    words = ["--clip", 6, "--clip-every", 1, "--clip-pad", pad, "--mean", 0.5]
    extract(manifest, tmp_path / "x.h5", levels, *words)
    rows = rows_of(tmp_path / "x.h5")
    assert np.allclose(rows["e0"][0]["levels"] + 127.5, expected) and rows["e0"][0]["window_padded"] == "2"
    assert [row["window_padded"] for row in rows["e1"]] == ["0", "0"]
    with h5py.File(tmp_path / "x.h5") as file:
        assert json.loads(file.attrs["recipe"])["features"]["clip"]["pad"] == pad


def test_trap_refused_when_too_short(tmp_path, levels):
    summary = extract(make_exams(tmp_path), tmp_path / "x.h5", levels, "--clip", 8, "--clip-every", 1, "--clip-pad", "refuse",
                      expect=1)
    assert set(rows_of(tmp_path / "x.h5")) == {"e0", "e1"}
    (failure,) = summary["failures"]
    assert failure["exam"] == "e2" and "no part of its 4 frames is long enough for a window of 8 frames" in failure["reason"]


def test_lost_and_missing_frames_cost_their_windows_alone(tmp_path, levels):
    manifest = make_exams(tmp_path, frames=(20, 9))
    (tmp_path / "e0/9.png").write_bytes(b"")
    manifest.write_text(manifest.read_text().replace("e1/3.png", ""))
    command = (manifest, tmp_path / "x.h5", levels, "--clip", 4, "--clip-every", 1, "--clip-step", 2)
    summary = extract(*command, expect=1)
    rows = rows_of(tmp_path / "x.h5")
    lost = [starts([row])[0] for row in rows["e0"] if not row["present"]]
    assert lost == [(6, 9), (8, 11)] and len(rows["e0"]) == 9
    assert [row["present"] for row in rows["e1"]] == [False, False, True]
    (failure,) = summary["lost"]
    assert failure["exam"] == "e0" and failure["source"] == "e0/9.png" and failure["frames"] == 2
    assert "9.png' is empty" in failure["reason"]
    before = (tmp_path / "x.h5").read_bytes()
    assert extract(*command, expect=1)["unchanged"] == 2 and (tmp_path / "x.h5").read_bytes() == before
    text = coldframe("extract", "--input", manifest, "--backbone", levels, "--clip-axes", "bcthw", *BLACK_TO_WHITE, "--out",
                     tmp_path / "x.h5", *command[3:], expect=1).stdout
    assert "masked     2 windows of 1 exam that cannot be read" in text and "2 exams, 12 windows, 4 features" in text
    Image.fromarray(np.full((20, 24), 10, np.uint8)).save(tmp_path / "e0/9.png")
    assert extract(*command)["extracted"]["exams"] == 1
    assert all(row["present"] for row in rows_of(tmp_path / "x.h5")["e0"])
    coldframe("cache", "verify", tmp_path / "x.h5")


@pytest.mark.parametrize("frames, expect", [(1, 0), (3, 1)])
def test_min_frames_counts_windows(tmp_path, levels, frames, expect):
    extract(make_exams(tmp_path, frames=(8, 12)), tmp_path / "x.h5", levels, "--clip", 4, "--clip-every", 1, "--min-frames",
            frames, expect=expect)


def test_streams_gaps_and_windows_spread_evenly(tmp_path, levels):
    manifest = make_exams(tmp_path, frames=(40,), streams=True)
    streams = ["--frame-columns", "stream", "--clip", 4, "--clip-every", 2]
    extract(manifest, tmp_path / "x.h5", levels, *streams, "--clips", 3)
    rows = rows_of(tmp_path / "x.h5")["e0"]
    for stream, parity in {"A": 0, "B": 1}.items():
        own = [row for row in rows if row["stream"] == stream]
        assert len(own) == 3 and all(int(row["window_first"]) % 2 == parity for row in own)
        for row in own:
            assert np.array_equal(row["levels"], 1 + int(row["window_first"]) + 4 * np.arange(4))
    assert [row["stream"] for row in rows] == ["A", "B"] * 3
    times = np.arange(40) * 0.1 + 5 * (np.arange(40) >= 17)
    lines = manifest.read_text().splitlines()
    manifest.write_text("\n".join(lines[:1] + [",".join([*line.split(",")[:2], f"{time:.2f}", "p,0,A"])
                                               for line, time in zip(lines[1:], times)]) + "\n")
    extract(manifest, tmp_path / "gap.h5", levels, "--clip", 4, "--clip-every", 2, "--clip-gap", 1)
    assert starts(rows_of(tmp_path / "gap.h5")["e0"], 2) == [(0, 6), (8, 14), (17, 23), (25, 31), (33, 39)]


def test_seconds_follow_uneven_times(tmp_path, levels):
    manifest = make_exams(tmp_path, frames=(40,), uneven=True)
    extract(manifest, tmp_path / "x.h5", levels, "--clip", 4, "--clip-fps", 3.1, "--clip-step-seconds", 1.7)
    times = np.array([float(line.split(",")[2]) for line in manifest.read_text().splitlines()[1:]])
    rows = rows_of(tmp_path / "x.h5")["e0"]
    assert len(rows) == int((times[-1] - 3 / 3.1) // 1.7) + 1
    for number, row in enumerate(rows):
        wanted = number * 1.7 + np.arange(4) / 3.1
        seen = [np.flatnonzero(times <= at + 1e-3).max() for at in wanted]
        assert np.array_equal(row["levels"], 1 + np.array(seen))
        assert np.isclose(row["time"], (times[seen[0]] + times[seen[-1]]) / 2)


def test_windows_over_chosen_frames(tmp_path, levels):
    manifest = make_exams(tmp_path, frames=(40,))
    extract(manifest, tmp_path / "x.h5", levels, "--every", 3, "--start", 0.6, "--clip", 4, "--clip-every", 1)
    assert starts(rows_of(tmp_path / "x.h5")["e0"], 3) == [(6, 15), (18, 27), (30, 39)]


def test_trap_linspace_is_not_every_fourth_frame(tmp_path, levels):
    """The loaders of V-JEPA and VideoMAE space frames by linspace."""
    theirs = np.clip(np.linspace(0, 64, num=16), 0, 63).astype(np.int64)
    for sampling, seen in {"linspace": theirs, "every": np.arange(0, 64, 4)}.items():
        extract(make_exams(tmp_path / sampling, frames=(80,)), tmp_path / f"{sampling}.h5", levels, "--clip", 16, "--clip-every", 4,
                "--clip-sampling", sampling)
        (row,) = rows_of(tmp_path / f"{sampling}.h5")["e0"]
        assert np.array_equal(row["levels"], 1 + seen)
    assert theirs[4] == 17


def test_a_video_is_read_once_and_its_index_is_stored(tmp_path):
    """Overlapping windows of one array; features are those of frames that were stacked by hand."""
    rng = np.random.default_rng(0)
    video = rng.integers(0, 256, (25, 16, 16, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", video)
    torch.jit.script(torch.nn.Flatten()).save(str(tmp_path / "flat.pt"))
    coldframe("extract", "--input", tmp_path / "a.npy", "--backbone", tmp_path / "flat.pt", "--clip-axes", "btchw", *BLACK_TO_WHITE,
              "--clip", 3, "--clip-every", 4, "--clip-step", 1, "--out", tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        features, index = file["features/clean"][:], file["frames/index"][:]
    assert index.tolist() == list(range(4, 21))
    for start, row in enumerate(features):
        expected = video[start:start + 9:4].transpose(0, 3, 1, 2) / np.float32(255)
        assert np.array_equal(row, expected.ravel().astype(np.float32))


@pytest.mark.parametrize("length", [3, 4, 5, 6])
def test_a_video_that_is_cut_off_says_so_whether_or_not_a_window_reaches_its_end(tmp_path, levels, length):
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:d=2:r=10", "-c:v", "mpeg4", str(tmp_path / "a.avi")],
                   check=True)
    content = (tmp_path / "a.avi").read_bytes()
    (tmp_path / "a.avi").write_bytes(content[:len(content) * 4 // 5])
    command = (tmp_path / "a.avi", tmp_path / "x.h5", levels, "--clip", length, "--clip-every", 1)
    summary = extract(*command, expect=1)
    (lost,) = summary["lost"]
    assert lost["frames"] == 1 and "how many are lost is not known" in lost["reason"]
    again = extract(*command, expect=1)
    assert again["unchanged"] == 1 and again["lost"] == summary["lost"]
    assert extract(*command[:1], tmp_path / "y.h5", *command[2:], "--accept-broken-tail")["lost"] == []


def test_views_tiles_and_thumbnails(tmp_path, levels):
    manifest = make_exams(tmp_path, frames=(12, 3))
    words = ["--clip", 4, "--clip-every", 1, "--clip-step", 2]
    extract(manifest, tmp_path / "x.h5", levels, *words, "--views", 2, "--augment", "brightness=0.2", "--thumbnails")
    with h5py.File(tmp_path / "x.h5") as file:
        clean, view, sizes = file["features/clean"][:], file["features/view1"][:], np.diff(file["thumbnails/offset"][:])
    ratio = view[:5] / clean[:5]  # one transform for all frames of an exam
    assert view.shape == clean.shape and not np.allclose(ratio, 1, atol=0.01)
    assert (sizes > 0).all()
    report = tmp_path / "x.html"
    coldframe("cache", "report", report, tmp_path / "x.h5")
    extract(manifest, tmp_path / "tiles.h5", levels, *words, "--tiles", "--tile-size", 16)
    with h5py.File(tmp_path / "tiles.h5") as file:
        assert np.allclose(file["features/clean"][:], clean, atol=1e-6)


def test_parts_are_one_cache(tmp_path, levels):
    manifest = make_exams(tmp_path, frames=(12, 9, 17, 5))
    words = ["--clip", 4, "--clip-every", 1, "--clip-step", 3]
    for part in range(2):
        extract(manifest, tmp_path / "parts.cache", levels, *words, "--part", f"{part}/2")
    coldframe("cache", "finish", tmp_path / "parts.cache", "--pack", tmp_path / "parts.h5")
    extract(manifest, tmp_path / "whole.h5", levels, *words)
    coldframe("cache", "diff", tmp_path / "whole.h5", tmp_path / "parts.h5")


def test_running_again(tmp_path, levels):
    manifest = make_exams(tmp_path, streams=True)
    command = (manifest, tmp_path / "x.h5", levels, "--frame-columns", "stream", "--clip", 4, "--clip-every", 1, "--clip-step", 2)
    extract(*command)
    before = rows_of(tmp_path / "x.h5")
    assert extract(*command)["unchanged"] == 3
    manifest.write_text(manifest.read_text().replace(",p1,1,", ",p1,7,").replace(",0.100,", ",0.150,"))
    summary = extract(*command)
    assert (summary["extracted"]["exams"], summary["metadata_updated"]) == (0, 3)
    after = rows_of(tmp_path / "x.h5")
    assert [row["window_first"] for row in after["e0"]] == [row["window_first"] for row in before["e0"]]
    extract(manifest, tmp_path / "anew.h5", *command[2:])
    assert [row["time"] for row in after["e0"]] == [row["time"] for row in rows_of(tmp_path / "anew.h5")["e0"]]
    assert extract(*command)["unchanged"] == 3
    refused = extract(*command[:-1], 3, expect=3)
    assert "made with another recipe" in refused and "clip.step: cache has 2, now 3" in refused
    assert "clip.frames: cache has 4, now 5" in extract(*command[:6], 5, *command[7:], expect=3)


def test_gaps_that_change_with_the_times_are_extracted_anew(tmp_path, levels):
    manifest = make_exams(tmp_path, frames=(20,))
    command = (manifest, tmp_path / "x.h5", levels, "--clip", 4, "--clip-every", 1, "--clip-gap", 0.5)
    extract(*command)
    lines = manifest.read_text().splitlines()
    later = [line.replace(line.split(",")[2], f"{float(line.split(',')[2]) + 9 * (n >= 6):.3f}", 1) for n, line in enumerate(lines[1:])]
    manifest.write_text("\n".join([lines[0], *later]) + "\n")
    assert extract(*command)["extracted"]["exams"] == 1
    assert starts(rows_of(tmp_path / "x.h5")["e0"]) == [(0, 3), (6, 9), (10, 13), (14, 17)]


def test_the_dry_run_says_how_many_windows_of_what_length(tmp_path):
    manifest = make_exams(tmp_path)
    words = ["extract", "--input", manifest, "--dry-run", "--clip", 4, "--clip-every", 2, "--clip-step", 5]
    text = coldframe(*words).stdout
    assert "windows" in text.splitlines()[0] and "5 of 600 ms" in text and "1, 1 padded" in text
    assert "Windows: 7 of 4 frames, 1 padded" in text
    report = json.loads(coldframe(*words, "--json").stdout)
    assert [exam["windows"]["count"] for exam in report["exams"]] == [5, 1, 1]
    assert report["totals"]["windows"] == 7 and report["totals"]["frames_per_window"] == 4
    assert np.isclose(report["exams"][0]["windows"]["median_s"], 0.6)


@pytest.mark.parametrize("words, message", [
    (["--clip", 4], "no file says how far apart these lie; give --clip-every N"),
    (["--clip-every", 2], "options of --clip without it: say how many frames a window has, --clip N"),
    (["--clip", 0, "--clip-every", 2], "--clip 0: expected 1 to 4096"),
    (["--clip", 4, "--clip-every", 2, "--clip-fps", 3], "--clip-every and --clip-fps contradict each other"),
    (["--clip", 4, "--clip-every", 2, "--clip-step", 2, "--clip-step-seconds", 3], "contradict each other; give one"),
    (["--clip", 4, "--clip-fps", 2, "--clip-sampling", "linspace"], "--clip-fps and --clip-sampling linspace contradict"),
    (["--clip", 4, "--clip-every", 2, "--clip-pad", "mirror"], "--clip-pad"),
    (["--clip", 4, "--clip-every", 2, "--clip-gap", 0], "--clip-gap 0: expected more than 0 seconds"),
    (["--clip", 4, "--clip-every", 2 ** 62], "--clip-every 4611686018427387904: expected 1 to 65536"),
    (["--clip", 4, "--clip-every", 2, "--clips", 0], "--clips 0: expected 1 or more"),
    (["--clip", 4, "--clip-every", 2, "--clip-step-seconds", 0.0001], "--clip-step-seconds 0.0001: expected 0.001 or more seconds"),
    (["--clip", 1, "--clip-step", 2], "--clip 1 takes single frames; choose them with --every"),
    (["--clip", 4, "--clip-every", 2, "--cut", 0], "--cut cannot be combined with --clip"),
    (["--clip", 4, "--clip-every", 2, "--benchmark"], "--benchmark measures single frames"),
    (["--clip", 4, "--clip-every", 2, "--frame-columns", "window_first"], "have a column of this name already"),
])
def test_options_that_do_not_fit(tmp_path, levels, words, message):
    done = coldframe("extract", "--input", make_exams(tmp_path), "--backbone", levels, *BLACK_TO_WHITE, "--out", tmp_path / "x.h5",
                     *words, expect=2)
    assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_a_backbone_of_images_takes_no_clips(tmp_path):
    vit = ["--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--pool", "mean", *BLACK_TO_WHITE]
    manifest = make_exams(tmp_path)
    for words, message in {("--clip", 4, "--clip-every", 2): "--clip 4: the backbone takes images; leave it out",
                           ("--clip-every", 2): "the backbone takes single frames; leave out the options of --clip"}.items():
        assert message in coldframe("extract", "--input", manifest, *vit, "--out", tmp_path / "x.h5", *words, expect=2).stderr


class Conv(torch.nn.Module):
    """Of clips in the order `axes`; gives what `kind` says."""

    def __init__(self, axes: str, kind: str = "vector"):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.axes, self.kind = torch.nn.Conv3d(3, 6, (2, 8, 8), (1, 8, 8)), axes, kind

    def forward(self, x):
        if self.axes == "btchw":
            x = x.transpose(1, 2)
        y = self.conv(x)
        if self.kind == "map":
            return y
        if self.kind == "tokens":
            return y.flatten(2).transpose(1, 2)
        if self.kind == "nan":
            return y.mean([2, 3, 4]) / 0.0 * 0.0
        if self.kind == "batch":
            return y[:, :, 0, 0, 0] + 9 * y[:, :, 0, 0, 0].mean(0)
        if self.kind == "four":
            return y.mean(2)
        return y.mean([2, 3, 4])


def saved(path, axes, kind="vector"):
    torch.jit.script(Conv(axes, kind)).save(str(path))
    return path


@pytest.mark.parametrize("axes", ["bcthw", "btchw"])
@pytest.mark.parametrize("kind", ["vector", "map", "tokens"])
def test_trap_axes_are_in_the_order_that_fits_and_outputs_averaged(tmp_path, axes, kind):
    manifest = make_exams(tmp_path, frames=(12,))
    module = saved(tmp_path / "m.pt", axes, kind)
    coldframe("extract", "--input", manifest, "--backbone", module, *BLACK_TO_WHITE, "--clip", 5, "--clip-every", 1, "--out",
              tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        features, backbone = file["features/clean"][:], json.loads(file.attrs["recipe"])["features"]["backbone"]
    clips = torch.stack([torch.arange(first, first + 5)[:, None, None, None].expand(5, 3, 16, 16) for first in (1, 6)]) / 255
    with torch.inference_mode():
        expected = Conv("btchw")(clips)
    assert backbone["axes"] == axes and backbone["frames"] == 5
    assert np.allclose(features, expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("kind, clip, message", [
    ("nan", 5, "infinite or no number"), ("batch", 5, "its features of a clip depend on the other clips of the batch"),
    ("four", 5, "expected [3, D], [3, tokens, D] or a map [3, D, t, h, w]"),
    ("vector", 3, "it runs on clips of 3 frames as [B, 3, T, H, W] and as [B, T, 3, H, W]; give --clip-axes bcthw or btchw")])
def test_modules_that_are_no_backbone_of_clips(tmp_path, kind, clip, message):
    module = saved(tmp_path / "m.pt", "bcthw", kind)
    done = coldframe("extract", "--input", make_exams(tmp_path), "--backbone", module, *BLACK_TO_WHITE, "--clip", clip, "--clip-every", 1,
                     "--out", tmp_path / "x.h5", expect=3)
    assert message in done.stderr


def test_trap_axes_of_three_frames_are_in_the_order_that_is_named(tmp_path):
    manifest, features = make_exams(tmp_path, frames=(3,)), {}
    module = saved(tmp_path / "m.pt", "btchw")
    for axes in ("bcthw", "btchw"):
        coldframe("extract", "--input", manifest, "--backbone", module, *BLACK_TO_WHITE, "--clip", 3, "--clip-every", 1, "--clip-axes",
                  axes, "--out", tmp_path / f"{axes}.h5")
        features[axes] = h5py.File(tmp_path / f"{axes}.h5")["features/clean"][:]
    clip = torch.arange(1, 4)[None, :, None, None, None].expand(1, 3, 3, 16, 16) / 255
    with torch.inference_mode():
        assert np.allclose(features["btchw"], Conv("btchw")(clip).numpy(), atol=1e-6)
    assert not np.allclose(features["bcthw"], features["btchw"], atol=1e-3)


def test_a_package_of_clips(tmp_path):
    manifest = make_exams(tmp_path, frames=(12,))
    model = Conv("bcthw").eval()
    program = torch.export.export(model, (torch.zeros(2, 3, 5, 16, 16),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "m.pt2"))
    saved(tmp_path / "m.pt", "bcthw")
    for suffix in ("pt", "pt2"):
        coldframe("extract", "--input", manifest, "--backbone", tmp_path / f"m.{suffix}", *BLACK_TO_WHITE, "--clip", 5, "--clip-every", 1,
                  "--out", tmp_path / f"{suffix}.h5")
    a, b = (h5py.File(tmp_path / f"{suffix}.h5")["features/clean"][:] for suffix in ("pt", "pt2"))
    assert np.allclose(a, b, atol=1e-6)


def test_cache_verbs_show_windows(tmp_path, levels):
    manifest = make_exams(tmp_path)
    extract(manifest, tmp_path / "x.h5", levels, "--clip", 4, "--clip-every", 2, "--clip-step", 5)
    info = coldframe("cache", "info", tmp_path / "x.h5").stdout
    assert "7, each of a window of 4 frames, one in 2" in info and "window_first, window_last, window_padded" in info
    show = coldframe("cache", "show", tmp_path / "x.h5", "e2").stdout
    assert "window_padded" in show and " 2 " in show
    for verb in (["stats"], ["ls"], ["verify"], ["verify", "--input", manifest]):
        coldframe("cache", verb[0], tmp_path / "x.h5", *verb[1:])
    coldframe("cache", "export", tmp_path / "x.npy", tmp_path / "x.h5")
    coldframe("cache", "import", tmp_path / "y.h5", tmp_path / "x.npy", tmp_path / "x.frames.csv", tmp_path / "x.exams.csv", "--recipe",
              tmp_path / "x.recipe.json", "--frame-columns", ",".join(WINDOW_COLUMNS))
    assert [row["window_last"] for row in rows_of(tmp_path / "y.h5")["e0"]] == [row["window_last"] for row in rows_of(tmp_path / "x.h5")["e0"]]


def test_no_window_spans_two_files_of_an_exam(tmp_path, levels):
    """An echo study: several clips under one exam, without streams."""
    for name, count in {"a": 6, "b": 5}.items():
        pages = [Image.fromarray(np.full((20, 24), 1 + 10 * (name == "b") + page, np.uint8)) for page in range(count)]
        pages[0].save(tmp_path / f"{name}.tif", save_all=True, append_images=pages[1:])
    (tmp_path / "x.csv").write_text("exam,path,patient\ne,a.tif,p\ne,b.tif,p\n")
    extract(tmp_path / "x.csv", tmp_path / "x.h5", levels, "--clip", 4, "--clip-every", 1, "--clip-step", 1)
    with h5py.File(tmp_path / "x.h5") as file:
        seen = np.rint(255 * file["features/clean"][:, :4]).astype(int)
    assert seen.tolist() == [list(range(first, first + 4)) for first in (1, 2, 3, 11, 12)]
