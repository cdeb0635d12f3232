#!/usr/bin/env python3
"""Man pages of what Coldframe's programs say with --help.

help_pages.py PROGRAM FOLDER     PROGRAM is build/bin/coldframe, FOLDER becomes PREFIX/share
"""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Option:
    name: str  # without dashes
    short: str  # "h", or ""
    value: str  # "PATH", or "" for a switch
    text: str  # what it does


@dataclass
class Page:
    words: list[str]  # [], ["train"], ["cache", "ls"]
    usage: list[str] = field(default_factory=list)
    summary: str = ""
    below: dict[str, str] = field(default_factory=dict)  # commands or verbs, and what they are for
    groups: dict[str, list[Option]] = field(default_factory=dict)
    example: str = ""

    @property
    def options(self):
        return [option for group in self.groups.values() for option in group]


OPTION = re.compile(r"^  (?:-(\w) \[ )?--([\w-]+)(?: \])?(?: (\S.*?))?(?:  +(\S.*))?$")


def read_options(lines):
    """Boost's list: `  --name VALUE (=default)   text`, and text on further lines, which begin in its column."""
    options = []
    for line in lines:
        found = OPTION.match(line)
        if found:
            short, name, value, text = (part or "" for part in found.groups())
            options.append(Option(name, short, value, text))
        elif line.strip() and options:
            options[-1].text += " " + line.strip()
    for option in options:
        option.text = re.sub(r"\s+", " ", option.text).strip()
    return options


def read_page(words, text):
    page = Page(words)
    head, *rest = re.split(r"^(\S[^\n]*:)\n(?=  |\n?$)", text, flags=re.M)
    usage, _, summary = head.partition("\n\n")
    page.usage = [re.sub(r"^(Usage: |\s+)", "", line) for line in usage.splitlines()]
    page.summary = " ".join(summary.split())
    for title, block in zip(rest[::2], rest[1::2]):
        block = block.split("\n\n'")[0].split("\n\n`")[0]  # the hint behind a list of commands
        if title in ("Commands:", "Verbs:"):
            page.below = dict(re.findall(r"^  (\S+) +(\S.*)$", block, re.M))
        elif title == "Example:":
            page.example = block.strip()
        elif read_options(block.splitlines()):
            page.groups[title.rstrip(":")] = read_options(block.splitlines())
    return page


def read_pages(program, words=()):
    """The page of a command, and of all below it."""
    text = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
    if "--help-all" in text:
        text = subprocess.run([program, *words, "--help-all"], capture_output=True, text=True, check=True).stdout
    page = read_page(list(words), text)
    return [page, *(each for name in page.below for each in read_pages(program, (*words, name)))]


def roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", r"\e").replace("-", r"\-"), flags=re.M)


def man_page(page, version):
    name = "-".join(["coldframe", *page.words])
    lines = [f'.TH {name.upper()} 1 "" "{version}" "Coldframe"', ".SH NAME", f"{roff(name)} \\- {roff(page.summary.split('. ')[0])}", ".SH SYNOPSIS"]
    for usage in page.usage:
        lines += [roff(usage), ".br"]
    lines += [".SH DESCRIPTION", roff(page.summary)]
    if page.below:
        lines += [".SH COMMANDS"]
        for word, text in page.below.items():
            lines += [".TP", f".B {roff(word)}", f"{roff(text)}; see \\fB{roff(name)}\\-{roff(word)}\\fR(1)"]
    for group, options in page.groups.items():
        lines += [f".SH {roff(group.upper())}"]
        for option in options:
            short = f"\\fB\\-{option.short}\\fR, " if option.short else ""
            lines += [".TP", f"{short}\\fB\\-\\-{roff(option.name)}\\fR {roff(option.value)}".rstrip(), roff(option.text)]
    if page.example:
        lines += [".SH EXAMPLE", ".nf", roff(page.example), ".fi"]
    return "\n".join(lines) + "\n"


def main(program, folder):
    pages, folder = read_pages(program), folder / "man/man1"
    folder.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    for page in pages:
        (folder / ("-".join(["coldframe", *page.words]) + ".1")).write_text(man_page(page, version))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
