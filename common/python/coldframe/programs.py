"""Starts Coldframe's programs, which lie in this package; `coldframe` on the command line is main()."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from coldframe.errors import ColdframeError, JobError, Stopped, UsageError

Place = str | os.PathLike[str]
Option = Place | int | float | bool | Iterable[object] | None

_FOLDER = Path(__file__).resolve().parent


def program_path(name: str = "coldframe") -> Path:
    """The program file. JobError where this package was installed without them."""
    # COLDFRAME_PROGRAMS is for tests of the sources, with the programs of a build folder.
    path = Path(os.environ.get("COLDFRAME_PROGRAMS", _FOLDER / "bin")) / name
    if not path.is_file():
        raise JobError(
            f"'{path}' is missing: this package was installed without Coldframe's programs; pip install coldframe"
        )
    return path


def environment() -> dict[str, str]:
    """The environment of the programs: it tells which Python this is, and where that would import torch from."""
    result = dict(os.environ, COLDFRAME_PYTHON=sys.executable)
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin is not None:
        result["COLDFRAME_PYTHON_TORCH"] = str(Path(found.origin).parent)
    return result


def main() -> None:
    """Becomes the program `coldframe`."""
    _become("coldframe")


def main_make_exams() -> None:
    """Becomes `coldframe-make-exams`, which makes exams to try Coldframe with."""
    _become("coldframe-make-exams")


def _become(name: str) -> None:
    try:
        path = program_path(name)
    except ColdframeError as error:
        sys.exit(f"error: {error}")
    os.execve(path, [name, *sys.argv[1:]], environment())


@dataclass(frozen=True)
class Finished:
    """A program that ended well."""

    exit_code: int  #: 0, or 1 for failures or findings to read
    output: str  #: standard output
    messages: list[str]  #: lines of standard error, progress included


def words_of(options: dict[str, Option]) -> list[str]:
    """Options of the command line: `image_size=224` is `--image-size 224`.

    True is a switch, False and None leave the option out; several values are joined by commas, a dict is NAME=VALUE,… A
    trailing underscore is dropped, for names that Python keeps for itself.
    """
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        words.append(option)
        if value is True:
            continue
        if isinstance(value, (str, int, float, os.PathLike)):
            words.append(_word(value))
        elif isinstance(value, dict):
            words.append(",".join(f"{key}={_word(item)}" for key, item in value.items()))
        else:
            words.append(",".join(map(_word, value)))
    return words


def _word(value: object) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def run(
    *words: object, options: dict[str, Option] | None = None, progress: bool = True, program: str = "coldframe"
) -> Finished:
    """Runs `coldframe WORDS… --options`; with `progress`, its messages appear on sys.stderr as they come.

    Raises UsageError, JobError or Stopped with the program's message. A KeyboardInterrupt ends the program in order.
    """
    command = [str(program_path(program)), *map(_word, words), *words_of(options or {})]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=environment()
    )
    assert started.stdout is not None and started.stderr is not None
    output: list[str] = []
    reader = threading.Thread(target=lambda stream: output.append(stream.read()), args=(started.stdout,))
    reader.start()
    messages: list[str] = []
    try:
        _follow(started.stderr, messages, progress)
    except KeyboardInterrupt:
        started.send_signal(signal.SIGTERM)
        _follow(started.stderr, messages, progress)
    reader.join()
    code = started.wait()
    if code not in (0, 1):
        raise _error(code, messages)
    return Finished(code, output[0], messages)


def _follow(stream: IO[str], messages: list[str], show: bool) -> None:
    for line in stream:
        messages.append(line.rstrip("\n"))
        if show:
            print(line, end="", file=sys.stderr, flush=True)


def _error(code: int, messages: list[str]) -> ColdframeError:
    kind = {UsageError.exit_code: UsageError, Stopped.exit_code: Stopped}.get(code, JobError)
    told = [line.partition(": ")[2] for line in messages if line.startswith(("error: ", "warning: "))]
    ended = f"the program was ended by signal {-code}" if code < 0 else f"the program ended with exit code {code}"
    return kind(told[-1] if told else messages[-1] if messages else ended)
