#!/usr/bin/env python3
"""R(2+1)D-18 of torchvision as a module that `coldframe extract --backbone` takes: clips of 16 frames, 512 features.

    export_clip_encoder.py r2plus1d.pt r2plus1d_18-91a641e6.pth     # torchvision's weights of Kinetics-400
    export_clip_encoder.py r2plus1d.pt                              # random weights, to try the rest

A name in .pt2 makes a compiled package instead of TorchScript. Another encoder takes the place of the first two lines:
whatever gives [B, D], tokens [B, N, D] or a map [B, D, t, h, w] for [B, 3, T, H, W] or [B, T, 3, H, W].
"""
import sys

import torch
from torchvision.models.video import r2plus1d_18


def export(out, weights=None):
    model = r2plus1d_18()
    if weights:
        model.load_state_dict(torch.load(weights, weights_only=True))
    model.fc = torch.nn.Identity()  # the features instead of the classes
    clips = torch.zeros(2, 3, 16, 112, 112)
    if str(out).endswith(".pt2"):
        program = torch.export.export(model.eval(), (clips,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch._inductor.aoti_compile_and_package(program, package_path=str(out))
    else:
        torch.jit.trace(model.eval(), clips).save(str(out))
    return model


if __name__ == "__main__":
    export(*sys.argv[1:3])
