"""SKILL.md, by which coding agents drive Coldframe, beside what the programs say. (Its commands are run by tests/hygiene/pages.)"""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
PAGE = (ROOT / "common/python/coldframe/SKILL.md").read_text()


def test_the_front_matter_names_it_within_the_bounds_of_the_format():
    """agentskills.io, specification: a name of a-z, 0-9 and dashes, and a description of at most 1024 characters."""
    front = re.match(r"---\nname: ([a-z0-9-]{1,64})\ndescription: (.+)\n---\n", PAGE)
    assert front[1] == "coldframe" and len(front[2]) <= 1024
    assert ": " not in front[2], "in YAML it would be a key"


def test_the_table_has_every_command_and_all_but_setup_take_json():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    told = subprocess.run([BUILD / "bin/coldframe", "--help"], capture_output=True, text=True, check=True).stdout
    assert sorted(listed) == sorted(re.findall(r"^  (\w+) ", told, re.M))
    verbs = {"cache": ["ls"], "bundle": ["show"]}
    listed.remove("setup")  # it has nothing to tell but where LibTorch is
    for command in listed:
        told = subprocess.run([BUILD / "bin/coldframe", command, *verbs.get(command, []), "--help-all"], capture_output=True, text=True, check=True).stdout
        assert "--json" in told, command


def test_exit_codes_are_those_of_the_programs():
    code = (ROOT / "common/cli/error.h").read_text()
    known = re.findall(r"^  k\w+ = (\d+),", code, re.M)
    (told,) = re.findall(r"^Exit codes: .*", PAGE, re.M)
    assert re.findall(r"\*\*(\d+)\*\*", told) == known


def test_files_of_a_run_are_those_that_are_written():
    (told,) = re.findall(r"^A run folder has .*", PAGE, re.M)
    names = re.findall(r"`([\w-]+\.\w+|\w+/)`", told)
    assert len(names) > 9
    sources = "".join(path.read_text() for path in (ROOT / "train_temporal").rglob("*.cpp")) + "".join(
        path.read_text() for path in (ROOT / "train_temporal").rglob("*.h"))
    missing = [name for name in names if name.rstrip("/") not in sources and name != "predictions-CONTROL.csv"]
    assert not missing
