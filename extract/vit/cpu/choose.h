// Chooses the kernels for this processor.
#pragma once

#include <memory>
#include <vector>

#include "common/torch/precision.h"
#include "extract/vit/cpu/engine.h"

namespace coldframe::vit::cpu {

// The precisions with native instructions on this processor, the one expected to be fastest first.
// bf16: with AMX, at 14 times the throughput of float FMA, and with VDPBF16PS on AMD since Zen 4,
// at twice (on Intel's Sapphire Rapids family, VDPBF16PS has half of it). fp16: with AVX512-FP16,
// at twice the throughput. fp32 is always included.
std::vector<Precision> quick_precisions();

// The index of the fastest: a later entry replaces the current choice only if it is 1.5 times as
// fast, so that two jobs on a busy machine do not differ by chance.
std::size_t clearly_quickest(const std::vector<double>& seconds);

// The engine for a model of float weights; null, with the reason in the log, where there is none:
// without AVX2, for fp16 without AVX512-FP16, for architectures that it refuses, and for bf16 where
// Linux refuses the processor's AMX. With bf16 on a processor whose floats are at least as quick,
// the weights alone are rounded to bf16 and the rest is computed in float. `frees`: as for Engine.
std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model, const ImageSize& image_size,
                                    Precision precision, bool frees = false);

}  // namespace coldframe::vit::cpu
