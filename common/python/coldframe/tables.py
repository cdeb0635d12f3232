"""CSV files as the programs write them."""

from __future__ import annotations

import re

import pandas as pd

from coldframe.programs import Place

_NAMES = ("exam", "patient", "part", "name")  # stay text, though all may be digits
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # what a spreadsheet computes, and what begins like its guarded form


def read_csv(path: Place) -> pd.DataFrame:
    """A table; a field that a spreadsheet would compute was written with an apostrophe in front, which is taken off."""
    table = pd.read_csv(path, dtype={name: str for name in _NAMES}, keep_default_na=False, na_values=[""])
    table = table.rename(columns=_plain)
    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            table[name] = table[name].map(_plain, na_action="ignore")
    return table


def write_csv(table: pd.DataFrame, path: Place) -> None:
    """Writes a table so that the programs read the same texts."""
    guarded = table.copy(deep=False)
    for name in guarded.columns:
        if not pd.api.types.is_numeric_dtype(guarded[name]):
            guarded[name] = guarded[name].map(_guarded)
    # A field with a line end of either kind is quoted where rows end with both.
    guarded.rename(columns=_guarded).to_csv(path, index=False, lineterminator="\r\n")


def _guarded(text: object) -> object:
    return f"'{text}" if isinstance(text, str) and _FORMULA.match(text) else text


def _plain(text: object) -> object:
    return text[1:] if isinstance(text, str) and text[:1] == "'" and _FORMULA.match(text) else text
