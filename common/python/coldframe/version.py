"""The version of the installed package; "0" where the sources are imported as they lie."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("coldframe")
except PackageNotFoundError:
    __version__ = "0"
