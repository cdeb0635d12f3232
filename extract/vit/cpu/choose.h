// Chooses the kernels that compute on this processor.
#pragma once

#include <memory>
#include <vector>

#include "common/torch/precision.h"
#include "extract/vit/cpu/engine.h"

namespace coldframe::vit::cpu {

// The precisions that this processor has instructions for, the one expected to be the quickest
// first. bf16: with AMX, and with VDPBF16PS on AMD's since Zen 4, which do twice the products of
// float's multiply-add (on Intel's Sapphire Rapids family VDPBF16PS does half as many). fp16: with
// AVX512-FP16, twice as many. fp32 is always among them.
std::vector<Precision> quick_precisions();

// Which of these times counts as the shortest: the first is left only for one that is half as quick
// again, and that one likewise, so that two jobs on a busy machine do not differ by chance.
std::size_t clearly_quickest(const std::vector<double>& seconds);

// The engine for a model of float weights; null, with the reason in the log, where there is none:
// without AVX2, for fp16 without AVX512-FP16, for architectures that it refuses, and for bf16 with
// AMX, which LibTorch's operators reach and these kernels do not. With bf16 on a processor whose
// floats are at least as quick, the weights alone are rounded to bf16 and the rest is computed in
// float.
std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model, const ImageSize& image_size,
                                    Precision precision);

}  // namespace coldframe::vit::cpu
