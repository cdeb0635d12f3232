"""The stages of tests/gpu/run that train and predict: what the device gives beside the CPU, or beside another way."""
import json
import os
import shutil
import signal

import comparing
from caches import cut_cache, speed_cache, training_cache
from context import RANDOM, TINY, Skipped, extract, fresh, made_exams

# Losses and probabilities of a few epochs hold rounding, and its growth by steps, but not yet its blow-up.
BESIDE_CPU = 1e-3
LEARNT = 20 * BESIDE_CPU  # by which steps lower the training loss at least, so that the former says something


def train_words(context, out, epochs=3, device=None, cache=None, batch=16, lr=0.005, folds=2):
    return ["train", "--cache", cache or training_cache(context), "--target", "label", "--out", context.work / out,
            "--folds", folds, "--epochs", epochs, "--batch", batch, "--lr", lr, "--patience", 0, "--bootstrap", 20,
            "--exam-is-patient", "--device", device or context.device]


def train(context, out, *words, model="gru", learnt=LEARNT, **settings):
    """Trains, and makes sure that the run is of the model that was asked for. What was printed."""
    fresh(context, out)
    text = context.coldframe(*train_words(context, out, **settings), "--model", model, *words)
    comparing.fitted(context.work / out, model, learnt)
    return text


def same(context, a, b, tolerance):
    return comparing.same_results(context.work / a, context.work / b, tolerance)


def beside_cpu(context, name, *words, tolerance=BESIDE_CPU, **settings):
    train(context, f"{name}-cpu", *words, device="cpu", **settings)
    text = train(context, name, *words, **settings)
    check_warnings(name, text)
    return f"{same(context, name, f'{name}-cpu', tolerance):.1e}"


# LibTorch's own, and a step that did not let itself be recorded.
WARNINGS = ("contiguous chunk", "UserWarning", "no current CUDA context", "without CUDA graphs")


def check_warnings(name, text):
    for line in text.splitlines():
        if any(words in line for words in WARNINGS):
            raise RuntimeError(f"{name}: {line}")


def models(context):
    """Every model that is fitted by steps, beside the CPU."""
    names = ["gru", "bigru", "lstm", "transformer", "tcn", "attention", "mean", "single", "clock"]
    return {"differ by at most": ", ".join(f"{name} {beside_cpu(context, f'run-{name}', model=name)}" for name in names)}


def features(context):
    """Where features may lie: each is as on the CPU, and mixup and two seeds are, too."""
    figures = {place: beside_cpu(context, f"run-{place}", "--features", place) for place in ("device", "memory", "stream")}
    return figures | {"mixup": beside_cpu(context, "run-mixup", "--mixup", 0.2)}


def auto(context):
    """--device auto times both devices, says which it takes, and a run that goes on takes it again."""
    text = train(context, "run-auto", device="auto")
    if context.device == "cpu":
        return {"a GPU": "none"}
    said = [line for line in text.splitlines() if line.startswith("device auto: ")]
    taken = json.loads((context.work / "run-auto" / "config.json").read_text())["device"]
    if not said or not said[0].split()[-1].startswith(taken.split(":")[0]):
        raise RuntimeError(f"said {said}, recorded {taken}")
    return {"said": said[0], "recorded": taken}


SAME_DEVICE = 1e-5  # the same sums, but for their order


def jobs(context):
    """Fits side by side are those of one after another."""
    train(context, "run-one", "--seeds", 2, "--jobs", 1)
    figures = {}
    for count in (2, 4):
        train(context, f"run-{count}", "--seeds", 2, "--jobs", count)
        figures[f"--jobs {count}"] = same(context, "run-one", f"run-{count}", SAME_DEVICE)
    return figures


def budget(context):
    """Micro-batches within a budget give the same losses."""
    cache = speed_cache(context, 2000)  # whose steps take more than a GPU's libraries
    words = ["--split-column", "--hidden", 256, "--jobs", 1]
    settings = {"cache": cache, "batch": 512, "folds": 0}
    train(context, "run-whole", *words, **settings)
    memory = memory_of(context, "run-whole")
    train(context, "run-tight", *words, "--memory-budget", int(0.7 * memory["tensors_peak_bytes"]), **settings)
    tight = memory_of(context, "run-tight")
    if tight["exams_at_a_time"] >= 512 or tight["tensors_peak_bytes"] > tight["budget_bytes"]:
        raise RuntimeError(f"the budget did not bind: {tight}")
    return {"differ by": same(context, "run-whole", "run-tight", 1e-4),
            "exams at a time": tight["exams_at_a_time"], "planned / measured": f"{planned_share(memory):.3f}"}


def memory_of(context, run):
    return json.loads((context.work / run / "summary.json").read_text())["memory"]


def planned_share(memory):
    return memory["tensors_predicted_bytes"] / memory["tensors_peak_bytes"]


def amp(context):
    """Half precision on the device beside float32 on the CPU: bfloat16 has 8 bits, float16 11."""
    train(context, "run-fp32-cpu", device="cpu")
    figures = {}
    for precision, tolerance in [("bf16", 0.05), ("fp16", 0.01)]:
        train(context, f"run-{precision}", "--amp", precision)
        difference = same(context, f"run-{precision}", "run-fp32-cpu", tolerance)
        if not difference:
            raise RuntimeError(f"{precision} gave what float32 gives")
        figures[precision] = f"{difference:.1e}"
    return figures


def resumed(context, name, *words, learnt=20e-6, **settings):
    """A run that is stopped within a fit, killed and resumed: its difference from one that was not."""
    train(context, f"{name}-straight", *words, "--jobs", 1, learnt=learnt, **settings)
    fresh(context, name)
    command = [context.program("bin/coldframe"), *train_words(context, name, **settings), "--model", "gru", *words, "--jobs", 1]
    unfinished = context.work / f"{name}.unfinished"

    def begun():  # fits of the model itself, of those on cached features that tuned ones go on from none
        return len({path.name.split(".")[0] for path in unfinished.glob("state/gru-repeat-*")})

    status = context.end_when(begun, *command, by=signal.SIGTERM)
    if status != 75 or not any(unfinished.glob("state/*.checkpoint")):
        raise RuntimeError(f"stopped within its first fit: ended with {status}, and no checkpoint, expected 75 and one")
    before = begun()  # when the next one has, the record of the first is there
    status = context.end_when(lambda: begun() > before, *command, "--resume")
    if status != -signal.SIGKILL:
        raise RuntimeError(f"killed in its second fit: ended with {status}")
    context.run(*command, "--resume")
    comparing.fitted(context.work / name, "gru", learnt)
    return same(context, f"{name}-straight", name, learnt / 20)


def resume(context):
    """A training run that is stopped, killed and resumed ends as one that was not."""
    return {"differ by": resumed(context, "run-resumed", epochs=200)}


TUNE = ["--tune", "random"]
SLOWLY = {"lr": 1e-3, "batch": 8}  # so that the model on cached features leaves something to learn
# Name: what is stored of each frame, options, the first block that is trained.
TUNED = {"last block": (11, ["--tune-lr", 2e-4], 11), "last two": (10, ["--tune-lr", 2e-4], 10), "all": (0, ["--tune-lr", 2e-5], 0),
         "LoRA": (0, ["--tune-lr", 2e-4, "--lora", 4], 0)}


def tuned_beside_cpu(context, name, *words, **settings):
    cut, options, block = TUNED[name]
    run = f"tuned-{name.replace(' ', '-')}"
    difference = beside_cpu(context, run, *TUNE, *options, *words, cache=cut_cache(context, cut), **SLOWLY, **settings)
    for each in (run, f"{run}-cpu"):
        comparing.tuned(context.work / each, block)
    return difference


def tuning(context):
    """The end of a ViT, trained on the device and on the CPU."""
    return {"differ by at most": ", ".join(f"{name} {tuned_beside_cpu(context, name)}" for name in TUNED)}


def tuned_resume(context):
    """A tuned fit that is stopped, killed and resumed ends as one that was not."""
    return {"differ by": resumed(context, "tuned-resumed", *TUNE, cache=cut_cache(context, 11), epochs=20, **SLOWLY)}


def plan(context):
    """Training of the last block runs within the peak that plan tells, and gives the same."""
    cut, batch = cut_cache(context, 11, RANDOM, frames=2), 8
    told = context.json_of("plan", "vit_small_patch16_224", "--hidden", 64, "--exams", batch, "--frames", 2, "--device",
                           context.device.split(":")[0])
    ways = [way for way in told["ways"] if way["trained"] == "last block"]
    peak = max(way["bytes"]["peak"] - way["bytes"]["context"] for way in ways)
    for name, words in [("run-free", []), ("run-planned", ["--memory-budget", peak])]:
        train(context, name, *TUNE, *words, "--tune-lr", 2e-4, "--jobs", 1, cache=cut, **SLOWLY)
        comparing.tuned(context.work / name, 11)
    memory = memory_of(context, "run-planned")
    if memory["tensors_peak_bytes"] > peak:
        raise RuntimeError(f"planned {peak} bytes, took {memory['tensors_peak_bytes']}")
    return {"planned MiB": round(peak / 2**20, 1), "measured MiB": round(memory["tensors_peak_bytes"] / 2**20, 1),
            "train's own plan / measured": f"{planned_share(memory):.3f}",
            "differ by": same(context, "run-free", "run-planned", 1e-4)}


def small_bundle(context):
    """A bundle of a tiny ViT and a GRU that were made on the device."""
    made = context.work / "small.bundle"
    if made.exists():
        return made
    fresh(context, "small.h5")
    extract(context, "small.h5", "--precision", "fp32", backbone=TINY)
    train(context, "run-small", cache=context.work / "small.h5")
    context.coldframe("bundle", "make", context.work / "run-small", "--out", made)
    return made


def bundle(context):
    """Files to probabilities by a bundle on the device: those of the CPU."""
    fresh(context, "small.bundle")
    made = small_bundle(context)
    for device in (context.device, "cpu"):
        context.coldframe("predict", "--bundle", made, "--input", made_exams(context), "--out",
                          context.work / f"predicted-{device.split(':')[0]}.csv", "--device", device, "--precision", "fp32",
                          "--other-patients", "--overwrite")
    tables = [context.work / f"predicted-{device.split(':')[0]}.csv" for device in (context.device, "cpu")]
    names = [name for name in comparing.table(tables[0])[0] if name.startswith("p_")]
    return {"differ by": comparing.same_tables(*tables, BESIDE_CPU, names)}


def sanitized(command):
    """Memory errors in a program's kernels, LibTorch's among them, by compute-sanitizer, where it is."""
    def stage(context):
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.path.exists(tool):
            raise Skipped("compute-sanitizer is not on this machine")
        text = context.run(tool, "--error-exitcode", 9, "--target-processes", "all", *command(context))
        if "ERROR SUMMARY: 0 errors" not in text:
            raise RuntimeError(f"compute-sanitizer told of no end: {text[-400:]}")
        return {"compute-sanitizer": "0 errors"}

    return stage
