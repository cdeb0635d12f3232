#!/usr/bin/env python3
"""The encoder of MONAI's SegResNet, which CT-FM is, as a module that `coldframe extract --block` takes: blocks
[B, 1, X, Y, Z] with edges of a multiple of 16, maps of 512 features.

    export_volume_encoder.py ctfm.pt model.safetensors     # weights of project-lighter/ct_fm_feature_extractor
    export_volume_encoder.py ctfm.pt                       # random weights, to try the rest

A name in .pt2 makes a package, compiled for blocks of 96³, instead of TorchScript. Another encoder takes the place of this
one: whatever gives [B, D], tokens [B, N, D] or a map [B, D, x, y, z] for [B, 1, X, Y, Z].
"""
import sys

import torch
from monai.networks.nets.segresnet_ds import SegResEncoder


class LastMap(torch.nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, blocks):
        return self.encoder(blocks)[-1]


def export(out, weights=None):
    encoder = SegResEncoder(init_filters=32, blocks_down=(1, 2, 2, 4, 4))
    if weights:
        from safetensors.torch import load_file
        encoder.load_state_dict(load_file(weights))
    model = LastMap(encoder).eval()
    if str(out).endswith(".pt2"):
        blocks = torch.zeros(2, 1, 96, 96, 96)
        program = torch.export.export(model, (blocks,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch._inductor.aoti_compile_and_package(program, package_path=str(out))
    else:
        torch.jit.trace(model, torch.zeros(2, 1, 32, 32, 32)).save(str(out))  # convolutions: of any size
    return model


if __name__ == "__main__":
    export(*sys.argv[1:3])
