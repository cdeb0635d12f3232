"""predict --online: the lines of a clip's frames are what predict says of clips that end there, from files and pipes."""
import io
import signal
import subprocess

import cv2
import numpy as np
import pandas as pd
import pytest
from training_support import BUILD, PROGRAM, loaded, quick

FRAMES = 12


def coldframe(*words, **options):
    """The program's run, which says bytes; `options`, those of subprocess.run(), are for a process that is started anew."""
    if options or words[0] == "extract":
        return subprocess.run([str(BUILD / "bin" / "coldframe"), *map(str, words)], capture_output=True, **options)
    return loaded(PROGRAM).run(words, text=False)


def picture(exam, frame):
    y, x = np.mgrid[:64, :64]
    wave = 128 + 100 * np.sin(x / (4 + exam % 5) + frame / 2 + exam) * np.cos(y / 7 + exam % 3)
    return np.repeat(wave.astype(np.uint8)[..., None], 3, 2)


def write_clip(path, exam, frames=FRAMES):
    codec, rate = {".mkv": ("FFV1", 10), ".mpg": ("PIM1", 25)}.get(path.suffix, ("MJPG", 10))
    video = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*codec), rate, (64, 64))
    for frame in range(frames):
        video.write(picture(exam, frame))
    video.release()
    return path


def y4m(frames, exam=0):
    """The clip as YUV4MPEG2 with full chroma."""
    out = io.BytesIO()
    out.write(b"YUV4MPEG2 W64 H64 F10:1 Ip A1:1 C444\n")
    for frame in range(frames):
        yuv = cv2.cvtColor(picture(exam, frame), cv2.COLOR_BGR2YUV)
        out.write(b"FRAME\n" + np.ascontiguousarray(yuv.transpose(2, 0, 1)).tobytes())
    return out.getvalue()


def make_bundle(cache, folder, *words):
    for command in [["train", "--cache", cache, "--target", "label", "--out", folder / "run", *quick("--folds", 2, *words)],
                    ["bundle", "make", folder / "run", "--out", folder / "model.bundle"]]:
        done = coldframe(*command)
        assert done.returncode == 0, done.stderr.decode()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle of a GRU on a small ViT with random weights, trained on a dozen clips."""
    folder = tmp_path_factory.mktemp("made")
    rows = ["exam,path,patient,label"]
    for exam in range(12):
        write_clip(folder / f"clip{exam}.avi", exam)
        rows.append(f"e{exam},clip{exam}.avi,p{exam},{exam % 2}")
    (folder / "exams.csv").write_text("\n".join(rows) + "\n")
    done = coldframe(
        "extract", "--input", folder / "exams.csv", "--out", folder / "exams.cache", "--random-weights", 0, "--architecture",
        "vit_tiny_patch16_224", "--pool", "cls", "--image-size", 32, "--mean", 0.5, "--std", 0.5, "--device", "cpu",
        "--precision", "fp32")
    assert done.returncode == 0, done.stderr.decode()
    make_bundle(folder / "exams.cache", folder, "--epochs", 2, "--time", "on")
    return folder


def online(made, clip, **options):
    done = coldframe("predict", "--bundle", made / "model.bundle", "--online", "--input", clip, "--device", "cpu",
                     "--precision", "fp32", **options)
    return done, pd.read_csv(io.BytesIO(done.stdout)) if done.returncode == 0 else None


@pytest.mark.parametrize("model", ["gru", "summary"])
def test_each_line_is_what_predict_says_of_a_clip_that_ends_there(made, tmp_path, model):
    folder = made
    if model != "gru":
        folder = tmp_path
        make_bundle(made / "exams.cache", folder, "--model", model)
    done, lines = online(folder, made / "clip3.avi")
    assert done.returncode == 0, done.stderr.decode()
    assert list(lines) == ["frame", "time_s", "p_0", "p_1", "predicted"]
    assert list(lines.frame) == list(range(FRAMES))
    np.testing.assert_allclose(lines.time_s, np.arange(FRAMES) / 10, atol=1e-9)
    for frames in (2, 7, FRAMES):
        clip = write_clip(tmp_path / f"first{frames}.avi", 3, frames)
        out = tmp_path / f"p{frames}.csv"
        whole = coldframe("predict", "--bundle", folder / "model.bundle", "--input", clip, "--out", out, "--device", "cpu",
                          "--precision", "fp32")
        assert whole.returncode == 0, whole.stderr.decode()
        expected = pd.read_csv(out)
        np.testing.assert_allclose(lines.p_1[frames - 1], expected.p_1[0], rtol=0, atol=1e-6)
    assert b"frames/s" in done.stderr and b"ms in the median" in done.stderr


def test_a_pipe_gives_the_same_lines_as_a_file(made, tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", 5)
    _, from_file = online(made, clip)
    done, from_pipe = online(made, "-", input=clip.read_bytes())
    assert done.returncode == 0, done.stderr.decode()
    pd.testing.assert_frame_equal(from_file, from_pipe)
    done, lines = online(made, "-", input=y4m(FRAMES, 5))
    assert done.returncode == 0, done.stderr.decode()
    assert len(lines) == FRAMES and np.abs(lines.p_1 - from_file.p_1).max() < 0.05


def test_a_last_frame_without_a_stamp_continues_the_interval(made, tmp_path):
    """The decoder gives the last one of an MPEG stream only at its end, without its time."""
    clip = write_clip(tmp_path / "clip.mpg", 4)
    done, lines = online(made, clip)
    assert done.returncode == 0, done.stderr.decode()
    np.testing.assert_allclose(lines.time_s, np.arange(len(lines)) / 25, atol=1e-4)
    whole = coldframe("predict", "--bundle", made / "model.bundle", "--input", clip, "--out", tmp_path / "p.csv", "--device", "cpu",
                      "--precision", "fp32")
    assert whole.returncode == 0, whole.stderr.decode()
    np.testing.assert_allclose(lines.p_1.iloc[-1], pd.read_csv(tmp_path / "p.csv").p_1[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("content", [b"", b"no clip at all", b"YUV4MPEG2 W64", b"YUV4MPEG2 W64 H64 F10:1 C444\nFRAME\nshort"])
def test_what_is_no_clip_is_an_error(made, content):
    done, _ = online(made, "-", input=content)
    assert done.returncode == 3 and (b"standard input" in done.stderr or b"no frame" in done.stderr)


def catches(pid, number):
    status = dict(line.split(":\t") for line in open(f"/proc/{pid}/status").read().splitlines() if ":\t" in line)
    return int(status["SigCgt"], 16) >> (number - 1) & 1


def test_a_silent_pipe_ends_at_the_first_stop(made):
    words = [PROGRAM, "predict", "--bundle", made / "model.bundle", "--online", "--input", "-", "--device", "cpu", "--precision", "fp32"]
    for content, code, lines in [(y4m(FRAMES), 0, FRAMES + 1), (b"", 75, 0), (y4m(FRAMES)[:-9], 0, FRAMES)]:
        watcher = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        watcher.stdin.write(content)
        watcher.stdin.flush()
        came = b""
        while came.count(b"\n") < lines - 3:  # readers hold a few frames back until the end
            came += watcher.stdout.readline()
        while not lines and not catches(watcher.pid, signal.SIGINT):
            assert watcher.poll() is None
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(60) == code  # the pipe is still open
        rest, told = watcher.communicate()
        assert lines == 0 or lines - 3 <= (came + rest).count(b"\n") <= lines, told.decode()


@pytest.mark.parametrize("words", [["--exam-from", "x"], ["--columns", "exam=a"], ["--frame-columns", "a"], ["--sort", "time"],
                                   ["--min-frames", 2], ["--decode-threads", 1], ["--memory-budget", "1GiB"], ["--patient-salt", "s"],
                                   ["--once"], ["--marker", "done"], ["--quiet-for", 30], ["--overwrite"], ["--json"], ["--out", "o"]])
def test_options_that_would_do_nothing_are_refused_by_name(words):
    done = coldframe("predict", "--bundle", "b", "--online", "--input", "-", *words)
    assert done.returncode == 2 and f"{words[0]} does not go with --online".encode() in done.stderr


@pytest.mark.parametrize("model, why", [("bigru", b"both directions"), ("transformer", b"frames behind it")])
def test_models_that_need_the_whole_clip_are_refused_by_name(made, tmp_path, model, why):
    make_bundle(made / "exams.cache", tmp_path, "--model", model, "--epochs", 1)
    done, _ = online(tmp_path, made / "clip0.avi")
    assert done.returncode == 2 and f"'{model}'".encode() in done.stderr and why in done.stderr


def test_memory_does_not_grow_with_frames(made):
    clip = y4m(10, 1)

    def peak_of(frames):
        words = ["/usr/bin/env", "python3", "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], "
                 "stdout=subprocess.DEVNULL, check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
                 PROGRAM, "predict", "--bundle", made / "model.bundle", "--online", "--input", "-", "--device", "cpu",
                 "--precision", "fp32"]
        done = subprocess.run([str(word) for word in words], input=clip + clip.split(b"\n", 1)[1] * (frames // 10 - 1),
                              capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return int(done.stdout)

    assert peak_of(300) < 1.05 * peak_of(50)
