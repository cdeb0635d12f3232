"""CSV files as the programs write them."""

from __future__ import annotations

import os

import pandas as pd

_NAMES = ("exam", "patient", "part", "name")  # stay text, though all may be digits


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A table; a field that a spreadsheet would compute was written with an apostrophe in front, which is taken off."""
    table = pd.read_csv(path, dtype={name: str for name in _NAMES}, keep_default_na=False, na_values=[""])
    table = table.rename(columns=_plain)
    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            table[name] = table[name].map(_plain, na_action="ignore")
    return table


def _plain(text: object) -> object:
    risky = (
        isinstance(text, str)
        and text[:1] == "'"
        and text[1:2] in ("=", "+", "-", "@", "'", "\t", "\r")
        and len(text) > 1
    )
    return text[1:] if risky and isinstance(text, str) else text
