"""The commands that the project's pages show: lines of their blocks, cells of their tables, mentions in their text."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SHELL = {"", "sh"}  # blocks of other languages are no commands
HEAD = re.compile(r"(?:/usr/bin/time -v )?(?:[A-Z_]+=\S+ )*(?:coldframe(?=[ -]|$)|build/(?:bin|tests|test-venv/bin)/|tests/|examples/|common/|pip |python3? |sbatch )")
PLACEHOLDER = re.compile(r"…|(?<![\w$./-])[A-Z]+\b(?!=)")


@dataclass(frozen=True)
class Command:
    page: str
    line: int
    text: str
    whole: bool  # to be started as it stands; others are mentions, of which a verb or an option may be all

    def __str__(self):
        return f"{self.page}:{self.line}: {self.text}"


def pages():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md", ":!tests/stored"], capture_output=True, text=True).stdout.split()
    return listed or sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.md") if not {"build", "stored"} & {*path.relative_to(ROOT).parts})


def block_commands(lines):
    """(number, command) of a block. Where it shows prompts, all else is output; a note stands behind two spaces."""
    joined = []
    for number, line in lines:
        if joined and joined[-1][1].endswith("\\"):
            joined[-1] = joined[-1][0], joined[-1][1][:-1] + line.strip()
        else:
            joined.append((number, line))
    if any(line.startswith("$ ") for _, line in joined):
        joined = [(number, line[2:]) for number, line in joined if line.startswith("$ ")]
    for number, line in joined:
        command = re.sub(r"\s{2,}[#(].*$|\s+…$", "", line).strip()
        if command:
            yield number, command


def spans(line):
    return re.findall(r"`([^`]+)`", line)


def of_page(page):
    block, table, before, found = None, False, "", []
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if line.startswith("```"):
            if block and block[0] in SHELL:
                found += [Command(page, at, text, True) for at, text in block_commands(block[1])]
            block = None if block else (line[3:], [])
        elif block:
            block[1].append((number, line))
        else:
            cells = re.split(r"(?<!\\) \| ", line.strip("| ")) if line.startswith("|") else [line]
            table = line.startswith("|") and (table or cells[-1].strip() == "command")
            for at, cell in enumerate(cells):
                for text in spans(cell):
                    shown = table and at == len(cells) - 1
                    if shown and text.startswith("… "):
                        found.append(Command(page, number, before + text[1:], True))
                    elif HEAD.match(text):
                        runs = shown or is_complete(text)
                        before = text if shown else before
                        found.append(Command(page, number, text, runs))
    return found


def is_complete(text):
    """A mention that names files, none of them by a placeholder, can be started."""
    words = text.split()
    return len(words) > 2 and not PLACEHOLDER.search(text) and any(re.search(r"\w\.[a-z]\w*$", word) for word in words[1:])


def all_commands():
    return [command for page in pages() for command in of_page(page)]


if __name__ == "__main__":
    for one in all_commands():
        print("runs    " if one.whole else "mentions", one)
