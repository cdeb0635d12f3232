"""transformers' encoder of clips as a contender of speed.py: a line in, a line out, like build/tests/vit_engine_speed.

  peer.py FOLDER CLIPS.bin BATCH eager|compile fp32|bf16 THREADS
"""

import sys
import time

import numpy
import torch
import torch._inductor.config
import transformers


def encoder_of(folder, kind, precision):
    model = transformers.AutoModel.from_pretrained(folder, dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[precision]).eval()
    if kind == "eager":
        return model
    torch._inductor.config.freezing = True
    return torch.compile(model)


def main(folder, path, batch, kind, precision, threads):
    torch.set_num_threads(int(threads))
    config = transformers.AutoConfig.from_pretrained(folder)
    of_vjepa = config.model_type == "vjepa2"
    frames, side = (config.frames_per_clip, config.crop_size) if of_vjepa else (config.num_frames, config.image_size)
    encoder, options = encoder_of(folder, kind, precision), {"skip_predictor": True} if of_vjepa else {}
    clips = torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32)).view(int(batch), frames, 3, side, side)
    print("ready", flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            wall, cpu = time.perf_counter(), time.process_time()
            features = encoder(clips.to(encoder.dtype), **options).last_hidden_state.mean(1).float()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if line.startswith("features "):
                features.numpy().tofile(line.split()[1])
            print(wall, cpu, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
