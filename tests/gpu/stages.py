"""The stages of tests/gpu/run. Each is a function of a Context; it returns figures to print, and raises what is wrong."""
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
import typing


KERNELS = "*Kernels*:Numbers.*:CudaLibrary.*"  # of tests/vit_tests


@dataclasses.dataclass
class Context:
    root: pathlib.Path   # of the repository
    build: pathlib.Path  # with bin/ and tests/
    device: str
    out: pathlib.Path    # outputs of stages
    work: pathlib.Path   # scratch
    log: pathlib.Path | None = None
    until: float = 0     # the end of the stage's time

    def for_stage(self, stage):
        return dataclasses.replace(self, log=self.out / f"{stage.name.replace(' ', '-')}.log",
                                   until=time.monotonic() + stage.seconds)

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


def gtest(program, pattern="*"):
    def stage(context):
        text = context.run(context.build / "tests" / program, f"--gtest_filter={pattern}", "--gtest_brief=1")
        skipped = re.search(r"SKIPPED \] (\d+)", text)
        if skipped and context.device != "cpu":
            raise RuntimeError(f"{skipped[1]} tests were skipped: {text[-400:]}")
        return {"tests": re.search(r"(\d+) tests? from", text)[1]}

    return stage


def sanitizer(context):
    """Memory errors in the kernels, by compute-sanitizer, where it is."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(tool).exists():
        return {"compute-sanitizer": "not on this machine"}
    text = context.run(tool, "--error-exitcode", 9, context.build / "tests/vit_tests", "--gtest_brief=1",
                       f"--gtest_filter={KERNELS}")
    return {"compute-sanitizer": text.strip().splitlines()[-1]}


def vit(model, size, batch, rounds=5, passes=20):
    """The engine beside its peers. What it measured before a time limit is kept; the same stage goes on from there."""
    def stage(context):
        small = context.device == "cpu"
        words = ["--device", context.device, "--build", context.build, "--model", model, "--size", size, "--rounds",
                 min(rounds, 2) if small else rounds, "--passes", 1 if small else passes, "--batch", 2 if small else batch,
                 "--state", context.log.with_suffix(".json")]
        script = context.root / "tests/benchmarks/vit/gpu.py"
        text = context.run(sys.executable, script, *words, *(["--peers", "eager"] if small else []))
        lines = [line.strip() for line in text.splitlines()
                 if line.startswith(("engine", "timm", "layers", "  ")) and not line.startswith("  round")]
        return {f"line {i + 1}": line for i, line in enumerate(lines)}

    return stage


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


def extract(context, out, *words, device=None, expect=0):
    return context.coldframe("extract", "--input", made_exams(context), "--out", context.work / out, "--random-weights", 0,
                             "--architecture", "vit_small_patch16_224", "--pool", "cls", "--mean", 0.5, "--std", 0.5,
                             "--device", device or context.device, *words, expect=expect)


def fresh(context, *names):
    for name in names:
        path = context.work / name
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


def parity(context):
    """A whole cache of the GPU beside the CPU's in fp32."""
    fresh(context, "cpu.h5", "fp32.h5", "bf16.h5", "auto.h5")
    extract(context, "cpu.h5", "--precision", "fp32", device="cpu")
    figures = {}
    for precision, least in [("fp32", 0.99999), ("bf16", 0.9999), ("auto", 0.9999)]:
        text = extract(context, f"{precision}.h5", "--precision", precision)
        figures[f"{precision}: least cosine"] = found = least_cosine(context, "cpu.h5", f"{precision}.h5")
        if found < least:
            raise RuntimeError(f"{precision}: least cosine {found}, expected {least}")
        if "without CUDA graphs" in text or "operators" in text:
            raise RuntimeError(f"{precision}: another way than the engine with graphs: {text[-400:]}")
    return figures


def out_of_memory(context):
    """A batch that a budget does not hold is halved, and the features are the same."""
    fresh(context, "whole.h5", "tight.h5")
    extract(context, "whole.h5", "--precision", "bf16", "--batch", 256)
    text = extract(context, "tight.h5", "--precision", "bf16", "--batch", 256, "--memory-budget", "400MiB")
    halved = re.findall(r"out of memory at (\d+) frames; continuing with (\d+)", text)
    found = least_cosine(context, "whole.h5", "tight.h5")
    if not halved or found < 0.99999:
        raise RuntimeError(f"halved: {halved}, least cosine {found}")
    return {"halved": " ".join(f"{a} to {b}" for a, b in halved), "least cosine": found}


def kill(context):
    """A killed job, run again, gives the cache of an undisturbed one."""
    fresh(context, "killed.cache")
    undisturbed = context.work / "whole.h5"
    if not undisturbed.exists():
        extract(context, "whole.h5", "--precision", "bf16", "--batch", 256)
    words = [context.build / "bin/coldframe", "extract", "--input", made_exams(context), "--out", context.work / "killed.cache",
             "--random-weights", 0, "--architecture", "vit_small_patch16_224", "--pool", "cls", "--mean", 0.5, "--std", 0.5,
             "--device", context.device, "--precision", "bf16", "--batch", 8]
    killed = context.kill_when((context.work / "killed.cache").exists, *words)  # it computes from then on
    extract(context, "killed.cache", "--precision", "bf16")
    found = least_cosine(context, "whole.h5", "killed.cache")
    if found < 0.99999:
        raise RuntimeError(f"least cosine {found}")
    return {"killed": killed, "least cosine": found}


def pipeline(context):
    """Files to cache beside PyTorch's DataLoader: 20 000 small frames, so that starting up is a small part of it."""
    script, small = context.root / "tests/benchmarks/extract/benchmark.py", context.device == "cpu"
    text = context.run(sys.executable, script, "--device", context.device, "--build", context.build, "--only", "jpegs",
                       "--rounds", 2, "--precision", "bf16", "--peers", "bf16", "--side", 256,
                       "--exams", 4 if small else 2500, "--batch", 16 if small else 256)
    return {f"line {i + 1}": line.strip() for i, line in enumerate(text.strip().splitlines()[-6:])}


def training_cache(context):
    sys.path.insert(0, str(context.root / "tests/train_temporal"))
    os.environ["COLDFRAME_BUILD"] = str(context.build)
    import training_support

    made = context.work / "training" / "made.cache"
    if not made.exists():
        shutil.rmtree(made.parent, ignore_errors=True)
        made.parent.mkdir(parents=True)
        training_support.ramp_cache(made.parent, count=96, frames=20, dimension=384, patients=96)
    return made


def train_words(context, out, epochs=8, device=None):
    return ["train", "--cache", training_cache(context), "--target", "label", "--out", context.work / out, "--folds", 2,
            "--epochs", epochs, "--batch", 16, "--bootstrap", 50, "--device", device or context.device]


def train(context, out, *words, **settings):
    fresh(context, out)
    return context.coldframe(*train_words(context, out, **settings), *words)


def same_numbers(context, a, b, tolerance, file="metrics.csv"):
    """The largest difference of any number in a table of two runs."""
    def rows(run):
        lines = (context.work / run / file).read_text().splitlines()
        return [line.split(",") for line in lines[1:]]

    worst = 0.0
    for one, other in zip(rows(a), rows(b), strict=True):
        for x, y in zip(one, other, strict=True):
            try:
                worst = max(worst, abs(float(x) - float(y)))
            except ValueError:  # no number
                if x != y:
                    raise RuntimeError(f"{file} of {a} has '{x}' where that of {b} has '{y}'") from None
    if not worst <= tolerance:
        raise RuntimeError(f"{file}: {a} and {b} differ by {worst}, expected {tolerance} at most")
    return worst


def beside_cpu(context, name, tolerance, *words):
    """Trains on the device and on the CPU, for one epoch, whose losses hold rounding but not yet its growth."""
    text = train(context, f"run-{name}", *words, epochs=1)
    train(context, f"run-{name}-cpu", *words, epochs=1, device="cpu")
    return text, same_numbers(context, f"run-{name}", f"run-{name}-cpu", tolerance)


def models(context):
    """Every model trains on the device without a warning, to the CPU's losses."""
    figures = {}
    for model in ["gru", "bigru", "lstm", "transformer", "tcn", "attention", "mean", "single", "clock"]:
        text, difference = beside_cpu(context, model, 1e-3, "--model", model)
        warnings = [line for line in text.splitlines() if "warning" in line.lower() and "ms: " not in line]
        figures[model] = f"differs by {difference:.1e}{'; ' + warnings[0] if warnings else ''}"
        if any("contiguous chunk" in line or "UserWarning" in line for line in warnings):
            raise RuntimeError(f"{model}: {warnings[0]}")
    return figures


def budget(context):
    """Micro-batches within a budget give the same losses."""
    text = train(context, "run-whole", "--hidden", 128)
    peak = re.search(r"peak[^\n]*", text)
    tight = train(context, "run-tight", "--hidden", 128, "--memory-budget", "100MiB")
    return {"whole": peak[0] if peak else "", "difference": same_numbers(context, "run-whole", "run-tight", 1e-4),
            "tight": (re.search(r"peak[^\n]*", tight) or [""])[0]}


def amp(context):
    """Half precision on the device beside float32 on the CPU: bfloat16 has 8 bits, float16 11."""
    figures = {}
    for precision, tolerance in [("bf16", 0.05), ("fp16", 0.01)]:
        train(context, f"run-{precision}", "--amp", precision, epochs=1)
        train(context, "run-fp32-cpu", epochs=1, device="cpu")
        figures[precision] = f"differs by {same_numbers(context, f'run-{precision}', 'run-fp32-cpu', tolerance):.1e}"
    return figures


def resume(context):
    """A training run that is killed and resumed ends as one that was not."""
    train(context, "run-straight", epochs=40)
    fresh(context, "run-resumed", "run-resumed.unfinished")
    words = [context.build / "bin/coldframe", *train_words(context, "run-resumed", epochs=40)]
    state = context.work / "run-resumed.unfinished" / "state"
    killed = context.kill_when(lambda: state.exists() and any(state.iterdir()), *words)
    if killed:
        context.run(*words, "--resume")
    return {"killed": killed, "difference": same_numbers(context, "run-straight", "run-resumed", 1e-6)}


@dataclasses.dataclass
class Stage:
    name: str
    part: int
    seconds: int  # at most
    run: typing.Callable


SMALL, REGISTERS = ("vit_small_patch16_224", 224, 256), ("vit_small_patch14_reg4_dinov2", 392, 128)
# torch.compile keeps what it compiled (Context.start), so that the stage behind it measures only.
STAGES = [
    Stage("kernels", 1, 60, gtest("vit_tests", KERNELS)),
    Stage("engine", 1, 90, gtest("vit_tests", "GpuEngineOnGpu.*")),
    Stage("transfer", 1, 40, gtest("vit_tests", "*Staging*")),
    Stage("backbone", 1, 60, gtest("vit_tests", "*OnAGpu*")),
    Stage("sanitizer", 1, 90, sanitizer),
    Stage("compile small at 224", 2, 190, vit(*SMALL, rounds=1, passes=1)),
    Stage("vit small at 224", 2, 400, vit(*SMALL)),
    Stage("compile small at 392", 3, 190, vit(*REGISTERS, rounds=1, passes=1)),
    Stage("vit small at 392", 3, 400, vit(*REGISTERS)),
    Stage("input", 4, 30, gtest("extract_tests", "*Gpu*")),
    Stage("parity", 4, 100, parity),
    Stage("out of memory", 4, 40, out_of_memory),
    Stage("kill", 4, 40, kill),
    Stage("models", 4, 120, models),
    Stage("budget", 4, 40, budget),
    Stage("amp", 4, 60, amp),
    Stage("resume", 4, 50, resume),
    Stage("pipeline", 5, 500, pipeline),
]
PARTS = sorted({stage.part for stage in STAGES})
