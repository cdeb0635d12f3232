"""The stages of tests/gpu/run. Each is a function of a Context; it returns figures to print, and raises what is wrong."""
import dataclasses
import json
import os
import re
import sys
import typing

import speed
import training
from caches import cut_cache, training_cache
from context import RANDOM, extract, extract_words, fresh, min_cosine


KERNELS = "*Kernels*:Numbers.*:CudaLibrary.*"  # of tests/vit_tests


def gtest(program, pattern="*"):
    def stage(context):
        text = context.run(context.program(f"tests/{program}"), f"--gtest_filter={pattern}", "--gtest_brief=1")
        skipped = re.search(r"SKIPPED \] (\d+)", text)
        if skipped and context.device != "cpu":
            raise RuntimeError(f"{skipped[1]} tests were skipped: {text[-400:]}")
        found = int(re.search(r"(\d+) tests? from", text)[1])
        if not found:
            raise RuntimeError(f"{program} has no test of {pattern}")
        return {"tests": found, **({"skipped": skipped[1]} if skipped else {})}

    return stage


def vit(model, size, batch, peers=("eager", "compile"), rounds=3, passes=20):
    """The engine beside its peers. Turns that were measured before are kept: a stage goes on where its time ended, and one
    with further peers measures these alone."""
    def stage(context):
        context.program("tests/vit_gpu_speed")
        words = ["--model", model, "--batch", batch, "--size", size, "--rounds", rounds, "--passes", passes, "--peers", *peers]
        if context.small:  # where the kernels' twins compute, one number at a time
            words = ["--model", "vit_tiny_patch16_224", "--batch", 2, "--size", 32, "--rounds", 1, "--passes", 1, "--peers",
                     "eager"]
        text = context.run(sys.executable, context.root / "tests/benchmarks/vit/gpu.py", *words, "--device", context.device,
                           "--build", context.build, "--state", context.work / "vit-turns.json")
        lines = [line.strip() for line in text.splitlines()
                 if line.startswith(("engine", "timm", "layers", "  ")) and not line.startswith("  round")]
        return {f"line {i + 1}": " ".join(line.split()) for i, line in enumerate(lines)} | ratio_of(lines, context)

    return stage


FASTEST = "engine residual=bf16,gelu=1"  # what --precision auto takes


def ratio_of(lines, context):
    """The figure that the README states: of --precision auto to the best peer."""
    found = [re.search(r"([\d.]+) x (timm \w+)", line) for line in lines if line.startswith(f"{FASTEST}: ")]
    if not found or not found[0]:
        raise RuntimeError(f"no ratio of '{FASTEST}' to a peer")
    ratio = float(found[0][1])
    return {f"auto / {found[0][2]}": speed.goal(context, ratio, 1.3)}


def parity(context):
    """A whole cache of the GPU beside the CPU's in fp32."""
    fresh(context, "cpu.h5", "fp32.h5", "bf16.h5", "auto.h5")
    extract(context, "cpu.h5", "--precision", "fp32", device="cpu")
    figures = {}
    # bfloat16 has 8 bits; `auto` also rounds what blocks add to, where its own check (kMinCosine) lets it.
    for precision, least in [("fp32", 0.99999), ("bf16", 0.9995), ("auto", 0.999)]:
        text = extract(context, f"{precision}.h5", "--precision", precision)
        figures[f"{precision}: least cosine"] = found = min_cosine(context, "cpu.h5", f"{precision}.h5")
        if found < least:
            raise RuntimeError(f"{precision}: least cosine {found}, expected {least}")
        if "without CUDA graphs" in text or "operators" in text:
            raise RuntimeError(f"{precision}: another way than the engine with graphs: {text[-400:]}")
    return figures


def start(context):
    """What the start of a job takes, by its stages, when the libraries have been read from the disk before."""
    for _ in range(2):
        fresh(context, "start.h5")
        text = extract(context, "start.h5", "--json", "--quiet")
    summary = json.loads(text[text.index("{"):text.rindex("}") + 1])
    seconds = {name: f"{took:.3f} s" for name, took in summary["stage_seconds"].items()}
    return seconds | {"frames in": f"{summary['seconds']:.3f} s", "batch": summary["batch"]}


def out_of_memory(context):
    """A batch that a budget does not hold is halved, and the features are the same."""
    fresh(context, "roomy.h5", "tight.h5")
    words = ["--precision", "bf16", "--batch", 256]
    extract(context, "roomy.h5", *words, backbone=RANDOM)
    budget = "200MiB" if context.small else "400MiB"  # the CPU's engine works in less
    text = extract(context, "tight.h5", *words, "--memory-budget", budget, backbone=RANDOM)
    halved = re.findall(r"out of memory at (\d+) frames; continuing with (\d+)", text)
    found = min_cosine(context, "roomy.h5", "tight.h5")
    if not halved or found < 0.9999:
        raise RuntimeError(f"halved: {halved}, least cosine {found}")
    return {"halved": " ".join(f"{a} to {b}" for a, b in halved), "least cosine": found}


def kill(context):
    """A killed job, run again, gives the cache of an undisturbed one, but for what other batches round otherwise."""
    fresh(context, "killed.cache")
    undisturbed = context.work / "whole.h5"
    if not undisturbed.exists():
        extract(context, "whole.h5", "--precision", "bf16", "--batch", 256)
    words = [context.program("bin/coldframe"), *extract_words(context, "killed.cache", "--precision", "bf16", "--batch", 8)]
    status = context.end_when((context.work / "killed.cache").exists, *words)  # it computes from then on
    if status != -9:
        raise RuntimeError(f"killed while it computes: ended with {status}")
    extract(context, "killed.cache", "--precision", "bf16")
    found = min_cosine(context, "whole.h5", "killed.cache")
    if found < 0.9999:
        raise RuntimeError(f"least cosine {found}, expected 0.9999")
    return {"least cosine": found}


def compiled(context):
    """A ViT as TorchScript and as a package of AOTInductor, each compiled for the device, beside its own weights."""
    context.run(sys.executable, context.root / "tests/gpu/compiled_vit.py", context.work, context.device)
    fresh(context, "weights.h5", "script.h5", "package.h5")
    exact = ["--precision", "fp32", "--frames", 2]
    extract(context, "weights.h5", *exact, backbone=["--weights", context.work / "vit.safetensors", "--pool", "cls", "--heads", 6])
    figures = {}
    for name, file in [("script", "vit.pt"), ("package", "vit.pt2")]:
        extract(context, f"{name}.h5", *exact, backbone=["--backbone", context.work / file, "--image-size", 224])
        figures[f"{name}: least cosine"] = found = min_cosine(context, "weights.h5", f"{name}.h5")
        if found < 0.9999:
            raise RuntimeError(f"{name}: least cosine {found}, expected 0.9999")
    return figures


def pipeline(context):
    """Files to cache beside PyTorch's DataLoader and timm: 4 000 frames, start included."""
    context.program("bin/coldframe-train_temporal")
    precision = "fp32" if context.small else "bf16"  # which a CPU without instructions for it emulates
    side, exams, batch = (224, 2, 16) if context.small else (512, 500, 256)
    text = context.run(sys.executable, context.root / "tests/benchmarks/extract/benchmark.py", "--device", context.device,
                       "--build", context.build, "--only", "jpegs", "--rounds", 1 if context.small else 2, "--precision",
                       precision, "--peers", precision, "--side", side, "--exams", exams, "--batch", batch, "--workers",
                       max(1, (os.cpu_count() or 2) - 1))
    figures = {f"line {i + 1}": " ".join(line.split()) for i, line in enumerate(text.strip().splitlines()[-5:])}
    ratio = float(re.search(r"ratio to the best of these +([\d.]+)", text)[1])
    return figures | {"DataLoader's time / ours": speed.goal(context, ratio, 5)}


@dataclasses.dataclass
class Stage:
    name: str
    part: int
    seconds: int  # at most
    run: typing.Callable


def kernel_tests(context):
    return [context.program("tests/vit_tests"), "--gtest_brief=1", f"--gtest_filter={KERNELS}"]


def last_block(context):
    return cut_cache(context, 11)


def steps(*words, cache=training_cache):
    """A command that takes a few training steps."""
    def command(context):
        fresh(context, "run-sanitized")
        return [context.program("bin/coldframe"), *training.train_words(context, "run-sanitized", epochs=1, cache=cache(context)),
                *words]

    return command


SMALL, REGISTERS = ("vit_small_patch16_224", 224, 256), ("vit_small_patch14_reg4_dinov2", 392, 128)
AUTOTUNE = ("eager", "compile", "autotune")
# In the order of what they tell in a minute. Part 1 needs the archive `vit` alone, the others all. torch.compile keeps
# what it compiled (Context.start).
STAGES = [
    Stage("kernels", 1, 60, gtest("vit_tests", KERNELS)),
    Stage("engine", 1, 90, gtest("vit_tests", "Gpu*OnGpu.*")),
    Stage("transfer", 1, 40, gtest("vit_tests", "*Staging*")),
    Stage("backbone", 1, 60, gtest("vit_tests", "*OnAGpu*")),
    Stage("sanitizer: kernels", 1, 90, training.sanitized(kernel_tests)),
    Stage("vit small at 224", 1, 240, vit(*SMALL)),
    Stage("graphs", 2, 20, gtest("common_torch_tests", "*OnGpu.*")),
    Stage("recorded step", 2, 30, gtest("temporal_tests", "RecordedStepOnGpu.*")),
    Stage("models", 2, 90, training.models),
    Stage("tuning", 2, 90, training.tuning),
    Stage("speed: training", 2, 110, speed.training),
    Stage("auto", 2, 30, training.auto),
    Stage("speed: study", 2, 80, speed.study),
    Stage("speed: tuning", 2, 110, speed.tuning),
    Stage("losses", 2, 40, speed.losses),
    Stage("features", 3, 40, training.features),
    Stage("jobs", 3, 30, training.jobs),
    Stage("amp", 3, 30, training.amp),
    Stage("budget", 3, 30, training.budget),
    Stage("resume", 3, 60, training.resume),
    Stage("tuned resume", 3, 60, training.tuned_resume),
    Stage("plan", 3, 30, training.plan),
    Stage("bundle", 3, 40, training.bundle),
    Stage("sanitizer: training", 3, 120, training.sanitized(steps("--model", "gru"))),
    Stage("sanitizer: tuning", 3, 120, training.sanitized(steps(*training.TUNE, cache=last_block))),
    Stage("start", 4, 30, start),
    Stage("parity", 4, 100, parity),
    Stage("out of memory", 4, 40, out_of_memory),
    Stage("kill", 4, 40, kill),
    Stage("pipeline", 4, 160, pipeline),
    Stage("compiled", 4, 200, compiled),
    Stage("input", 4, 30, gtest("extract_tests", "*Gpu*")),
    Stage("vit small at 224, autotuned", 5, 300, vit(*SMALL, peers=AUTOTUNE)),
    Stage("vit small at 392", 5, 280, vit(*REGISTERS)),
]
PARTS = sorted({stage.part for stage in STAGES})
