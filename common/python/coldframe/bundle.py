"""A bundle of `coldframe bundle make`: a finished run that predicts by itself."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from coldframe.programs import Option, Place, run
from coldframe.tables import read_csv, write_csv

if TYPE_CHECKING:
    from coldframe.models import TemporalModel


class Bundle:
    """A bundle's folder."""

    def __init__(self, path: Place) -> None:
        """FileNotFoundError where there is none."""
        self.path = Path(path)
        if not self.path.exists():
            raise FileNotFoundError(f"no bundle at {self.path}; make one with coldframe.Bundle.make")

    def __repr__(self) -> str:
        return f"<Bundle {self.path}>"

    @classmethod
    def make(cls, trained: Any, out: Place, *, progress: bool = True, **options: Option) -> Bundle:
        """Makes a bundle of a finished run (a Run or its path); options are those of `coldframe bundle make`.

        UsageError or JobError with the program's message.
        """
        run("bundle", "make", getattr(trained, "path", trained), options={"out": out, **options}, progress=progress)
        return cls(out)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What `coldframe bundle show --json` says: targets, classes, recipe, counts of the training, digest."""
        return dict(json.loads(run("bundle", "show", self.path, options={"json": True}, progress=False).output))

    def models(self, control: str | None = None) -> list[TemporalModel]:
        """All fits of the main model, or of a control, as torch.nn.Module, by repeat, fold and seed. Nothing is held against
        SHA256SUMS, as `coldframe bundle verify` does. FileNotFoundError: the bundle has none."""
        from coldframe.models import read_models

        folder = self.path / ("models" if control is None else f"controls/{control}")
        return read_models(folder, {file.name: file.read_bytes() for file in folder.glob("*.safetensors")})

    def predict(
        self,
        exams: Place | Iterable[Place] | Mapping[str, Place | Iterable[Place]],
        *,
        out: Place | None = None,
        progress: bool = True,
        **options: Option,
    ) -> pd.DataFrame:
        """Predicts exams as they come: a row for each, with `exam`, `patient`, a probability for each class (or a number),
        `frames`, `frames_missing` and `failures`, the reasons of what could not be read.

        `exams` is what `extract --input` takes (a folder, a file, a CSV manifest); several paths, each an exam that is
        named by its file; or paths by the names of their exams. `out` keeps the table as a CSV file. Options are those of
        `coldframe predict`. An exam that could not be read has a row without predictions; `attrs["failures"]` of the table
        lists the `exam`, `source` and `reason` of each failure. UsageError, JobError or Stopped with the program's message; ValueError for paths of one name.
        """
        with tempfile.TemporaryDirectory(prefix="coldframe-") as folder:
            source = exams if isinstance(exams, (str, os.PathLike)) else _manifest(exams, Path(folder, "exams.csv"))
            table = Path(out) if out is not None else Path(folder, "predictions.csv")
            known = {"bundle": self.path, "input": source, "out": table, "json": True}
            done = run("predict", options={**options, **known}, progress=progress)
            predictions = _whole_numbers(read_csv(table))
            predictions.attrs["failures"] = json.loads(done.output)["failures"]
            return predictions


def _whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Classes and counts stay whole numbers where exams that could not be read leave gaps."""
    for name, column in table.select_dtypes("float").items():
        counts = str(name).rpartition(":")[2] in ("predicted", "frame", "frames_missing")
        if counts and column.notna().any() and (column.dropna() % 1 == 0).all():
            table[name] = column.astype("Int64")
    return table


def _manifest(exams: Iterable[Place] | Mapping[str, Place | Iterable[Place]], file: Path) -> Path:
    if not isinstance(exams, Mapping):
        paths = [Path(path) for path in exams]
        named = {path.name: path for path in paths}
        if len(named) < len(paths):
            raise ValueError("several paths have one file name; give them as {exam: path}")
        exams = dict(named)
    rows = [
        (exam, str(Path(place).absolute()))
        for exam, places in exams.items()
        for place in ([places] if isinstance(places, (str, os.PathLike)) else places)
    ]
    write_csv(pd.DataFrame(rows, columns=["exam", "path"]), file)
    return file
