"""A training step of timm's ViT on the CPU in PyTorch, by each of its ways to keep less: as it is, with
`checkpoint` of every block, and by torch.compile within parts of the activations' memory.

A worker: prints its ways as JSON, then runs a step for each line that it reads: "time WAY" prints seconds,
"memory WAY" the peak of what the CPU's allocator gave during the step, beside weights and gradients.
"""

import argparse
import copy
import functools
import json
import sys
import time

import timm
import torch
import torch._dynamo
import torch._functorch.config
from torch._inductor.compile_fx import compile_fx


def compiled(model, budget):
    """Compiled at its first step, within this part of what torch.compile would keep by itself. Each budget has a
    backend of its own: Dynamo would take what another budget has compiled for a model of the same code."""

    def backend(graph, inputs):
        with torch._functorch.config.patch(activation_memory_budget=budget):
            return compile_fx(graph, inputs)

    return torch.compile(copy.deepcopy(model), dynamic=False, backend=backend)


def ways_of(model, budgets):
    checkpointed = copy.deepcopy(model)
    checkpointed.set_grad_checkpointing(True)
    ways = {"none": model, "checkpoint": checkpointed}
    for budget in budgets:
        ways[f"compile {budget:.2g}"] = compiled(model, budget)
    return ways


def step(way, images, half):
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        features = way(images).float()
    features.backward(torch.ones_like(features))


def peak(run):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    changes = []

    def visit(event):
        if event.name == "[memory]":
            changes.append((event.start_time_ns, event.extra_fields.alloc_size))
        for child in event.children:
            visit(child)

    for event in profile.profiler.kineto_results.experimental_event_tree():
        visit(event)
    live = most = 0
    for _, size in sorted(changes, key=lambda change: change[0]):
        live += size
        most = max(most, live)
    return most


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--budgets", type=float, nargs="*", default=[])
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch._dynamo.config.recompile_limit = 64
    torch.manual_seed(0)
    ways = ways_of(timm.create_model(args.model, num_classes=0), args.budgets)
    images = torch.randn(args.frames, 3, 224, 224)
    for way in ways.values():  # gradients are there, and what is compiled is
        step(way, images, args.half)
    print(json.dumps(list(ways)), flush=True)
    for line in sys.stdin:
        question, _, name = line.strip().partition(" ")
        run = functools.partial(step, ways[name], images, args.half)
        print(json.dumps(peak(run) if question == "memory" else seconds(run)), flush=True)


if __name__ == "__main__":
    main()
