"""What the stages of tests/gpu/run work with: commands within a stage's time, exams, caches."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time


class Skipped(Exception):
    """A stage that cannot run here, and why."""


@dataclasses.dataclass
class Context:
    root: pathlib.Path   # of the repository
    build: pathlib.Path  # with bin/ and tests/
    device: str
    work: pathlib.Path   # scratch, which the next start finds again
    log: pathlib.Path | None = None
    until: float = 0     # the end of the stage's time

    @property
    def small(self):
        """A try-out without a GPU: few and small numbers, which show that a stage runs."""
        return self.device == "cpu"

    def for_stage(self, stage, seconds):
        self.work.mkdir(parents=True, exist_ok=True)
        log = self.log_of(stage.name)
        log.unlink(missing_ok=True)
        return dataclasses.replace(self, log=log, until=time.monotonic() + seconds)

    def log_of(self, name):
        return self.work / f"{re.sub('[^a-z0-9]+', '-', name)}.log"

    def program(self, name):
        path = self.build / name
        if not path.exists():
            raise Skipped(f"{name} is not there")
        return path

    def start(self, *words, log):
        """A process that leads a group of its own, so that its children end with it."""
        log.write(f"$ {' '.join(map(str, words))}\n")
        log.flush()
        return subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                start_new_session=True, env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(self.work / "inductor")})

    def run(self, *words, expect=0):
        """Runs a command to the end of the stage's time. Its output goes to the stage's log as it comes."""
        with open(self.log, "a+") as log:
            begin = log.tell()
            job = self.start(*words, log=log)
            try:
                job.wait(max(1, self.until - time.monotonic()))
            finally:
                end_group(job)
            log.seek(begin)
            log.readline()  # the command
            text = log.read()
        if expect is not None and job.returncode != expect:
            last = "\n".join(text.strip().splitlines()[-6:])
            raise RuntimeError(f"{pathlib.Path(str(words[0])).name} ended with {job.returncode}: {last}")
        return text

    def end_when(self, ready, *words, by=signal.SIGKILL):
        """Runs a command until ready() holds, then sends it a signal. Its exit status."""
        with open(self.log, "a") as log:
            job = self.start(*words, log=log)
            try:
                while job.poll() is None and not ready() and time.monotonic() < self.until:
                    time.sleep(0.002)
                if job.poll() is None:
                    job.send_signal(by)
                return job.wait(max(1, self.until - time.monotonic()))
            finally:
                end_group(job)

    def coldframe(self, *words, expect=0):
        return self.run(self.program("bin/coldframe"), *words, expect=expect)

    def json_of(self, *words):
        """What a command prints with --json; its warnings are in the same log."""
        text = self.coldframe(*words, "--json", "--quiet")
        return json.loads(text[text.index("{\n"):text.rindex("}") + 1])


def end_group(job):
    """Kills a process and its children, whether or not it has ended itself."""
    try:
        os.killpg(job.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    job.wait()


def made_exams(context, exams=24, frames=12, side=256):
    """A manifest of PNG frames of low-pass noise that drifts, and is brighter where the label is 1."""
    import numpy
    from PIL import Image

    folder = context.work / f"exams-{exams}x{frames}"
    manifest = folder / "exams.csv"
    if manifest.exists():
        return manifest
    folder.mkdir(parents=True, exist_ok=True)
    random, rows = numpy.random.default_rng(0), ["exam,path,label"]
    for exam in range(exams):
        coarse = random.integers(0, 200, (16, 16, 3), dtype=numpy.uint8) + numpy.uint8(16 * (exam % 2))
        for frame in range(frames):
            image = Image.fromarray(numpy.roll(coarse, frame, axis=exam % 2)).resize((side, side), Image.BICUBIC)
            image.save(folder / f"{exam}-{frame}.png", compress_level=1)
            rows.append(f"exam{exam},{exam}-{frame}.png,{exam % 2}")
    manifest.write_text("\n".join(rows) + "\n")
    return manifest


RANDOM = ["--random-weights", 0, "--architecture", "vit_small_patch16_224", "--pool", "cls"]
TINY = ["--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--pool", "cls", "--image-size", 64]


def extract_words(context, out, *words, device=None, backbone=None, exams=None):
    return ["extract", "--input", exams or made_exams(context), "--out", context.work / out,
            *(backbone or (TINY if context.small else RANDOM)), "--mean", 0.5, "--std", 0.5, "--device", device or context.device,
            *words]


def extract(context, out, *words, **settings):
    return context.coldframe(*extract_words(context, out, *words, **settings))


def fresh(context, *names):
    """Removes these outputs, and what killed jobs left of them."""
    for name in names:
        for path in [context.work / name, *context.work.glob(f"{name}.*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def min_cosine(context, a, b):
    """Of the features of all frames of two caches."""
    import numpy

    sys.path.insert(0, str(context.root / "common/python"))
    from coldframe import Cache

    one, other = Cache(context.work / a), Cache(context.work / b)
    assert list(one.exams["exam"]) == list(other.exams["exam"]), "the caches hold other exams"
    x = numpy.concatenate([one.features(exam) for exam in one.exams["exam"]]).astype(numpy.float64)
    y = numpy.concatenate([other.features(exam) for exam in one.exams["exam"]]).astype(numpy.float64)
    return float(((x * y).sum(1) / numpy.linalg.norm(x, axis=1) / numpy.linalg.norm(y, axis=1)).min())
