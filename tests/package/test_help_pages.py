"""Man pages of the programs' --help."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
sys.path.insert(0, str(ROOT / "common/cli/dispatch"))

import help_pages  # noqa: E402


@pytest.fixture(scope="module")
def share(tmp_path_factory):
    folder = tmp_path_factory.mktemp("share")
    help_pages.main(BUILD / "bin/coldframe", folder)
    return folder


def test_every_option_of_every_command_is_in_its_man_page(share):
    pages = help_pages.read_pages(BUILD / "bin/coldframe")
    assert len(pages) == len(list((share / "man/man1").iterdir())) > 20
    for page in pages[1:]:
        text = subprocess.run([BUILD / "bin/coldframe", *page.words, "--help-all" if page.groups else "--help"], capture_output=True, text=True, check=True).stdout
        expected = set(re.findall(r"^  (?:-\w \[ )?--([\w-]+)", text, re.M))
        found = set(re.findall(r"^(?:\\fB\\-\w\\fR, )?\\fB\\-\\-(\S+)\\fR", (share / "man/man1" / ("-".join(["coldframe", *page.words]) + ".1")).read_text(), re.M))
        assert {name.replace("\\-", "-") for name in found} == expected and (expected or page.below), page.words


def test_a_wrapped_text_becomes_one_and_a_dash_and_a_dot_stay(tmp_path):
    page = help_pages.read_page(["x"], "Usage: coldframe x PATH\n\nDoes it. And more.\n\n\nOptions:\n  --a-b FILE (=c)   first\n"
                                "                    .second-half\n  -q [ --quiet ]    say less\n\nExample:\n  coldframe x --a-b c\n")
    (first, second) = page.options
    assert (first.name, first.value, first.text) == ("a-b", "FILE (=c)", "first .second-half") and second.short == "q"
    assert page.summary == "Does it. And more." and page.example == "coldframe x --a-b c"
    text = help_pages.man_page(page, "coldframe 1")
    assert ".SH NAME\ncoldframe\\-x \\- Does it\n" in text and "first .second\\-half" in text
