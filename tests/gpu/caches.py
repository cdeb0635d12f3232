"""The caches that the stages of tests/gpu/run train on: made once, and kept for the next start."""
import os
import shutil
import sys

from context import TINY, extract, fresh, made_exams

FRAMES, WIDTH = 12, 384


def in_support(context):
    sys.path.insert(0, str(context.root / "tests/train_temporal"))
    os.environ["COLDFRAME_BUILD"] = str(context.build)
    import training_support

    return training_support


def training_cache(context):
    """Exams whose label shows in level, in change and in uneven times: every model can learn it."""
    import numpy

    context.program("tests/make_cache")
    made = context.work / "training" / "made.cache"
    if made.exists():
        return made
    support = in_support(context)
    shutil.rmtree(made.parent, ignore_errors=True)
    made.parent.mkdir(parents=True)
    random, exams, features = numpy.random.default_rng(0), [], []
    for number in range(128):
        label, frames = number % 2, 12 - number % 3
        values = random.normal(size=(frames, 384))
        values[:, :16] += (label - 0.5) * numpy.linspace(0.5, 1.5, frames)[:, None]
        times = numpy.cumsum(random.uniform(0.5, 1.5, frames) * (1 + label))
        exams.append(support.exam(number, frames, str(label), time_s=list(times - times[0])))
        features.append(values)
    return support.make_cache(made.parent, exams, features)


def speed_cache(context, count):
    """So many exams to train with, an eighth of them more to validate and to test with each."""
    import numpy

    context.program("tests/make_cache")
    folder = context.work / "speed"
    out = folder / f"{count}-exams.h5"
    if out.exists():
        return out
    support = in_support(context)
    fresh(context, f"speed/{out.name}")
    folder.mkdir(parents=True, exist_ok=True)
    parts = ["train"] * count + ["val"] * (count // 8) + ["test"] * (count // 8)
    values = numpy.random.default_rng(0).standard_normal((len(parts), FRAMES, WIDTH), numpy.float32)
    ramp = numpy.linspace(-1, 1, FRAMES, dtype=numpy.float32)
    values[:, :, :4] += (ramp * numpy.where(numpy.arange(len(parts)) % 2, 1, -1)[:, None])[:, :, None]
    exams = [support.exam(i, FRAMES, str(i % 2), columns={"label": str(i % 2), "split": part}) for i, part in enumerate(parts)]
    return support.make_cache(folder, exams, list(values), name=out.name)


def cut_cache(context, block, backbone=TINY, frames=4, exams=48):
    """What enters this block of a ViT, by the CPU."""
    cache = context.work / f"cut-{block}-of-{backbone[3]}-{exams}x{frames}.cache"
    if not cache.exists():
        fresh(context, cache.name)
        extract(context, cache.name, "--cut", block, "--precision", "fp32", device="cpu", backbone=backbone,
                exams=made_exams(context, exams, frames))
    return cache
