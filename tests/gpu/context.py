"""What the stages of tests/gpu/run work with: commands within a stage's time, exams, caches."""
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time


@dataclasses.dataclass
class Context:
    root: pathlib.Path   # of the repository
    build: pathlib.Path  # with bin/ and tests/
    device: str
    out: pathlib.Path    # outputs of stages
    work: pathlib.Path   # scratch
    log: pathlib.Path | None = None
    until: float = 0     # the end of the stage's time

    def limit(self, stage):
        return stage.seconds * (10 if self.device == "cpu" else 1)  # a try-out may take its time

    def for_stage(self, stage):
        return dataclasses.replace(self, log=self.out / f"{stage.name.replace(' ', '-')}.log",
                                   until=time.monotonic() + self.limit(stage))

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

    def kill_when(self, ready, *words):
        """Runs a command until ready() holds, then kills it. False when it ended before."""
        with open(self.log, "a") as log:
            job = self.start(*words, log=log)
            while job.poll() is None and not ready() and time.monotonic() < self.until:
                time.sleep(0.02)
            end_group(job)
        return job.returncode != 0

    def coldframe(self, *words, expect=0):
        return self.run(self.build / "bin" / "coldframe", *words, expect=expect)


def end_group(job):
    """Kills a process and its children, whether or not it has ended itself."""
    try:
        os.killpg(job.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    job.wait()


def made_exams(context, exams=24, frames=12, side=256):
    """A manifest of PNG frames of low-pass noise that drifts."""
    import numpy
    from PIL import Image

    folder = context.work / f"exams-{exams}"
    manifest = folder / "exams.csv"
    if manifest.exists():
        return manifest
    folder.mkdir(parents=True, exist_ok=True)
    random, rows = numpy.random.default_rng(0), ["exam,path,label"]
    for exam in range(exams):
        coarse = random.integers(0, 255, (16, 16, 3), dtype=numpy.uint8)
        for frame in range(frames):
            image = Image.fromarray(numpy.roll(coarse, frame, axis=exam % 2)).resize((side, side), Image.BICUBIC)
            image.save(folder / f"{exam}-{frame}.png", compress_level=1)
            rows.append(f"exam{exam},{exam}-{frame}.png,{exam % 2}")
    manifest.write_text("\n".join(rows) + "\n")
    return manifest


RANDOM = ["--random-weights", 0, "--architecture", "vit_small_patch16_224", "--pool", "cls"]


def extract(context, out, *words, device=None, backbone=RANDOM):
    return context.coldframe("extract", "--input", made_exams(context), "--out", context.work / out, *backbone, "--mean", 0.5,
                             "--std", 0.5, "--device", device or context.device, *words)


def fresh(context, *names):
    """Removes these outputs, and what killed jobs left of them."""
    for name in names:
        for path in [context.work / name, *context.work.glob(f"{name}.*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def least_cosine(context, a, b):
    """Of the features of all frames of two caches."""
    import numpy

    sys.path.insert(0, str(context.root / "common/python"))
    from coldframe import Cache

    one, other = Cache(context.work / a), Cache(context.work / b)
    assert list(one.exams["id"]) == list(other.exams["id"]), "the caches hold other exams"
    x = numpy.concatenate([one.features(exam) for exam in one.exams["id"]]).astype(numpy.float64)
    y = numpy.concatenate([other.features(exam) for exam in one.exams["id"]]).astype(numpy.float64)
    return float(((x * y).sum(1) / numpy.linalg.norm(x, axis=1) / numpy.linalg.norm(y, axis=1)).min())
