"""Files and folders that appear under their names when they are whole, and survive a power cut then."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
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
        try:
            made.rename(out)  # replaces nothing but an empty folder
        except OSError as error:
            if os.path.lexists(out):
                raise FileExistsError(f"'{out}' appeared meanwhile and is kept; choose another name") from error
            raise
    _sync(out.parent)


@contextlib.contextmanager
def whole_file(path: Place) -> Iterator[Path]:
    """A file to write, which takes the name in the end and replaces what has it. Links are followed.

    What it replaces keeps its owner and permissions; FileExistsError where that has other names (hard links). A device
    or a pipe stays and gets the bytes.
    """
    out = Path(os.path.realpath(path))
    old = _status(path)
    if old and not stat.S_ISREG(old.st_mode):
        with tempfile.TemporaryDirectory(prefix="coldframe-") as scratch:
            made = Path(scratch, Path(path).name)
            with open(path, "wb") as stream:  # at once, so that a folder is refused before the work
                yield made
                with made.open("rb") as file:
                    shutil.copyfileobj(file, stream)
        return
    if old and old.st_nlink > 1:
        raise FileExistsError(f"'{out}' has {old.st_nlink} names (hard links); remove it first, or choose another name")
    with tempfile.TemporaryDirectory(prefix=".coldframe-", dir=out.parent) as scratch:
        made = Path(scratch, out.name)
        yield made
        if old:
            _keep_owner_and_mode(made, old)
        _sync(made)
        made.replace(out)
    _sync(out.parent)


def _status(path: Place) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _keep_owner_and_mode(made: Path, old: os.stat_result) -> None:
    for owner in (old.st_uid, -1):  # the group alone where the owner may not be given
        with contextlib.suppress(PermissionError):
            os.chown(made, owner, old.st_gid)
            break
    made.chmod(stat.S_IMODE(old.st_mode))  # behind the owner, which takes the set-user-ID bit away


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
