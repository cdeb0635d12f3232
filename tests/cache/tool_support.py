"""Holds what the tests of coldframe-cache share: the program, the driver, and a made cache as numpy sees it."""
import json
import os
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
DRIVER = BUILD / "tests" / "cache_driver"
TOOL = BUILD / "bin" / "coldframe-cache"


def driver(*words, **options):
    return subprocess.run([DRIVER, *map(str, words)], check=True, capture_output=True, **options).stdout


def tool(*words):
    return subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True)


def run(*words):
    result = tool(*words)
    assert result.returncode == 0, result.stderr
    return result


def tool_json(*words):
    result = tool(*words, "--json")
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout)


def refusal(*words):
    """The one error message of a call that must fail."""
    result = tool(*words)
    assert result.returncode in (2, 3), (words, result.returncode)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    return result.stderr


def dump(path):
    return json.loads(driver("dump", path))


def features(exam, view="clean"):
    """float32 [T, D], NaN where a frame is missing."""
    values = np.array([np.nan if v is None else v for v in exam["views"][view]], np.float32)
    return values.reshape(len(exam["present"]), -1)
