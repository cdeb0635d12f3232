"""Programs that have loaded their libraries and wait for command lines: most of a short test is their start and end.

Signals, standard input, times, and variables that libraries read as they are loaded are for processes of their own."""
import atexit
import functools
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))

# MONAI and torch's inductor set it as they are imported, in whichever process of tests does so first.
OF_LIBRARIES = ["CUBLAS_WORKSPACE_CONFIG"]


class LoadedProgram:
    def __init__(self, program):
        self.program = os.fspath(program)
        self.commands, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if name not in OF_LIBRARIES}
        # A session of its own: who stops the tests does not stop it before its last run has ended.
        self.process = subprocess.Popen(
            [self.program], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
            env=environment | {"LD_PRELOAD": str(BUILD / "tests" / "loaded_program.so"), "COLDFRAME_TEST_COMMANDS": str(theirs.fileno())})
        theirs.close()

    def run(self, words, cwd=None, text=True, variables={}):
        """Returns what subprocess.run([program, *words], capture_output=True, text=text, cwd=cwd) does, with further
        variables in its environment."""
        command = [self.program, *map(str, words)]
        before = [*(f"{name}={value}" for name, value in variables.items()), os.path.abspath(cwd or ".")]
        message = b"".join(os.fsencode(word) + b"\0" for word in [*before, *command])
        assert len(message) < 1 << 16, "loaded_program.c reads no more"
        self.commands.settimeout(600)  # a program that hangs
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            socket.send_fds(self.commands, [message], [output.fileno(), errors.fileno()])
            status = self.commands.recv(4)
            assert status, f"{self.program} has ended"
            said = []
            for stream in (output, errors):
                stream.seek(0)
                said.append(stream.read().decode() if text else stream.read())
        return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(int.from_bytes(status, sys.byteorder)), *said)

    def close(self):
        self.commands.close()
        self.process.wait()


@functools.cache
def loaded(program):
    """One of each program in a process of tests."""
    found = LoadedProgram(program)
    atexit.register(found.close)
    return found


def coldframe(*words, variables={}):
    """What `coldframe WORDS…` does, by the program that it becomes."""
    if words[0] == "cache":
        return loaded(BUILD / "bin" / "coldframe-cache").run(words[1:], variables=variables)
    return loaded(BUILD / "bin" / "coldframe-train_temporal").run(words, variables=variables)
