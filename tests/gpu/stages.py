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

    def run(self, *words, expect=0, environment=None):
        """Runs a command to the end of the stage's time; its output goes to the stage's log too."""
        done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=max(1, self.until - time.monotonic()), env=os.environ | (environment or {}))
        with open(self.log, "a") as log:
            log.write(f"$ {' '.join(map(str, words))}\n{done.stdout}\n")
        if expect is not None and done.returncode != expect:
            last = "\n".join(done.stdout.strip().splitlines()[-6:])
            raise RuntimeError(f"{pathlib.Path(str(words[0])).name} ended with {done.returncode}: {last}")
        return done.stdout

    def coldframe(self, *words, expect=0):
        return self.run(self.build / "bin" / "coldframe", *words, expect=expect)


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


def vit(model, size, batch):
    def stage(context):
        small = context.device == "cpu"
        words = ["--device", context.device, "--build", context.build, "--model", model, "--size", size, "--rounds",
                 2 if small else 5, "--passes", 1 if small else 20, "--batch", 2 if small else batch]
        script = context.root / "tests/benchmarks/vit/gpu.py"
        text = context.run(sys.executable, script, *words, *(["--peers", "eager"] if small else []))
        lines = [line.strip() for line in text.splitlines() if line.startswith(("engine", "timm", "layers", "  "))]
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

    sys.path.insert(0, str(context.root / "examples"))
    from read_cache import Cache

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
    job = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while job.poll() is None and not (context.work / "killed.cache").exists():  # it computes from then on
        time.sleep(0.02)
    job.send_signal(signal.SIGKILL)
    killed = job.wait() != 0
    extract(context, "killed.cache", "--precision", "bf16")
    found = least_cosine(context, "whole.h5", "killed.cache")
    if found < 0.99999:
        raise RuntimeError(f"least cosine {found}")
    return {"killed": killed, "least cosine": found}


def pipeline(context):
    """Files to cache beside PyTorch's DataLoader."""
    script = context.root / "tests/benchmarks/extract/benchmark.py"
    text = context.run(sys.executable, script, "--device", context.device, "--build", context.build, "--only", "jpegs", "--rounds", 2,
                       "--precision", "bf16", "--peers", "bf16", "--exams", 4 if context.device == "cpu" else 80)
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


def train(context, out, *words, expect=0):
    fresh(context, out)
    return context.coldframe("train", "--cache", training_cache(context), "--target", "label", "--out", context.work / out,
                             "--folds", 2, "--epochs", 8, "--batch", 16, "--bootstrap", 50, "--device", context.device, *words,
                             expect=expect)


def models(context):
    """Every model trains on the device without a warning."""
    figures = {}
    for model in ["gru", "bigru", "lstm", "transformer", "tcn", "attention", "mean", "single", "clock"]:
        text = train(context, f"run-{model}", "--model", model)
        warnings = [line for line in text.splitlines() if "warning" in line.lower() and "ms: " not in line]
        auroc = re.search(r"AUROC\s+([\d.]+)", text)
        figures[model] = f"AUROC {auroc[1] if auroc else '?'}{'; ' + warnings[0] if warnings else ''}"
        if any("contiguous chunk" in line or "UserWarning" in line for line in warnings):
            raise RuntimeError(f"{model}: {warnings[0]}")
    return figures


def same_losses(context, a, b, tolerance):
    def losses(run):
        lines = (context.work / run / "metrics.csv").read_text().splitlines()
        return [line.split(",") for line in lines[1:]]

    worst = 0.0
    for one, other in zip(losses(a), losses(b), strict=True):
        for x, y in zip(one, other):
            try:
                worst = max(worst, abs(float(x) - float(y)))
            except ValueError:
                pass
    if not worst <= tolerance:
        raise RuntimeError(f"figures of {a} and {b} differ by {worst}, expected {tolerance} at most")
    return worst


def budget(context):
    """Micro-batches within a budget give the same losses."""
    text = train(context, "run-whole", "--hidden", 128)
    peak = re.search(r"peak[^\n]*", text)
    tight = train(context, "run-tight", "--hidden", 128, "--memory-budget", "100MiB")
    return {"whole": peak[0] if peak else "", "difference": same_losses(context, "run-whole", "run-tight", 1e-4),
            "tight": (re.search(r"peak[^\n]*", tight) or [""])[0]}


def amp(context):
    figures = {}
    for precision in ["bf16", "fp16"]:
        text = train(context, f"run-{precision}", "--amp", precision)
        auroc = re.search(r"AUROC\s+([\d.]+)", text)
        figures[precision] = f"AUROC {auroc[1] if auroc else '?'}"
    return figures


def resume(context):
    """A training run that is killed and resumed ends as one that was not."""
    train(context, "run-straight", "--epochs", 40)
    fresh(context, "run-resumed")
    words = [context.build / "bin/coldframe", "train", "--cache", training_cache(context), "--target", "label", "--out",
             context.work / "run-resumed", "--folds", 2, "--epochs", 40, "--batch", 16, "--bootstrap", 50, "--device",
             context.device]
    job = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = context.work / "run-resumed.unfinished" / "state"
    while job.poll() is None and not (state.exists() and any(state.iterdir())):
        time.sleep(0.02)
    job.send_signal(signal.SIGKILL)
    killed = job.wait() != 0
    if killed:
        context.run(*words, "--resume")
    return {"killed": killed, "difference": same_losses(context, "run-straight", "run-resumed", 1e-6)}


@dataclasses.dataclass
class Stage:
    name: str
    part: int
    seconds: int  # at most
    run: typing.Callable


STAGES = [
    Stage("kernels", 1, 60, gtest("vit_tests", KERNELS)),
    Stage("engine", 1, 90, gtest("vit_tests", "GpuEngineOnGpu.*")),
    Stage("transfer", 1, 40, gtest("vit_tests", "*Staging*")),
    Stage("backbone", 1, 60, gtest("vit_tests", "*OnAGpu*")),
    Stage("sanitizer", 1, 90, sanitizer),
    Stage("vit small at 224", 1, 120, vit("vit_small_patch16_224", 224, 256)),
    Stage("vit small at 392", 1, 110, vit("vit_small_patch14_reg4_dinov2", 392, 128)),
    Stage("input", 2, 30, gtest("extract_tests", "*Gpu*")),
    Stage("parity", 2, 100, parity),
    Stage("out of memory", 2, 40, out_of_memory),
    Stage("kill", 2, 40, kill),
    Stage("models", 2, 90, models),
    Stage("budget", 2, 40, budget),
    Stage("amp", 2, 40, amp),
    Stage("resume", 2, 50, resume),
    Stage("pipeline", 2, 120, pipeline),
]
