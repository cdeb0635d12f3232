"""Sums up the parts of tests/run: how many tests of each passed and failed, how long it took, and last what failed.

    summary.py [NAME REPORT CODE SECONDS]...

REPORT is the part's JUnit XML, or nothing where it has no tests of its own; CODE is what it ended with. Exit code 1 when
a part failed, or when no test ran at all. The last line, `N passed, N failed`, is for CI.
"""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

SHOWN = 40  # names; all stand in the reports
NO_TESTS = "5"  # pytest found none, as with a pattern that means C++ tests alone


def title(case):
    """As its runner takes it on a command line, `ctest -R name` or `pytest tests/x/test_y.py::name`; of a program of
    GoogleTest also the cases that failed."""
    if "status" in case.attrib:  # ctest's
        cases = re.findall(r"^\[  FAILED  \] (\w\S*\.\S*\w)", case.findtext("system-out", ""), re.M)
        return ": ".join([case.get("name"), *[", ".join(dict.fromkeys(cases))] * bool(cases)])
    return f"tests/{case.get('classname').replace('.', '/')}.py::{case.get('name')}"


def has_failed(case):
    return case.get("status") == "notrun" or any(case.find(kind) is not None for kind in ("failure", "error"))


def read(report):
    """(how many passed, how many were skipped, the names of what failed)"""
    cases = list(ElementTree.parse(report).iter("testcase")) if Path(report).is_file() else []
    failed = [title(case) for case in cases if has_failed(case)]
    skipped = sum(case.find("skipped") is not None and not has_failed(case) for case in cases)
    return len(cases) - len(failed) - skipped, skipped, failed


def main(words):
    lines, names, passed = [], [], 0
    for name, report, code, seconds in zip(*[iter(words)] * 4, strict=True):
        good, skipped, failed = read(report) if report else (0, 0, [])
        if code not in ("0", NO_TESTS) and not failed:
            failed = [f"{name}: ended with exit code {code}, see above"]
        counts = [f"{good} passed", f"{len(failed)} failed", *[f"{skipped} skipped"] * bool(skipped)]
        counts = ", ".join(counts) if report else "failed" if failed else "done"
        lines.append(f"{name:18}{counts:40}{seconds:>6} s")
        names += failed
        passed += good
    if not names and not passed:
        names = ["no test matches"]
    shown = names[:SHOWN] + [f"… and {len(names) - SHOWN} more"] * (len(names) > SHOWN)
    print("", *lines, *["failed:"] * bool(names), *(f"  {name}" for name in shown), f"{passed} passed, {len(names)} failed", sep="\n")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
