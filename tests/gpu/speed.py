"""The stages of tests/gpu/run that time: training, studies and tuning, beside the CPU, PyTorch and the plan."""
import json
import pathlib
import sys

import comparing
from caches import cut_cache, speed_cache
from context import RANDOM, TINY, fresh
from training import SAME_DEVICE, TUNE, memory_of, planned_share, same

DRAWN, HIDDEN = 8, 128
HERE = pathlib.Path(__file__).resolve().parent


def goal(context, value, least, most=float("inf")):
    """A figure beside what it should be: the page lists those that are missed. A try-out's figures mean nothing."""
    if context.small:
        return f"{value:.3g}"
    wanted = f"{least} or more" if most == float("inf") else f"{least} to {most}"
    return f"{value:.3g} (goal {wanted}: {'met' if least <= value <= most else 'MISSED'})"


def words_of(cache, *words):
    return ["train", "--cache", cache, "--target", "label", "--model", "gru", "--hidden", HIDDEN,
            "--train-frames", DRAWN, "--exam-is-patient", "--patience", 0, "--bootstrap", 20, *words]


PEERS_MODEL = ["--temporal-pool", "mean", "--noise", 0, "--dropout", 0.3]  # that of pytorch_steps.py


def benchmark(context, words, device):
    fresh(context, "speed-run")
    return context.json_of(*words, "--out", context.work / "speed-run", "--device", device, "--benchmark")


def pytorch(context, *words):
    return json.loads(context.run(sys.executable, HERE / "pytorch_steps.py", *words).strip().splitlines()[-1])


def planned_memory(context, found):
    """Of a run of one fit at a time, which holds the ViT, too."""
    return goal(context, found["run_predicted_bytes"] / found["fit_measured_bytes"], 0.85, 1.15)


def milliseconds(seconds):
    return f"{1e3 * seconds:.3g} ms"


def training(context):
    """A step of the GRU, 12 frames of 384 features of which 8 are drawn."""
    cache, figures = speed_cache(context, 160 if context.small else 2000), {}
    for batch in (16,) if context.small else (16, 256):
        words = words_of(cache, "--split-column", "--batch", batch, "--jobs", 1)
        ours = benchmark(context, [*words, *PEERS_MODEL], context.device)
        default = benchmark(context, words, context.device)
        cpu = benchmark(context, [*words, *PEERS_MODEL], "cpu")
        peer = pytorch(context, "train", cache, batch, DRAWN, HIDDEN, context.device)
        step = ours["step_seconds"]
        figures |= {
            f"batch {batch}": f"{milliseconds(step)} a step, with the default pooling and noise "
                              f"{milliseconds(default['step_seconds'])}, on the CPU {milliseconds(cpu['step_seconds'])}, "
                              f"PyTorch {milliseconds(peer['step_seconds'])}",
            f"batch {batch}, PyTorch's time / ours": goal(context, peer["step_seconds"] / step, 1),
            f"batch {batch}, the CPU's time / ours": f"{cpu['step_seconds'] / step:.2f}",
            f"batch {batch}, planned / measured memory": planned_memory(context, ours)}
    return figures


def losses(context):
    """Three epochs of 2 000 exams on the device and on the CPU: rounding has grown by 375 steps."""
    cache = speed_cache(context, 160 if context.small else 2000)
    for name, device in [("losses", context.device), ("losses-cpu", "cpu")]:
        fresh(context, name)
        context.coldframe(*words_of(cache, "--split-column", "--batch", 16, "--epochs", 3), *PEERS_MODEL, "--out",
                          context.work / name, "--device", device)
        comparing.fitted(context.work / name, "gru", 0.02)
    tables = [context.work / name / "metrics.csv" for name in ("losses", "losses-cpu")]
    return {"differ by": comparing.same_tables(*tables, 1e-4, ["train_loss", "validation_loss"])}


def study(context):
    """Five folds by three seeds, the fits one after another and side by side."""
    cache, seconds = speed_cache(context, 80 if context.small else 600), {}
    ways = [("1", context.device), ("0", context.device), ("4", context.device), ("0", "cpu")]
    for jobs, device in ways:
        name = f"study-{jobs}-{device.split(':')[0]}"
        fresh(context, name)
        words = words_of(cache, "--folds", 5, "--seeds", 3, "--epochs", 2 if context.small else 10, "--jobs", jobs)
        context.coldframe(*words, "--out", context.work / name, "--device", device)
        comparing.fitted(context.work / name, "gru", 0.001)
        seconds[jobs, device] = json.loads((context.work / name / "summary.json").read_text())["seconds"]
    one, auto, four, cpu = (seconds[way] for way in ways)
    names = [f"study-{jobs}-{context.device.split(':')[0]}" for jobs in ("1", "0", "4")]
    return {"seconds": f"--jobs 1 {one:.2f}, 0 (auto) {auto:.2f}, 4 {four:.2f}; CPU, auto {cpu:.2f}",
            "one after another / --jobs 0": goal(context, one / auto, 1), "one after another / --jobs 4": f"{one / four:.2f}",
            "CPU / --jobs 0": f"{cpu / auto:.2f}",
            "differ by": max(same(context, names[0], other, SAME_DEVICE) for other in names[1:]),
            "planned / measured memory, --jobs 0": f"{planned_share(memory_of(context, names[1])):.3f}"}


def tuning(context):
    """A step that trains the ViT's last block, its last two and all twelve: PyTorch gets what enters them, too."""
    model, size, vit = ("vit_tiny_patch16_224", 64, TINY) if context.small else ("vit_small_patch16_224", 224, RANDOM)
    exams, frames = (4, 4) if context.small else (8, 8)
    precision, figures = "fp32" if context.small else "bf16", {}
    for name, cut in [("last block", 11), ("last two", 10), ("all twelve", 0)][::2 if context.small else 1]:
        cache = cut_cache(context, cut, vit, frames, 10 if context.small else 40)
        words = ["train", "--cache", cache, "--target", "label", "--hidden", HIDDEN, "--folds", 2, "--batch",
                 exams, "--exam-is-patient", "--jobs", 1, *TUNE, *([] if context.small else ["--amp", precision])]
        ours = benchmark(context, words, context.device)
        # Of full and rest steps together.
        of_exam = ours["step_seconds"] * -(-ours["training_exams"] // exams) / ours["training_exams"]
        figures[name] = f"{milliseconds(of_exam)} an exam of {frames} frames, {ours['exams_at_a_time']} at a time"
        for keep in ("all", "checkpoint"):
            peer = pytorch(context, "tune", model, size, 12 - cut if cut else 12, exams, frames, precision, context.device, keep)
            figures[f"{name}, PyTorch's time / ours, keeping {keep}"] = (
                f"{goal(context, peer['step_seconds'] / exams / of_exam, 1 if keep == 'all' else 1.2)}, its memory / ours "
                f"{peer['peak_bytes'] / ours['fit_measured_bytes']:.2f}")
        figures[f"{name}, planned / measured memory"] = planned_memory(context, ours)
    return figures
