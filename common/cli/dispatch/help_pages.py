#!/usr/bin/env python3
"""Man pages, and completions for bash, zsh and fish, of what Coldframe's programs say with --help.

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

    @property
    def sentence(self):
        """Its text up to the first clause's end, for a list of completions."""
        return re.split(r"[;:(]", self.text)[0].strip()


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


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def choices(page):
    """What may follow a page's words: its commands, or its options (for a word that begins with a dash)."""
    return list(page.below), [f"--{option.name}" for option in page.options]


def bash(pages):
    cases = []
    for page in pages:
        below, options = choices(page)
        cases.append(f"    {quoted(' '.join(page.words))}) below={quoted(' '.join(below))} options={quoted(' '.join(options))} ;;")
    return """# Completion of coldframe for bash.
_coldframe() {
  local word=${COMP_WORDS[COMP_CWORD]} key='' below='' options='' i
  for ((i = 1; i < COMP_CWORD && i < 3; ++i)); do
    [[ ${COMP_WORDS[i]} == -* ]] && break
    case ${key:+$key }${COMP_WORDS[i]} in
      NAMES) key=${key:+$key }${COMP_WORDS[i]} ;;
      *) break ;;
    esac
  done
  case $key in
CASES
  esac
  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [[ -n $below ]]; then COMPREPLY=($(compgen -W "$below" -- "$word"))
  else COMPREPLY=(); fi
}
complete -o default -F _coldframe coldframe
""".replace("NAMES", "|".join(quoted(" ".join(page.words)) for page in pages if page.words)).replace("CASES", "\n".join(cases))


def zsh(pages):
    cases = []
    for page in pages:
        below = " ".join(quoted(f"{word}:{text}") for word, text in page.below.items())
        options = " ".join(quoted(f"--{option.name}:{option.sentence}") for option in page.options)
        cases.append(f"    {quoted(' '.join(page.words))}) below=({below}) options=({options}) ;;")
    return """#compdef coldframe
_coldframe() {
  local -a below options
  local key='' i
  for ((i = 2; i < CURRENT && i < 4; ++i)); do
    case ${key:+$key }${words[i]} in
      NAMES) key=${key:+$key }${words[i]} ;;
      *) break ;;
    esac
  done
  case $key in
CASES
  esac
  if [[ ${words[CURRENT]} == -* ]]; then _describe option options
  elif (( ${#below} )); then _describe command below
  else _files; fi
}
_coldframe "$@"
""".replace("NAMES", "|".join(quoted(" ".join(page.words)) for page in pages if page.words)).replace("CASES", "\n".join(cases))


def fish(pages):
    lines = ["# Completion of coldframe for fish.", "function __coldframe_at", "  set -l words (commandline -opc)[2..]",
             "  set -l wanted (string split -n ' ' -- $argv[1])", "  test (count $words) -ge (count $wanted); or return 1",
             "  test (count $wanted) -eq 0; and return (test (count $words) -eq 0; echo $status)",
             '  test "$words[1..'"$(count $wanted)]\" = \"$argv[1]\"", "end"]
    for page in pages:
        key = " ".join(page.words)
        for word, text in page.below.items():
            condition = f"__coldframe_at {quoted(key)}; and test (count (commandline -opc)) -eq {len(page.words) + 1}"
            lines.append(f"complete -c coldframe -f -n {quoted(condition)} -a {word} -d {quoted(text)}")
        for option in page.options:
            needs = " -r" if option.value else ""
            lines.append(f"complete -c coldframe -n {quoted(f'__coldframe_at {quoted(key)}')} -l {option.name}{needs} -d {quoted(option.sentence)}")
    return "\n".join(lines).replace("\\'\\''", "\\'") + "\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main(program, folder):
    pages = read_pages(program)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    for page in pages:
        write(folder / "man/man1" / ("-".join(["coldframe", *page.words]) + ".1"), man_page(page, version))
    write(folder / "bash-completion/completions/coldframe", bash(pages))
    write(folder / "zsh/site-functions/_coldframe", zsh(pages))
    write(folder / "fish/vendor_completions.d/coldframe.fish", fish(pages))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
