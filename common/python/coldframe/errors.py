"""What the programs end with becomes an exception, with the program's own message."""


class ColdframeError(Exception):
    """A program of Coldframe ended with an error; its message says what was found, what was expected and what to do."""

    exit_code = 3


class UsageError(ColdframeError):
    """An option or its value is wrong (exit code 2)."""

    exit_code = 2


class JobError(ColdframeError):
    """Input, weights, cache or machine do not allow it (exit code 3, and any other that is not listed)."""


class Stopped(ColdframeError):
    """The job was stopped and can be continued by the same call (exit code 75; `train` with resume=True)."""

    exit_code = 75
