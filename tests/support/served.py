"""Drivers (support/driver.h) that start once for all tests of a worker."""

import functools
import json
import os
import pathlib
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))


class Server:
    def __init__(self, name):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([BUILD / "tests" / name, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)

    def run(self, words):
        self.errors.seek(0)
        self.errors.truncate()
        print(json.dumps(words), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        self.errors.seek(0)
        messages = self.errors.read()
        if not answer:
            return subprocess.CompletedProcess(words, self.process.wait(), "", messages)
        answer = json.loads(answer)
        return subprocess.CompletedProcess(words, answer["code"], answer["output"], messages)


server = functools.cache(Server)


def run(name, *words):
    """What `build/tests/NAME WORDS…` would do, as subprocess.run(…, capture_output=True, text=True) tells it."""
    done = server(name).run([str(word) for word in words])
    if server(name).process.poll() is not None:
        server.cache_clear()
    return done
