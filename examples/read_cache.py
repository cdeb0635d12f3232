"""Reads a Coldframe cache (cache/FORMAT.md) with h5py and pandas; no Coldframe needed.

    cache = Cache("build/quickstart/exams.cache")      # a folder of shards, or one .h5 file
    cache.exams                                        # DataFrame, one row per exam, in the input's order
    cache.features("E0000")                            # float32 [T, D]; a missing frame is a row of NaN
    cache.frames("E0000")                              # DataFrame, one row per frame: time_s, present, …
    cache.cut("E0000")                                 # what enters a block of the ViT [T, N, D], if extract was told --cut
    cache.thumbnail("E0000", 3)                        # bytes of a JPEG file, if extract was told --thumbnails
    cache.table().to_parquet("x.parquet")              # all frames with their exams' columns and features f0, f1, …

    loader = torch.utils.data.DataLoader(ExamDataset(cache, target="label"), batch_size=16, collate_fn=collate)

A carried column that has the name of one of Coldframe's own (frames, revision, …) is called "column frames", ….

On the command line it prints what is inside:  python examples/read_cache.py build/quickstart/exams.cache
"""

import json
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import h5py
import numpy as np
import pandas as pd


class Cache:
    """The valid revision of every exam of a cache."""

    def __init__(self, path):
        self._files = shard_files(Path(path))
        tables = []
        for number, file in enumerate(self._files):
            with h5py.File(file) as shard:
                if number == 0:
                    self.recipe = json.loads(shard.attrs["recipe"])
                    self.dimension = int(shard.attrs["dimension"])
                    self.views = ["clean"]
                    digest = shard.attrs["cache_digest"]
                elif shard.attrs["cache_digest"] != digest:
                    raise ValueError(f"{file} was made by another recipe than {self._files[0]}")
                if len(shard["exams/id"]):  # else a shard of failures alone, written before any view was known
                    self.views = [unquote(name) for name in shard["features"]]
                tables.append(exam_table(shard["exams"]).assign(_file=number))
        exams = pd.concat(tables, ignore_index=True)
        exams = exams.sort_values("revision", ascending=False, kind="stable").drop_duplicates("id")
        self.exams = exams.sort_values(["ordinal", "id"]).reset_index(drop=True)
        for column in self.exams.columns.difference(["id", "patient"]):
            self.exams[column] = typed(self.exams[column])
        self._row_of = {exam: row for row, exam in enumerate(self.exams["id"])}

    def __len__(self):
        return len(self.exams)

    def features(self, exam, view="clean"):
        """The features of one exam (its id or its row in `exams`), float32 [T, D]."""
        with self._open(exam) as (shard, rows):
            return shard["features"][escaped(view)][rows].astype(np.float32)

    def cut(self, exam, view="clean"):
        """What `extract --cut B` kept of each frame: tokens [T, N, D], or pixels uint8 [T, H, W, 3] for B = 0."""
        with self._open(exam) as (shard, rows):
            return shard["cut"][escaped(view)][rows]

    def frames(self, exam):
        """One row per frame: time_s since the exam's first frame, present, index, source, frame columns."""
        with self._open(exam) as (shard, rows):
            group = shard["frames"]
            table = {name: values(group[name], rows) for name in ("time_s", "present", "index", "source")}
            for name in group.get("columns", ()):
                column = unquote(name)
                table[f"column {column}" if column in table else column] = values(group["columns"][name], rows)
            return pd.DataFrame(table).astype({"present": bool})

    def thumbnail(self, exam, frame):
        """The small JPEG file of one frame as bytes; b"" for a missing frame, and where the cache has none."""
        with self._open(exam) as (shard, rows):
            if "thumbnails" not in shard:
                return b""
            first = rows.start + range(rows.stop - rows.start)[frame]
            start, stop = shard["thumbnails/offset"][first : first + 2]
            return shard["thumbnails/data"][start:stop].tobytes()

    def table(self, view="clean"):
        """One row per frame of the whole cache: the columns of its exam, its own, and its features f0 … f(D-1).

        An exam's column with a feature's name is called "column f0"; a frame's with an exam's name "frame label".
        """
        features = pd.DataFrame(np.concatenate([self.features(row, view) for row in range(len(self))]))
        features.columns = [f"f{d}" for d in range(self.dimension)]
        exams = self.exams.drop(columns=["_file", "_first", "frames"]).rename(columns={"id": "exam"})
        exams.columns = [f"column {name}" if name in features else name for name in exams]
        exams = exams.loc[np.repeat(np.arange(len(self)), self.exams["frames"])].reset_index(drop=True)
        frames = pd.concat([self.frames(row) for row in range(len(self))], ignore_index=True)
        frames.columns = [f"frame {name}" if name in exams or name in features else name for name in frames]
        return pd.concat([exams, frames, features], axis=1)

    def _open(self, exam):
        row = self.exams.iloc[self._row_of[exam] if isinstance(exam, str) else exam]
        return _Shard(self._files[row["_file"]], slice(row["_first"], row["_first"] + row["frames"]))


class _Shard:
    # Opened for each read, so that the workers of a DataLoader share no HDF5 handle.
    def __init__(self, file, rows):
        self._file, self._rows = file, rows

    def __enter__(self):
        self._shard = h5py.File(self._file)
        return self._shard, self._rows

    def __exit__(self, *error):
        self._shard.close()


def shard_files(path):
    """The HDF5 files of a cache. Beside x.h5, x.h5.shards/ holds what a running job has not packed yet."""
    folder = Path(f"{path}.shards") if path.suffix == ".h5" else path
    shards = sorted(f for f in folder.glob("shard-*.h5") if re.fullmatch(r"shard-\d+-\d+\.h5", f.name))
    files = ([path] if path.is_file() else []) + shards
    if not files:
        raise FileNotFoundError(f"no Coldframe cache at {path}")
    return files


def exam_table(exams):
    offset = exams["offset"][:].astype(np.int64)
    table = {name: values(exams[name]) for name in ("id", "patient", "ordinal", "revision", "start_time")}
    table["_first"], table["frames"] = offset[:-1], np.diff(offset)
    for name in exams.get("columns", ()):
        column = unquote(name)
        table[f"column {column}" if column in table else column] = values(exams["columns"][name])
    return pd.DataFrame(table)


def values(dataset, rows=slice(None)):
    return dataset.asstr()[rows] if h5py.check_string_dtype(dataset.dtype) else dataset[rows]


def escaped(name):
    """A view's or column's name as the name of its dataset (FORMAT.md)."""
    return re.sub(r"[%/\x00-\x1f\x7f]|^\.", lambda c: f"%{ord(c[0]):02X}", name)


def typed(column):
    """Columns are stored as text; one in which every value is a number becomes numbers. "" is missing."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    filled = column.fillna("")
    numbers = pd.to_numeric(filled.replace("", np.nan), errors="coerce")
    return numbers if (numbers.notna() | (filled == "")).all() and numbers.notna().any() else filled


class ExamDataset:
    """A torch Dataset of (features [T, D], time_s [T], present [T], target); exams without a target are left out.

    A target of text is its number in `classes`, which are sorted; for one of numbers `classes` is None.
    """

    def __init__(self, cache, target, view="clean"):
        self.cache, self.view, self.target = cache, view, target
        labelled = cache.exams[target].notna() & (cache.exams[target] != "")
        self.rows = np.flatnonzero(labelled)
        self.targets, self.classes = cache.exams[target].to_numpy()[self.rows], None
        if not pd.api.types.is_numeric_dtype(cache.exams[target]):
            self.classes, self.targets = np.unique(self.targets.astype(str), return_inverse=True)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, item):
        import torch

        row = int(self.rows[item])
        frames = self.cache.frames(row)
        return (
            torch.from_numpy(np.nan_to_num(self.cache.features(row, self.view))),
            torch.tensor(frames["time_s"].to_numpy()),
            torch.tensor(frames["present"].to_numpy()),
            self.targets[item].item(),
        )


def collate(exams):
    """Pads a batch to its longest exam; padding, like a missing frame, has present = False."""
    import torch

    features, times, present, targets = zip(*exams)
    pad = lambda parts: torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)  # noqa: E731
    return pad(features), pad(times), pad(present), torch.tensor(targets)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    opened = Cache(sys.argv[1])
    print(f"{len(opened)} exams, {opened.exams['frames'].sum()} frames, {opened.dimension} features per frame")
    print(opened.exams.drop(columns=["_file", "_first"]).head(10).to_string(index=False))
