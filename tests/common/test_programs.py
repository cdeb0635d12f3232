"""The `coldframe` command as a shell sees it, and the page of charts as an XML parser does."""

import fcntl
import os
import pathlib
import re
import struct
import subprocess
import termios
import time
import xml.etree.ElementTree as xml

import pytest

BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", pathlib.Path(__file__).parents[2] / "build"))
COLDFRAME = BUILD / "bin" / "coldframe"


def run(*arguments, **options):
    return subprocess.run([COLDFRAME, *arguments], capture_output=True, text=True, **options)


def test_help_goes_to_stdout_and_names_every_command():
    done = run("--help")
    assert done.returncode == 0 and done.stderr == ""
    for command in ["extract", "cache", "train", "evaluate", "predict", "doctor"]:
        assert f"\n  {command} " in done.stdout


def test_without_a_command_the_help_is_an_error():
    done = run()
    assert done.returncode == 2 and done.stdout == "" and "Usage:" in done.stderr


@pytest.mark.parametrize("words", [[], ["extract"], ["cache"], ["cache", "ls"], ["train"], ["predict"], ["bundle", "make"], ["plan"], ["doctor"]])
def test_version(words):
    done = run(*words, "--version")
    assert done.returncode == 0 and re.fullmatch(r"coldframe \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize("room, word, near", [("cache", "lss", "ls"), ("cache", "expotr", "export"), ("bundle", "verfy", "verify")])
def test_an_unknown_verb_names_the_nearest_of_all(room, word, near):
    done = run(room, word)
    assert done.returncode == 2 and done.stderr.startswith(f"error: unknown verb '{word}'; there are ")
    assert done.stderr.endswith(f"; did you mean '{near}'?\n")


@pytest.mark.parametrize("word, said", [("trian", "did you mean 'train'?"),
                                        ("Extract", "did you mean 'extract'?"),
                                        ("zzzzz", "the commands are: extract, cache, train"),
                                        ("", "unknown command ''"),
                                        ("--colour", "unknown command '--colour'")])
def test_an_unknown_command_names_the_nearest(word, said):
    done = run(word)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert said in done.stderr


def stand_in(folder, name):
    """A program that shows how it was called, beside a copy of `coldframe`."""
    (folder / "coldframe").write_bytes(COLDFRAME.read_bytes())
    (folder / "coldframe").chmod(0o755)
    program = folder / name
    program.write_text('#!/bin/sh\necho "$(basename "$0")" "$@"\nexit 42\n')
    program.chmod(0o755)


@pytest.mark.parametrize("command, program, passed", [
    ("extract", "coldframe-train_temporal", ["extract"]),
    ("cache", "coldframe-cache", []),
    ("train", "coldframe-train_temporal", ["train"]),
    ("evaluate", "coldframe-train_temporal", ["evaluate"]),
    ("predict", "coldframe-train_temporal", ["predict"]),
])
def test_each_command_becomes_the_program_beside_it(tmp_path, command, program, passed):
    stand_in(tmp_path, program)
    done = subprocess.run([tmp_path / "coldframe", command, "--x", "a b", ""], capture_output=True,
                          text=True)
    assert done.returncode == 42
    assert done.stdout == " ".join([program, *passed, "--x", "a b", ""]) + "\n"
    helped = subprocess.run([tmp_path / "coldframe", "help", command], capture_output=True,
                            text=True)
    assert helped.stdout == " ".join([program, *passed, "--help"]) + "\n"


def test_it_finds_its_programs_through_a_link_from_elsewhere(tmp_path):
    (tmp_path / "bin").mkdir()
    stand_in(tmp_path / "bin", "coldframe-cache")
    (tmp_path / "cf").symlink_to(tmp_path / "bin" / "coldframe")
    assert subprocess.run([tmp_path / "cf", "cache"], capture_output=True).returncode == 42


def test_a_missing_program_is_named(tmp_path):
    (tmp_path / "coldframe").write_bytes(COLDFRAME.read_bytes())
    (tmp_path / "coldframe").chmod(0o755)
    done = subprocess.run([tmp_path / "coldframe", "train"], capture_output=True, text=True)
    assert done.returncode == 3
    assert "coldframe-train_temporal': No such file" in done.stderr


@pytest.mark.parametrize("command", ["cache", "bundle"])
def test_a_section_may_name_each_verb(tmp_path, command):
    helped = subprocess.run([COLDFRAME, command, "--help"], capture_output=True, text=True).stdout
    verbs = re.findall(r"^  (\w+) +\S", helped.split("Verbs:\n")[1].split("\n\n")[0], re.M)
    assert len(verbs) >= 4
    (tmp_path / "all.ini").write_text("".join(f"[{command} {verb}]\nx = 1\n" for verb in verbs))
    done = subprocess.run([COLDFRAME, "extract", "--config", tmp_path / "all.ini"], capture_output=True, text=True)
    assert "section" not in done.stderr and "--input is missing" in done.stderr
    (tmp_path / "odd.ini").write_text(f"[{command} qqqqqqqqqqqqqqqqqqqq]\nx = 1\n")
    done = subprocess.run([COLDFRAME, command, "show", "x", "--config", tmp_path / "odd.ini"], capture_output=True, text=True)
    assert done.returncode == 2
    known = done.stderr.split("expected one of")[1]
    assert sorted(re.findall(rf"\b{command} (\w+)", known)) == sorted(verbs), "and none that is no verb"


def test_a_full_disk_is_an_error_and_a_reader_that_left_is_not():
    with open("/dev/full", "w") as full:
        done = subprocess.run([COLDFRAME, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "error: cannot write the output: No space left on device\n"

    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([COLDFRAME, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("stream, words", [("stdout", ["extract", "--help"]), ("stderr", ["cache", "-" * 6000])])
def test_a_pipe_that_does_not_block_gets_everything(stream, words):
    """As a parent makes it that waits for many, for instance Node.js. It is full before anybody reads."""
    whole = subprocess.run([COLDFRAME, *words], capture_output=True)
    expected = getattr(whole, stream)
    assert len(expected) > 5000
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: writer}
    process = subprocess.Popen([COLDFRAME, *words], **streams)
    os.close(writer)
    with open(reader, "rb", buffering=0) as file:
        held = lambda: struct.unpack("i", fcntl.ioctl(file, termios.FIONREAD, b"1234"))[0]
        while process.poll() is None and held() < 4096:
            time.sleep(0.001)
        read = file.readall()
    assert process.wait() == whole.returncode and read == expected


def test_closed_standard_streams_do_no_harm():
    done = subprocess.run(["sh", "-c", f"exec '{COLDFRAME}' --help <&- >&- 2>&-"])
    assert done.returncode == 0


def test_the_page_of_charts_is_well_formed():
    page = subprocess.run([BUILD / "tests" / "html_sample"], capture_output=True, text=True,
                          check=True).stdout
    root = xml.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    svg = "{http://www.w3.org/2000/svg}"
    charts = root.findall(f".//{svg}svg")
    assert len(charts) == 7
    for chart in charts:
        width, height = map(float, chart.get("viewBox").split()[2:])
        for text in chart.iter(f"{svg}text"):
            assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height
        for line in chart.iter(f"{svg}polyline"):
            points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
            assert 2 <= len(points) <= 1000
            assert all(0 <= x <= width and 0 <= y <= height for x, y in points)
    assert any(element.text == "GRU, AUROC 0.91" for element in root.iter(f"{svg}title"))
