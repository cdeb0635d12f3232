"""Reads a cache (cache/FORMAT.md) with h5py."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from coldframe.programs import Place

Exam = str | int  #: an exam's id, or its row in Cache.exams


def open(path: Place) -> Cache:
    """Opens a cache: a folder of shards, or one .h5 file. FileNotFoundError, ValueError as Cache()."""
    return Cache(path)


class Cache:
    """The valid revision of every exam of a cache.

    Files are opened when they are first read, once in each process: a Cache may be given to the workers of a DataLoader.
    What takes an exam or a view has the errors of row(), and KeyError for a view that is not there.
    """

    def __init__(self, path: Place) -> None:
        """FileNotFoundError where there is none; ValueError for files of another format, or of different recipes."""
        self.path = Path(path)  #: as it was given
        self._files = _shard_files(self.path)
        self._opened: dict[int, h5py.File] = {}
        self._process = os.getpid()
        self.recipe: dict[str, Any] = {}  #: how the features were made
        self.dimension = 0  #: D, features of a frame
        self.views: list[str] = ["clean"]  #: `clean`, and those of `extract --views`
        tables, failures, digest = [], [], ""
        for number, file in enumerate(self._files):
            shard = self._shard(number)
            found = _text(shard.attrs["cache_digest"])
            if number == 0:
                self.recipe = json.loads(_text(shard.attrs["recipe"]))
                self.dimension, digest = int(shard.attrs["dimension"]), found
            elif found != digest:
                raise ValueError(f"{file} was made by another recipe than {self._files[0]}")
            if len(shard["exams/id"]):  # else a shard of failures alone, written before any view was known
                self.views = [unquote(name) for name in shard["features"]]
            tables.append(_exam_table(shard["exams"]).assign(_file=number))
            failures.append(pd.DataFrame({name: _values(shard["failures"][name]) for name in shard["failures"]}))
        self._close()  # a process that forks now inherits no open file
        exams = pd.concat(tables, ignore_index=True)
        exams = exams.sort_values("revision", ascending=False, kind="stable").drop_duplicates("exam")
        exams = exams.sort_values(["ordinal", "exam"]).reset_index(drop=True)
        self._file = exams.pop("_file").to_numpy(np.int64)
        self._first = exams.pop("_first").to_numpy(np.int64)
        for column in exams.columns.difference(["exam", "patient"]):
            exams[column] = typed(exams[column])
        #: one row per exam, in the input's order: exam (its id), patient, ordinal, revision, start_time (Unix seconds),
        #: elapsed_start (seconds since a zero that all exams share; NaN if unknown), frames, and the input's columns,
        #: numbers where all values are; one with the name of those before is called "column frames"
        self.exams: pd.DataFrame = exams
        self._count = exams["frames"].to_numpy(np.int64)
        self._row_of = {exam: row for row, exam in enumerate(exams["exam"])}
        self._failures = failures

    def __len__(self) -> int:
        return len(self.exams)

    def __repr__(self) -> str:
        return f"<Cache {self.path}: {len(self)} exams, {int(self._count.sum())} frames of {self.dimension} features>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}

    @property
    def failures(self) -> pd.DataFrame:
        """Exams and frames that could not be extracted: exam, source, reason."""
        names = ["exam", "source", "reason", "revision"]
        rows = pd.concat([table[names] for table in self._failures])
        rows = rows[rows["exam"] != ""]
        newest = pd.concat([rows[["exam", "revision"]], self.exams[["exam", "revision"]]])
        latest = newest.groupby("exam")["revision"].max()
        valid = rows["revision"].to_numpy() == latest.reindex(rows["exam"]).to_numpy()
        told: pd.DataFrame = rows.loc[valid, names[:-1]].drop_duplicates().reset_index(drop=True)
        return told

    def row(self, exam: Exam) -> int:
        """The exam's row in `exams`. KeyError or IndexError for one that is not there."""
        if isinstance(exam, str):
            if exam not in self._row_of:
                raise KeyError(f"no exam '{exam}' in {self.path}")
            return self._row_of[exam]
        return range(len(self))[exam]

    def features(self, exam: Exam, view: str = "clean") -> NDArray[np.float32]:
        """The features of an exam, float32 [T, D]; a missing frame is a row of NaN."""
        return self._slice(exam, f"features/{self._view(view)}").astype(np.float32)

    def cut(self, exam: Exam, view: str = "clean") -> NDArray[Any]:
        """What `extract --cut B` kept of each frame: tokens [T, N, D], or pixels uint8 [T, H, W, 3] for B = 0.

        ValueError where the cache has no cut.
        """
        if "cut" not in self.recipe.get("storage", {}):
            raise ValueError(f"{self.path} has no cut: extract it with cut=B")
        return self._slice(exam, f"cut/{self._view(view)}")

    def times(self, exam: Exam) -> NDArray[np.float64]:
        """Seconds since the exam's first frame, float64 [T]; NaN if unknown."""
        return self._slice(exam, "frames/time_s")

    def present(self, exam: Exam) -> NDArray[np.bool_]:
        """False for frames that could not be read, bool [T]."""
        return self._slice(exam, "frames/present").astype(bool)

    def frames(self, exam: Exam) -> pd.DataFrame:
        """One row per frame: time_s since the exam's first frame, present, index, source, frame columns."""
        shard, rows = self._rows(exam)
        group = shard["frames"]
        table = {name: _values(group[name], rows) for name in ("time_s", "present", "index", "source")}
        for name in group["columns"]:
            column = unquote(name)
            table[f"column {column}" if column in table else column] = _values(group["columns"][name], rows)
        return pd.DataFrame(table).astype({"present": bool})

    def thumbnail(self, exam: Exam, frame: int) -> bytes:
        """The small JPEG file of one frame; b"" for a missing frame, and where the cache has none."""
        shard, rows = self._rows(exam)
        if "thumbnails" not in shard:
            return b""
        first = rows.start + range(rows.stop - rows.start)[frame]
        start, stop = shard["thumbnails/offset"][first : first + 2]
        return bytes(shard["thumbnails/data"][start:stop].tobytes())

    def table(self, view: str = "clean") -> pd.DataFrame:
        """One row per frame of the whole cache: the columns of its exam, its own, and its features f0 … f(D-1).

        An exam's column with a feature's name is called "column f0"; a frame's with an exam's name "frame label".
        """
        features = pd.DataFrame(np.concatenate([self.features(row, view) for row in range(len(self))]))
        features.columns = pd.Index([f"f{d}" for d in range(self.dimension)])
        exams = self.exams.drop(columns="frames")
        exams.columns = pd.Index([f"column {name}" if name in features else name for name in exams])
        exams = exams.loc[np.repeat(np.arange(len(self)), self._count)].reset_index(drop=True)
        frames = pd.concat([self.frames(row) for row in range(len(self))], ignore_index=True)
        frames.columns = pd.Index([f"frame {name}" if name in exams or name in features else name for name in frames])
        table: pd.DataFrame = pd.concat([exams, frames, features], axis=1)
        return table

    def _view(self, view: str) -> str:
        if view not in self.views:
            raise KeyError(f"{self.path} has no view '{view}'; its views are {', '.join(self.views)}")
        return escaped(view)

    def _rows(self, exam: Exam) -> tuple[h5py.File, slice]:
        row = self.row(exam)
        first = int(self._first[row])
        return self._shard(int(self._file[row])), slice(first, first + int(self._count[row]))

    def _slice(self, exam: Exam, dataset: str) -> NDArray[Any]:
        shard, rows = self._rows(exam)
        return np.asarray(shard[dataset][rows])

    def _shard(self, number: int) -> h5py.File:
        if self._process != os.getpid():  # after a fork
            self._opened, self._process = {}, os.getpid()
        if number not in self._opened:
            self._opened[number] = _opened_file(self._files[number])
        return self._opened[number]

    def _close(self) -> None:
        for file in self._opened.values():
            file.close()
        self._opened = {}


def _opened_file(path: Path) -> h5py.File:
    file = h5py.File(path, "r")
    found = (_text(file.attrs.get("format")), file.attrs.get("format_version"))
    if found != ("coldframe-cache", 1):
        file.close()
        raise ValueError(f"{path} is no Coldframe cache of version 1: its format is {found[0]}, version {found[1]}")
    return file


def _text(attribute: Any) -> str:
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def _shard_files(path: Path) -> list[Path]:
    # Beside x.h5, x.h5.shards/ holds what a running job has not packed yet.
    folder = Path(f"{path}.shards") if path.suffix == ".h5" else path
    shards = sorted(file for file in folder.glob("shard-*.h5") if re.fullmatch(r"shard-\d+-\d+\.h5", file.name))
    files = ([path] if path.is_file() else []) + shards
    if not files:
        raise FileNotFoundError(f"no Coldframe cache at {path}")
    return files


def _exam_table(exams: Any) -> pd.DataFrame:
    offset = exams["offset"][:].astype(np.int64)
    table: dict[str, Any] = {"exam": _values(exams["id"])}
    table |= {name: _values(exams[name]) for name in ("patient", "ordinal", "revision", "start_time")}
    unknown = np.full(len(offset) - 1, np.nan)
    table["elapsed_start"] = _values(exams["elapsed_start"]) if "elapsed_start" in exams else unknown
    table["_first"], table["frames"] = offset[:-1], np.diff(offset)
    for name in exams["columns"]:
        column = unquote(name)
        table[f"column {column}" if column in table else column] = _values(exams["columns"][name])
    return pd.DataFrame(table)


def _values(dataset: Any, rows: slice = slice(None)) -> Any:
    return dataset.asstr()[rows] if h5py.check_string_dtype(dataset.dtype) else dataset[rows]


def escaped(name: str) -> str:
    """A view's or column's name as the name of its dataset (FORMAT.md)."""
    return re.sub(r"[%/\x00-\x1f\x7f]|^\.", lambda found: f"%{ord(found[0]):02X}", name)


def typed(column: pd.Series) -> pd.Series:
    """Columns are stored as text; one in which every value is a number becomes numbers. "" is missing."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    filled = column.fillna("")
    numbers = pd.to_numeric(filled.replace("", np.nan), errors="coerce")
    return numbers if bool((numbers.notna() | (filled == "")).all()) and bool(numbers.notna().any()) else filled
