"""Files and folders that appear under their names when they are whole, and survive a power cut then."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from coldframe.programs import Place


@contextlib.contextmanager
def whole_folder(folder: Place) -> Iterator[Path]:
    """A folder to fill, which takes the name in the end. FileExistsError where something has it, then or now."""
    out = Path(folder)
    if out.exists() or out.is_symlink():
        raise FileExistsError(f"'{out}' is there already; choose another name")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".coldframe-", dir=out.parent) as scratch:
        made = Path(scratch, "made")
        made.mkdir()
        yield made
        for path in (made, *made.rglob("*")):
            _sync(path)
        out.mkdir()  # what another program put there meanwhile stays
        made.replace(out)
    _sync(out.parent)


@contextlib.contextmanager
def whole_file(path: Place) -> Iterator[Path]:
    """A file to write, which takes the name in the end and replaces what has it. Links are followed."""
    out = Path(os.path.realpath(path))
    with tempfile.TemporaryDirectory(prefix=".coldframe-", dir=out.parent) as scratch:
        made = Path(scratch, out.name)
        yield made
        _sync(made)
        made.replace(out)
    _sync(out.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
