"""compiled_vit.py FOLDER DEVICE: a ViT of two blocks as weights, as TorchScript and as a package of AOTInductor."""
import pathlib
import sys

import safetensors.torch
import timm
import torch

folder, device = pathlib.Path(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
model = timm.create_model("vit_small_patch16_224", num_classes=0, depth=2).eval()
safetensors.torch.save_file(model.state_dict(), folder / "vit.safetensors")
model.to(device)
images = torch.zeros(2, 3, 224, 224, device=device)
with torch.no_grad():
    torch.jit.trace(model, images).save(str(folder / "vit.pt"))
    program = torch.export.export(model, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "vit.pt2"))
