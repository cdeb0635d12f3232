"""Windows of frames over exams: against the rule as numpy has it, and against torchcodec's samplers."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
from torchcodec.decoders import VideoDecoder
from torchcodec.samplers import clips_at_regular_indices, clips_at_regular_timestamps

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
RULE = {"frames": 4, "every": 1, "fps": 0, "step": 4, "step_s": 0, "count": 0, "pad": "repeat-last", "sampling": "every",
        "gap_s": None}
BLANK = -1


def found(exams):
    lines = "".join(json.dumps(exam) + "\n" for exam in exams)
    done = subprocess.run([BUILD / "tests/windows_driver"], input=lines, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def exam_of(times, streams=None, selected=None, steps=1, **rule):
    times = [None if np.isnan(time) else float(time) for time in times]
    return {"times": times, "streams": [int(s) for s in (streams if streams is not None else np.zeros(len(times)))],
            "selected": [int(s) for s in (selected if selected is not None else range(len(times)))], "steps": steps,
            "rule": RULE | rule}


# The rule, written anew.

def tolerance(times):
    return 0 if len(times) < 2 else min(1e-3, (times[-1] - times[0]) / (len(times) - 1) / 4)


def shown(times, at):
    return max(0, np.flatnonzero(times <= at + tolerance(times)).max(initial=0))


def frames_from(start, time, times, rule):
    """Places in a run, as many as it has."""
    n, T, k = len(times), rule["frames"], rule["every"]
    if rule["fps"] > 0:
        at = time + np.arange(T) / rule["fps"]
        return [int(shown(times, t)) for t in at if t <= times[-1] + tolerance(times)]
    if rule["sampling"] == "linspace":
        left = n - start
        if T * k <= left:
            inside = np.clip(np.linspace(0, T * k, num=T), 0, T * k - 1)
        else:
            inside = np.clip(np.linspace(0, left, num=left // k), 0, left - 1) if left // k else np.array([left - 1])
        return [start + int(i) for i in inside.astype(np.int64)]
    return [int(i) for i in np.arange(start, start + T * k, k) if i < n]


def starts_of(times, rule):
    if rule["step_s"] > 0:
        grid = times[0] + np.arange(100_000) * rule["step_s"]
        return [(int(shown(times, t)), t) for t in grid[grid <= times[-1] + tolerance(times)]]
    return [(i, times[i]) for i in range(0, len(times), rule["step"])]


def spread(n, count):
    if count == 0 or n <= count:
        return list(range(n))
    return [int(np.round((n - 1) / 2))] if count == 1 else [int(i) for i in np.round(np.arange(count) * (n - 1) / (count - 1))]


def expected_windows(exam):
    rule, times = exam["rule"], np.array([np.nan if t is None else t for t in exam["times"]])
    selected, streams = np.array(exam["selected"]), np.array(exam["streams"])
    windows = []
    for stream in range(max(exam["streams"]) + 1):
        own = selected[streams[selected] == stream]
        if len(own) == 0:
            continue
        apart = np.flatnonzero(np.diff(times[own]) > rule["gap_s"]) + 1 if rule["gap_s"] else []
        whole, short = [], []
        for run in np.split(own, apart):
            cut = []
            for start, time in starts_of(times[run], rule):
                places = frames_from(start, time, times[run], rule)
                needs = rule["frames"] * rule["every"] if rule["sampling"] == "linspace" else 0
                if len(places) == rule["frames"] and start + needs <= len(run) and (not cut or cut[-1] != places):
                    cut.append(places)
            whole += [(run[places].tolist(), 0) for places in cut]
            if not cut and rule["pad"] != "refuse":
                places = run[frames_from(0, times[run[0]], times[run], rule)].tolist()
                padded = rule["frames"] - len(places)
                fill = {"repeat-last": places[-1:] * padded, "zero": [BLANK] * padded,
                        "wrap": (places * (rule["frames"] // len(places) + 1))[len(places):rule["frames"]]}[rule["pad"]]
                short.append((places + fill, padded))
        kept = [whole, short] if rule["count"] == 0 else [whole or short]
        for some in kept:
            windows += [some[i] for i in spread(len(some), rule["count"])]
    return sorted(windows, key=lambda window: window[0][(rule["frames"] - window[1] - 1) // 2])


def expected_rows(windows, T, steps):
    rows = []
    for number, (slots, padded) in enumerate(windows):
        for step in range(steps):
            own = slots[step * T // steps:(step + 1) * T // steps]
            seen = own[:max(0, T - padded - step * T // steps)]
            if seen:
                rows.append([number, step, seen[0], seen[(len(seen) - 1) // 2], seen[-1], len(own) - len(seen)])
    return sorted(rows, key=lambda row: row[3])


def random_exam(rng):
    """Uneven times, frames left out, one or two streams, and any rule."""
    n = int(rng.integers(1, 90))
    steps = rng.choice([0.04, 0.05, 0.11, 0.9], n) if rng.random() < 0.5 else np.full(n, 1 / 30)
    times = np.cumsum(steps) - steps[0]
    streams = rng.integers(0, 2, n) if rng.random() < 0.4 else np.zeros(n, int)
    selected = np.flatnonzero(rng.random(n) < 0.8) if rng.random() < 0.5 else np.arange(n)
    if len(selected) == 0:
        selected = np.arange(n)
    T = int(rng.choice([2, 3, 4, 8, 16]))
    rule = {"frames": T, "pad": str(rng.choice(["repeat-last", "zero", "wrap", "refuse"]))}
    if rng.random() < 0.35:
        rule["fps"] = float(rng.choice([3.7, 7.3, 13.1, 61.7]))
    else:
        rule["every"] = int(rng.integers(1, 5))
        rule["sampling"] = str(rng.choice(["every", "linspace"], p=[0.7, 0.3]))
    if rng.random() < 0.35:
        rule["step_s"] = float(rng.choice([0.0123, 0.217, 1.31]))
    else:
        rule["step"] = int(rng.integers(1, 20))
    if rng.random() < 0.3:
        rule["count"] = int(rng.integers(1, 9))
    if rng.random() < 0.3:
        rule["gap_s"] = float(rng.choice([0.045, 0.12, 0.5]))
    divisors = [d for d in range(1, T + 1) if T % d == 0]
    return exam_of(times, streams, selected, int(rng.choice(divisors)), **rule)


def test_windows_are_those_of_numpy():
    rng = np.random.default_rng(0)
    exams = [random_exam(rng) for _ in range(600)]
    sums = {"windows": 0, "padded": 0, "errors": 0, "two streams": 0}
    for exam, got in zip(exams, found(exams), strict=True):
        expected = expected_windows(exam)
        if not expected:
            sums["errors"] += 1
            assert "is long enough for a window of" in got["error"], exam
            continue
        assert [(window["slots"], window["padded"]) for window in got["windows"]] == expected, exam
        assert got["rows"] == expected_rows(expected, exam["rule"]["frames"], exam["steps"]), exam
        sums["windows"] += len(expected)
        sums["padded"] += sum(padded > 0 for _, padded in expected)
        sums["two streams"] += len(set(exam["streams"])) > 1
    assert all(count >= 20 for count in sums.values()), sums


def test_no_window_spans_two_streams_or_a_gap():
    rng = np.random.default_rng(1)
    exams = [random_exam(rng) for _ in range(400)]
    for exam, got in zip(exams, found(exams), strict=True):
        for window in got.get("windows", []):
            seen = window["slots"][:exam["rule"]["frames"] - window["padded"]]
            assert len({exam["streams"][slot] for slot in seen}) == 1
            own = [s for s in exam["selected"] if exam["streams"][s] == exam["streams"][seen[0]] and seen[0] <= s <= seen[-1]]
            times = np.array(exam["times"])[own]
            assert not exam["rule"]["gap_s"] or np.diff(times).max(initial=0) <= exam["rule"]["gap_s"] + 1e-9


@pytest.mark.parametrize("times, rule, message", [
    ([0, np.nan, 2], {"fps": 2.0}, "frame 1 has no known time, which --clip-fps, --clip-step-seconds and --clip-gap need"),
    ([0, 2, 1], {"gap_s": 1.0}, "frame 2 has an earlier time than frame 1"),
    ([0, 1, 2], {"frames": 16, "every": 4, "pad": "refuse"},
     "no part of its 3 frames is long enough for a window of 16 frames, every 4; --clip-pad"),
    ([0, 1e9], {"step_s": 0.01}, "more than 1048576 times --clip-step-seconds 0.01")])
def test_what_cannot_be_windowed_is_said_in_one_line(times, rule, message):
    (got,) = found([exam_of(times, **rule)])
    assert message in got["error"] and "\n" not in got["error"]


def test_a_single_frame_of_unknown_time_is_an_exam():
    (got,) = found([exam_of([np.nan], fps=2.0)])
    assert got["windows"] == [{"slots": [0, 0, 0, 0], "padded": 3}]


# torchcodec takes frames of real clips; windows are compared by the times of their frames.

@pytest.fixture(scope="module", params=["even", "uneven"])
def clip(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("clip") / f"{request.param}.mp4"
    kept = ["-vf", "select='not(mod(n,3))+not(mod(n,5))+eq(n,7)'", "-vsync", "vfr"] if request.param == "uneven" else []
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:d=3:r=25", *kept, "-c:v", "libx264",
                    str(path)], check=True)
    decoder = VideoDecoder(path)
    times = np.array([decoder.get_frame_at(i).pts_seconds for i in range(len(decoder))])
    return decoder, times


def frame_times(got, times):
    return [[times[slot] for slot in window["slots"]] for window in got["windows"]]


@pytest.mark.parametrize("frames, every", [(4, 1), (4, 3), (16, 2), (7, 4)])
def test_windows_of_frames_are_torchcodecs(clip, frames, every):
    decoder, times = clip
    starts = max(1, len(decoder) - (frames - 1) * every)
    for pad in ("repeat-last", "wrap"):
        theirs = clips_at_regular_indices(decoder, num_clips=starts, num_frames_per_clip=frames,
                                          num_indices_between_frames=every, policy=pad.replace("-", "_"))
        (got,) = found([exam_of(times, frames=frames, every=every, step=1, pad=pad)])
        assert np.allclose(frame_times(got, times), theirs.pts_seconds.numpy(), atol=1e-6)


@pytest.mark.parametrize("pad", ["repeat-last", "wrap"])
def test_too_short_clips_are_padded_as_torchcodecs(clip, pad):
    decoder, times = clip
    theirs = clips_at_regular_indices(decoder, num_clips=1, num_frames_per_clip=64, num_indices_between_frames=3,
                                      policy=pad.replace("-", "_"))
    (got,) = found([exam_of(times, frames=64, every=3, pad=pad)])
    assert np.allclose(frame_times(got, times), theirs.pts_seconds.numpy(), atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_windows_of_seconds_are_torchcodecs(clip, seed):
    decoder, times = clip
    rng = np.random.default_rng(seed)
    frames = int(rng.integers(2, 9))
    while True:  # no wanted time within the rounding of a frame's
        step, between = rng.uniform(0.15, 0.9), rng.uniform(0.03, 0.2)
        wanted = (np.arange(40)[:, None] * step + np.arange(frames) * between).ravel()
        wanted = wanted[(wanted > 0) & (wanted < times[-1] + 0.1)]
        if np.abs(wanted[:, None] - times).min() > 2e-3:
            break
    theirs = clips_at_regular_timestamps(decoder, seconds_between_clip_starts=step, num_frames_per_clip=frames,
                                         seconds_between_frames=between,
                                         sampling_range_end=times[-1] - (frames - 1) * between)
    (got,) = found([exam_of(times, frames=frames, fps=1 / between, step_s=step)])
    assert len(got["windows"]) > 1 and all(window["padded"] == 0 for window in got["windows"])
    assert np.allclose(frame_times(got, times), theirs.pts_seconds.numpy(), atol=1e-6)
