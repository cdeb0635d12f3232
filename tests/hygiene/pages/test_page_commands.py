"""Every command that a page of the project shows is started with its smallest input, so that an option that was renamed,
a target that is gone and a script that is not there are found."""

import functools
import re
import sys

import page_commands
import page_sandbox
import pytest
from page_commands import ROOT, all_commands
from page_rules import IN_ORDER, SCRIPTS, edited, is_run, merged, program_of

sys.path.insert(0, str(ROOT / "common/cli/dispatch"))
import help_pages  # noqa: E402

COMMANDS = all_commands()
STARTED = [one for one in COMMANDS if one.whole and is_run(one.text)]
IN_PAGES = {page: [one for one in STARTED if one.page == page and IN_ORDER.match(one.text)] for page in page_commands.pages()}
OF_SCRIPTS = merged(one for one in STARTED if not IN_ORDER.match(one.text) and program_of(one.text) in SCRIPTS)


def test_every_command_has_a_rule():
    assert len(COMMANDS) > 200
    unknown = [str(one) for one in STARTED if not IN_ORDER.match(one.text) and program_of(one.text) not in SCRIPTS]
    assert not unknown, "add them to page_rules.py, or give the block another language:\n" + "\n".join(unknown)


@functools.cache
def options_of_coldframe():
    """(COMMAND, VERB) → its options, from --help."""
    return {tuple(page.words): {option.name for option in page.options} for page in help_pages.read_pages(page_sandbox.BUILD / "bin/coldframe")}


def options_in(words):
    return {word[2:].split("=")[0] for word in words if re.match(r"--[a-z]", word)}


def unknown_of_coldframe(words):
    """What `coldframe WORDS…` does not know."""
    known, verb = options_of_coldframe(), ()
    for word in words:
        if not re.match(r"[a-z]+$", word) or verb + (word,) not in known:
            break
        verb += (word,)
    rest = words[len(verb):]
    wrong = [rest[0]] if rest and any(len(page) == len(verb) + 1 and page[:-1] == verb for page in known) and re.match(r"[a-z]+$", rest[0]) else []
    options = known[verb] if verb else set().union(*known.values())
    return wrong + sorted(options_in(rest) - options - {"help"})


def unknown_of_script(path, words):
    """Options that appear in no file beside the script, nor among coldframe's, to which some scripts hand theirs on."""
    texts = "".join(file.read_text(errors="ignore") for file in (ROOT / path).parent.iterdir() if file.is_file())
    known = set().union(*options_of_coldframe().values())
    return [f"--{name}" for name in options_in(words) if not re.search(rf"--{name}\b", texts) and name not in known]


def faults(text):
    words = text.replace("(", " ").replace(")", " ").split()
    if words[0] == "coldframe":
        return unknown_of_coldframe(words[1:])
    if words[0].startswith("coldframe-"):
        return [] if (page_sandbox.BUILD / "bin" / words[0]).exists() else ["no such program"]
    wrong = []
    for at, word in enumerate(words):
        if re.match(r"build/(bin|tests)/", word) and not (page_sandbox.BUILD / word.removeprefix("build/")).exists():
            wrong.append(f"{word} is not there")
        if re.match(r"(tests|examples|common)/", word):
            wrong += [f"{word} is not there"] if not (ROOT / word).exists() else unknown_of_script(word, words[at + 1:])
    return wrong


def test_mentions_name_what_is_there():
    """Verbs, options and scripts; so do commands that cannot be run."""
    wrong = [f"{one}: {', '.join(found)}" for one in COMMANDS if not (one.whole and is_run(one.text)) and (found := faults(one.text))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", [page for page, commands in IN_PAGES.items() if commands])
def test_commands_of_a_page_do_what_they_are_shown_for(page, tmp_path):
    ends = page_sandbox.run([edited(one.text) for one in IN_PAGES[page]], tmp_path)
    failed = [f"{one}: exit code {code}\n{said}" for one, (code, said) in zip(IN_PAGES[page], ends) if code != 0]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("command", [pytest.param(command, id=program_of(command)) for command in OF_SCRIPTS])
def test_a_script_that_a_page_shows_goes_through_all_its_steps(command, tmp_path):
    [(code, said)] = page_sandbox.run([command], tmp_path)
    allowed = {0, 1} if SCRIPTS[program_of(command)].findings else {0}
    shown = "\n".join(map(str, OF_SCRIPTS[command]))
    assert code in allowed and "Traceback" not in said, f"{shown}\n$ {command}\nexit code {code}\n{said}"
