"""tests/run in a tree of its own: real ctest and pytest, tests made here, and a cmake that builds nothing."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def tree(tmp_path):
    """What tests/run needs of the house; its tests are good_cpp, slow_cpp and test_good."""
    (tmp_path / "tests/support").mkdir(parents=True)
    shutil.copy(ROOT / "tests/run", tmp_path / "tests/run")
    shutil.copy(ROOT / "tests/support/summary.py", tmp_path / "tests/support")
    (tmp_path / "tests/pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests/requirements.txt").touch()
    script(tmp_path / "common/bootstrap", "exit 0")
    script(tmp_path / "bin/cmake", '[ "${BREAKS-nothing}" != "$1" ]')
    script(tmp_path / "build/test-venv/bin/python", f'exec {sys.executable} "$@"')
    torch = tmp_path / "build/venv/lib/python3.11/site-packages/torch"
    torch.mkdir(parents=True)
    (torch / "version.py").write_text("__version__ = '2.11.0+cu130'\n")
    stamp = hashlib.sha256((tmp_path / "common/bootstrap").read_bytes() + b"torch==2.11.0\n").hexdigest()
    (tmp_path / "build/test-venv/coldframe-stamp").write_text(f"{stamp}  -\n")
    add_ctest(tmp_path, good_cpp="true", other_cpp="true")
    (tmp_path / "tests/test_good.py").write_text("def test_good():\n    pass\n")
    return tmp_path


def add_ctest(tree, **tests):
    with open(tree / "build/CTestTestfile.cmake", "a") as file:
        for name, command in tests.items():
            file.write(f'add_test({name} {command})\nset_tests_properties({name} PROPERTIES LABELS quick)\n')


def run(tree, *words, **variables):
    """(exit code, all that was printed, its last lines from the summary on)"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COLDFRAME"))}
    environment |= {"PATH": f"{tree / 'bin'}:{os.environ['PATH']}", **variables}
    done = subprocess.run([tree / "tests/run", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    summary = re.sub(r" +", " ", done.stdout).split("set-up and build")[-1]
    return done.returncode, done.stdout, summary.splitlines()[1:]


def test_all_parts_are_counted(tree):
    code, _, told = run(tree)
    assert code == 0 and told[-1] == "3 passed, 0 failed"
    assert told[0].startswith("C++ tests 2 passed, 0 failed") and told[2].startswith("Python tests 1 passed, 0 failed")


def test_a_part_that_fails_keeps_none_from_running_and_the_end_names_all_that_failed(tree):
    script(tree / "bin/fails", "printf '[  FAILED  ] Costs.%s\\n' 'Peaks/2 (3 ms)' 'Peaks/2' 'Steps'; echo '[  FAILED  ] 2 tests'; exit 1")
    add_ctest(tree, bad_cpp=tree / "bin/fails")
    (tree / "tests/room").mkdir()
    (tree / "tests/room/test_bad.py").write_text("import pytest\n\n\n@pytest.mark.parametrize('n', [1, 2])\n"
                                                 "def test_bad(n):\n    assert n == 1\n\n\ndef test_left():\n    pytest.skip()\n")
    code, printed, told = run(tree)
    assert code == 1
    assert told[-4:] == ["failed:", " bad_cpp: Costs.Peaks/2, Costs.Steps", " tests/room/test_bad.py::test_bad[2]", "4 passed, 2 failed"]
    assert told[2].startswith("Python tests 2 passed, 1 failed, 1 skipped")
    assert "1 failed, 2 passed, 1 skipped in" in printed  # pytest's own last line


@pytest.mark.parametrize("words, counted", [(["quick"], "2 passed, 0 failed"), (["good"], "2 passed, 0 failed"),
                                            (["good_cpp"], "1 passed, 0 failed"), (["test_good"], "1 passed, 0 failed")])
def test_a_pattern_takes_what_matches_of_both(tree, words, counted):
    code, _, told = run(tree, *words)
    assert (code, told[-1]) == (0, counted)


def test_a_pattern_that_matches_nothing_is_no_success(tree):
    code, _, told = run(tree, "nothing_like_this")
    assert code == 1 and told[-2:] == [" no test matches", "0 passed, 1 failed"]


def test_what_ends_without_a_report_has_failed(tree):
    script(tree / "build/test-venv/bin/python", "exit 4")
    code, _, told = run(tree)
    assert code == 1 and told[-2:] == [" Python tests: ended with exit code 4, see above", "2 passed, 1 failed"]


@pytest.mark.parametrize("word, step", [("--preset", "configuration"), ("--build", "build")])
def test_a_build_that_fails_is_said_at_once(tree, word, step):
    code, printed, _ = run(tree, BREAKS=word)
    assert code == 1 and printed == f"tests/run: the {step} failed (see above), so that no test was run\n"
