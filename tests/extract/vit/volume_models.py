"""ViTs of volumes with random weights: timm's blocks behind a convolution of cubes, as 3DINO's authors build them."""

import timm
import torch
from torch import nn

import timm_models


class VolumeVit(nn.Module):
    """What 3DINO computes (AICONSlab/3DINO, dinov2/models: DinoVisionTransformer3d): DINOv2's ViT whose patches are cubes
    of 16 voxels of one channel, with learnt positions of a cube of them."""

    def __init__(self, width=64, depth=2, heads=4, side=3):
        super().__init__()
        model = timm.create_model("vit_small_patch14_dinov2", patch_size=16, img_size=32, embed_dim=width, depth=depth, num_heads=heads, num_classes=0)
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv3d(1, width, 16, 16)
        self.cls_token, self.pos_embed = model.cls_token, nn.Parameter(torch.zeros(1, 1 + side ** 3, width))
        self.blocks, self.norm = model.blocks, model.norm
        self.mask_token = nn.Parameter(torch.zeros(1, width))

    def tokens(self, volumes):
        """[B, 1, X, Y, Z] -> [B, 1 + patches, width]"""
        patches = self.patch_embed.proj(volumes).flatten(2).mT
        x = torch.cat([self.cls_token.expand(len(volumes), -1, -1), patches], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def features(self, volumes):
        with torch.inference_mode():
            tokens = self.tokens(volumes)
        return {"cls": tokens[:, 0], "mean": tokens[:, 1:].mean(1), "cls+mean": torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1)}


def made(**shape):
    return timm_models.train_like(VolumeVit(**shape), 3)


def volumes_of(*sides, batch=2):
    generator = torch.Generator().manual_seed(2)
    smooth = nn.functional.interpolate(torch.randn(batch, 1, 4, 5, 6, generator=generator), size=sides, mode="trilinear")
    return smooth + 0.2 * torch.randn(smooth.shape, generator=generator)
