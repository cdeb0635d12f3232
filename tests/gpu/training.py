"""The stages of tests/gpu/run that train and predict."""
import json
import os
import re
import shutil
import sys

from context import extract, fresh


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


def train_words(context, out, epochs=8, device=None, cache=None):
    return ["train", "--cache", cache or training_cache(context), "--target", "label", "--out", context.work / out, "--folds", 2,
            "--epochs", epochs, "--batch", 16, "--bootstrap", 50, "--exam-is-patient", "--device", device or context.device]


def train(context, out, *words, **settings):
    fresh(context, out)
    return context.coldframe(*train_words(context, out, **settings), *words)


def same_results(context, a, b, tolerance):
    """Of the losses of two runs, and of the probabilities that they predict."""
    return max(same_numbers(context, a, b, tolerance, file) for file in ("metrics.csv", "predictions.csv"))


def same_numbers(context, a, b, tolerance, file):
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


def beside_cpu(context, name, tolerance, *words, **settings):
    """Trains on the device and on the CPU, for one epoch, whose losses and predictions hold rounding but not yet its growth."""
    text = train(context, f"run-{name}", *words, epochs=1, **settings)
    train(context, f"run-{name}-cpu", *words, epochs=1, device="cpu", **settings)
    return text, same_results(context, f"run-{name}", f"run-{name}-cpu", tolerance)


def models(context):
    """Every model trains on the device without a warning, to the CPU's losses, and so it does where features stay elsewhere."""
    figures = {}
    ways = {model: ["--model", model] for model in ["gru", "bigru", "lstm", "transformer", "tcn", "attention", "mean", "single", "clock"]}
    for name, words in [*ways.items(), *((place, ["--features", place, "--mixup", 0.2]) for place in ("memory", "stream"))]:
        text, difference = beside_cpu(context, name, 1e-3, *words)
        warnings = [line for line in text.splitlines() if "warning" in line.lower() and "ms: " not in line]
        figures[name] = f"differs by {difference:.1e}{'; ' + warnings[0] if warnings else ''}"
        if any("contiguous chunk" in line or "UserWarning" in line for line in warnings):
            raise RuntimeError(f"{name}: {warnings[0]}")
    return figures


def budget(context):
    """Micro-batches within a budget give the same losses."""
    text = train(context, "run-whole", "--hidden", 128)
    peak = re.search(r"peak[^\n]*", text)
    tight = train(context, "run-tight", "--hidden", 128, "--memory-budget", "100MiB")
    return {"whole": peak[0] if peak else "", "difference": same_results(context, "run-whole", "run-tight", 1e-4),
            "tight": (re.search(r"peak[^\n]*", tight) or [""])[0]}


def amp(context):
    """Half precision on the device beside float32 on the CPU: bfloat16 has 8 bits, float16 11."""
    figures = {}
    train(context, "run-fp32-cpu", epochs=1, device="cpu")
    for precision, tolerance in [("bf16", 0.05), ("fp16", 0.01)]:
        train(context, f"run-{precision}", "--amp", precision, epochs=1)
        figures[precision] = f"differs by {same_results(context, f'run-{precision}', 'run-fp32-cpu', tolerance):.1e}"
    return figures


def resume(context):
    """A training run that is killed and resumed ends as one that was not."""
    train(context, "run-straight", epochs=40)
    fresh(context, "run-resumed")
    words = [context.build / "bin/coldframe", *train_words(context, "run-resumed", epochs=40)]
    state = context.work / "run-resumed.unfinished" / "state"
    killed = context.kill_when(lambda: state.exists() and any(state.iterdir()), *words)
    if killed:
        context.run(*words, "--resume")
    return {"killed": killed, "difference": same_results(context, "run-straight", "run-resumed", 1e-6)}


TUNE = ["--tune", "random", "--tune-lr", 1e-4]


def cut_cache(context):
    """Two frames of each exam, and what enters the last block of a ViT-S/16."""
    cache = context.work / "cut.cache"
    if not cache.exists():
        extract(context, cache.name, "--cut", 11, "--frames", 2, "--precision", "fp32", device="cpu")
    return cache


def tuning(context):
    """The last block of a ViT, trained on the device and on the CPU."""
    return {"difference": beside_cpu(context, "tuned", 1e-3, *TUNE, cache=cut_cache(context))[1]}


def plan(context):
    """Training of the last block runs within the peak that plan tells, and gives the same."""
    told = json.loads(context.coldframe("plan", "vit_small_patch16_224", "--exams", 16, "--frames", 2, "--json"))
    peak = max(way["bytes"]["peak"] for way in told["ways"] if way["trained"] == "last block")
    budget = f"{-(-peak // 2**20)}MiB"
    for name, words in [("run-free", []), ("run-planned", ["--memory-budget", budget])]:
        train(context, name, *TUNE, *words, epochs=1, cache=cut_cache(context))
    return {"planned": budget, "difference": same_results(context, "run-free", "run-planned", 1e-4)}


def online(context):
    """Frame by frame on the device: the probabilities of the CPU."""
    from PIL import Image

    fresh(context, "online.h5", "run-online", "online.bundle")
    tiny = ["--random-weights", 0, "--architecture", "vit_tiny_patch16_224", "--pool", "cls", "--image-size", 32]
    extract(context, "online.h5", "--precision", "fp32", backbone=tiny)
    train(context, "run-online", "--inputs", "level", epochs=1, cache=context.work / "online.h5")  # no summary of all frames
    context.coldframe("bundle", "make", context.work / "run-online", "--out", context.work / "online.bundle")
    clip = context.work / "clip.gif"
    pictures = [Image.open(context.work / "exams-24" / f"0-{frame}.png") for frame in range(12)]
    pictures[0].save(clip, save_all=True, append_images=pictures[1:], duration=100)
    found = []
    for device in (context.device, "cpu"):
        text = context.coldframe("predict", "--bundle", context.work / "online.bundle", "--online", "--input", clip, "--device",
                                 device, "--precision", "fp32")
        found.append([float(value) for value in re.findall(r"0\.\d{6,}", text)])
    if len(found[0]) < 12 or len(found[0]) != len(found[1]):
        raise RuntimeError(f"{len(found[0])} and {len(found[1])} probabilities of 12 frames")
    worst = max(abs(a - b) for a, b in zip(*found))
    if worst > 1e-3:
        raise RuntimeError(f"the device and the CPU differ by {worst}, expected 1e-3 at most")
    return {"difference": worst}
