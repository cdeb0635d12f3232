"""The stages of tests/gpu/run. Each is a function of a Context; it returns figures to print, and raises what is wrong."""
import dataclasses
import pathlib
import re
import shutil
import sys
import typing

import training
from context import extract, fresh, least_cosine, made_exams


KERNELS = "*Kernels*:Numbers.*:CudaLibrary.*"  # of tests/vit_tests


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
        small = context.device == "cpu"  # where the kernels' twins compute, one number at a time
        words = ["--device", context.device, "--build", context.build, "--model", model, "--size", size // 7 if small else size,
                 "--rounds", min(rounds, 2) if small else rounds, "--passes", 1 if small else passes, "--batch",
                 2 if small else batch, "--state", context.log.with_suffix(".json")]
        script = context.root / "tests/benchmarks/vit/gpu.py"
        text = context.run(sys.executable, script, *words, *(["--peers", "eager"] if small else []))
        lines = [line.strip() for line in text.splitlines()
                 if line.startswith(("engine", "timm", "layers", "  ")) and not line.startswith("  round")]
        return {f"line {i + 1}": line for i, line in enumerate(lines)}

    return stage


def parity(context):
    """A whole cache of the GPU beside the CPU's in fp32."""
    fresh(context, "cpu.h5", "fp32.h5", "bf16.h5", "auto.h5")
    extract(context, "cpu.h5", "--precision", "fp32", device="cpu")
    figures = {}
    # bfloat16 has 8 bits; `auto` also rounds what blocks add to, where its own check (kLeastCosine) lets it.
    for precision, least in [("fp32", 0.99999), ("bf16", 0.9995), ("auto", 0.999)]:
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
    budget = "200MiB" if context.device == "cpu" else "400MiB"  # the CPU's engine works in less
    text = extract(context, "tight.h5", "--precision", "bf16", "--batch", 256, "--memory-budget", budget)
    halved = re.findall(r"out of memory at (\d+) frames; continuing with (\d+)", text)
    found = least_cosine(context, "whole.h5", "tight.h5")
    if not halved or found < 0.9999:
        raise RuntimeError(f"halved: {halved}, least cosine {found}")
    return {"halved": " ".join(f"{a} to {b}" for a, b in halved), "least cosine": found}


def kill(context):
    """A killed job, run again, gives the cache of an undisturbed one, but for what other batches round otherwise."""
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
    if found < 0.9999:
        raise RuntimeError(f"least cosine {found}, expected 0.9999")
    return {"killed": killed, "least cosine": found}


def compiled(context):
    """A ViT as TorchScript and as a package of AOTInductor, each compiled for the device, beside its own weights."""
    import safetensors.torch
    import timm
    import torch

    made_exams(context)
    model = timm.create_model("vit_small_patch16_224", num_classes=0, depth=2).eval()
    safetensors.torch.save_file(model.state_dict(), context.work / "vit.safetensors")
    fresh(context, "weights.h5", "script.h5", "package.h5")
    exact = ["--precision", "fp32", "--frames", 2]
    extract(context, "weights.h5", *exact, backbone=["--weights", context.work / "vit.safetensors", "--pool", "cls", "--heads", 6])
    images = torch.zeros(2, 3, 224, 224, device=context.device)
    model.to(context.device)
    with torch.no_grad():
        torch.jit.trace(model, images).save(str(context.work / "vit.pt"))
        program = torch.export.export(model, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch._inductor.aoti_compile_and_package(program, package_path=str(context.work / "vit.pt2"))
    figures = {}
    for name, file in [("script", "vit.pt"), ("package", "vit.pt2")]:
        extract(context, f"{name}.h5", *exact, backbone=["--backbone", context.work / file, "--image-size", 224])
        figures[f"{name}: least cosine"] = found = least_cosine(context, "weights.h5", f"{name}.h5")
        if found < 0.9999:
            raise RuntimeError(f"{name}: least cosine {found}, expected 0.9999")
    return figures


def pipeline(context):
    """Files to cache beside PyTorch's DataLoader: 20 000 small frames, so that starting up is a small part of it."""
    script, small = context.root / "tests/benchmarks/extract/benchmark.py", context.device == "cpu"
    precision = "fp32" if small else "bf16"  # which a CPU without instructions for it emulates
    text = context.run(sys.executable, script, "--device", context.device, "--build", context.build, "--only", "jpegs",
                       "--rounds", 2, "--precision", precision, "--peers", precision, "--side", 256,
                       "--exams", 4 if small else 2500, "--batch", 16 if small else 256)
    return {f"line {i + 1}": line.strip() for i, line in enumerate(text.strip().splitlines()[-6:])}


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
    Stage("engine", 1, 90, gtest("vit_tests", "Gpu*OnGpu.*")),
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
    Stage("compiled", 4, 240, compiled),
    Stage("models", 6, 120, training.models),
    Stage("budget", 6, 40, training.budget),
    Stage("amp", 6, 60, training.amp),
    Stage("resume", 6, 50, training.resume),
    Stage("tuning", 6, 120, training.tuning),
    Stage("plan", 6, 60, training.plan),
    Stage("online", 6, 120, training.online),
    Stage("pipeline", 5, 500, pipeline),
]
PARTS = sorted({stage.part for stage in STAGES})
