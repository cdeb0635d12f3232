"""What a training step of timm's ViT and nn.GRU takes in PyTorch on the CPU, printed as JSON.

One case per process: the peak is that of resident memory above what the imports and a first small product
take, and saved bytes are those of all storages that autograd packs, parameters apart, each counted once.
"""

import argparse
import json
import os
import resource
import threading

import timm
import torch


class Lora(torch.nn.Module):
    """W x + up(down(x)) · alpha / rank beside a frozen W (Hu et al. 2021, arXiv:2106.09685)."""

    def __init__(self, linear, rank):
        super().__init__()
        self.linear = linear
        self.down = torch.nn.Linear(linear.in_features, rank, bias=False)
        self.up = torch.nn.Linear(rank, linear.out_features, bias=False)

    def forward(self, x):
        return self.linear(x) + 2.0 * self.up(self.down(x))


class Model(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.kind = args.kind
        self.blocks = args.blocks
        self.gru = torch.nn.GRU(384, 128, batch_first=True)
        self.head = torch.nn.Linear(128, 1)
        if args.kind == "cached":
            return
        self.vit = timm.create_model("vit_small_patch16_224", num_classes=0)
        if args.kind in ("last", "lora"):
            self.vit.requires_grad_(False)
        if args.kind == "last":
            for part in [*self.vit.blocks[-args.blocks:], self.vit.norm]:
                part.requires_grad_(True)
        if args.kind == "lora":
            for block in self.vit.blocks:
                block.attn.qkv = Lora(block.attn.qkv, 8)
                block.attn.proj = Lora(block.attn.proj, 8)
        if args.kind == "checkpoint":
            self.vit.set_grad_checkpointing(True)

    def features(self, frames):
        if self.kind == "cached":
            return frames
        return self.vit(frames)

    def forward(self, frames, exams):
        features = self.features(frames).view(exams, -1, 384)
        return self.head(self.gru(features)[0][:, -1])


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Peak:
    """Resident memory, watched every millisecond while it is open; the kernel's own mark where it grew."""

    def __enter__(self):
        self.before, self.most, self.done = resident(), 0, threading.Event()
        self.mark = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(0.001):
            self.most = max(self.most, resident())

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        mark = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if mark > self.mark:
            self.most = max(self.most, mark * 1024)
        self.bytes = self.most - self.before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["end", "checkpoint", "last", "lora", "cached"])
    parser.add_argument("--exams", type=int, default=2)
    parser.add_argument("--frames", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    torch.nn.functional.linear(torch.randn(64, 64), torch.randn(64, 64, requires_grad=True)).sum().backward()
    saved, kept = {}, set()

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in kept:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with Peak() as peak:
        model = Model(args)
        kept.update(p.untyped_storage().data_ptr() for p in model.parameters())
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
        count = args.exams * args.frames
        shape = (count, 384) if args.kind == "cached" else (count, 3, 224, 224)
        frames = torch.randn(shape)
        for step in range(2):
            if step == 0:
                with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                    loss = model(frames, args.exams).square().mean()
            else:
                loss = model(frames, args.exams).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    print(json.dumps({"peak": peak.bytes, "saved": sum(saved.values()), "frames": count}))


if __name__ == "__main__":
    main()
