"""PyTorch's plain loops beside Coldframe's fits: frames on the device, cuDNN's GRU, AdamW fused. Prints JSON.

    pytorch_steps.py train CACHE.h5 BATCH FRAMES HIDDEN DEVICE                     of cached features
    pytorch_steps.py tune MODEL SIZE BLOCKS EXAMS FRAMES PRECISION DEVICE KEEP     the ViT's last blocks with them, on
                                                    what enters them; KEEP is all or checkpoint (of every block)
"""
import json
import pathlib
import statistics
import sys
import time

import torch
from torch import nn

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "benchmarks/train"))
SECONDS, TURNS = {"cuda": 3, "cpu": 0}, 3  # at least


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(device, work):
    """Median seconds of work(), behind two that warm up."""
    for _ in range(2):
        work()
    wait(device)
    times, began = [], time.perf_counter()
    while len(times) < TURNS or time.perf_counter() - began < SECONDS[device.type]:
        started = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def peak(device):
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def step(model, optimizer, inputs, labels, autocast):
    with autocast:
        loss = nn.functional.cross_entropy(model(*inputs), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    optimizer.step()
    return loss.detach()


def adamw(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=0.01, fused=True)


def train(path, batch, frames, hidden, device):
    """An epoch draws FRAMES of each exam's frames anew, on the device; its loss is read once."""
    import h5py
    from pytorch_epochs import Model

    with h5py.File(path) as file:
        part = torch.tensor([value == b"train" for value in file["exams/columns/split"][:]])
        labels = torch.tensor([int(value) for value in file["exams/columns/label"][:]])[part].to(device)
        table = torch.from_numpy(file["features/clean"][:]).float()
    table = table.view(len(part), -1, table.shape[1])[part].to(device)
    mean, std = table.mean((0, 1)), table.std((0, 1), unbiased=False)
    features = (table - mean) / std
    model = Model(mean, std, hidden).to(device).train()
    optimizer, autocast = adamw(model), torch.autocast(device.type, enabled=False)

    def epoch():
        total = torch.zeros((), device=device)
        for part in torch.randperm(len(features), device=device).split(batch):
            keep = torch.rand(len(part), features.shape[1], device=device).topk(frames, 1).indices.sort(1).values
            total += step(model, optimizer, (features[part[:, None], keep], False), labels[part], autocast) * len(part)
        return total.item()

    return {"step_seconds": timed(device, epoch) / -(-len(features) // batch), "peak_bytes": peak(device)}


class Tuned(nn.Module):
    def __init__(self, name, size, blocks, keep):
        super().__init__()
        import timm

        self.vit = timm.create_model(name, num_classes=0, img_size=size)
        self.whole = blocks == len(self.vit.blocks)
        self.vit.blocks = self.vit.blocks[-blocks:]
        self.checkpoint = keep == "checkpoint"
        self.gru = nn.GRU(self.vit.embed_dim, 128, batch_first=True)
        self.head = nn.Linear(128, 2)

    def forward(self, frames, exams):
        x = self.vit._pos_embed(self.vit.patch_embed(frames)) if self.whole else frames
        for block in self.vit.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.checkpoint else block(x)
        return self.head(self.gru(self.vit.norm(x)[:, 0].view(exams, -1, x.shape[2]))[0].mean(1))


def tune(name, size, blocks, exams, frames, precision, device, keep):
    model = Tuned(name, size, blocks, keep)
    tokens = model.vit.pos_embed.shape[1]
    shape = (3, size, size) if model.whole else (tokens, model.vit.embed_dim)
    if not model.whole:  # frozen parts that no frame goes through
        del model.vit.patch_embed, model.vit.pos_embed, model.vit.cls_token
    model = model.to(device).train()
    inputs, labels = torch.randn(exams * frames, *shape, device=device), torch.arange(exams, device=device) % 2
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
    optimizer = adamw(model)
    return {"step_seconds": timed(device, lambda: step(model, optimizer, (inputs, exams), labels, autocast)),
            "peak_bytes": peak(device)}


def main():
    kind, *words = sys.argv[1:]
    torch.manual_seed(0)
    if kind == "train":
        path, batch, frames, hidden, device = words
        print(json.dumps(train(path, int(batch), int(frames), int(hidden), torch.device(device))))
    else:
        name, size, blocks, exams, frames, precision, device, keep = words
        print(json.dumps(tune(name, int(size), int(blocks), int(exams), int(frames), precision, torch.device(device), keep)))


if __name__ == "__main__":
    main()
