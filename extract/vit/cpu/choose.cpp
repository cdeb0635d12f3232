#include "extract/vit/cpu/choose.h"

#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::vit::cpu {

namespace {

bool has_amx() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("amx-bf16");
#else
  return false;
#endif
}

// Null where there are none that beat those of floats.
const Kernels* quick_bf16_kernels() {
  if (const Kernels* const tiles = amx_bf16_kernels()) return tiles;
#if defined(__x86_64__)
  if (__builtin_cpu_is("amd")) return avx512_bf16_kernels();
#endif
  return nullptr;
}

}  // namespace

std::vector<Precision> quick_precisions() {
  std::vector<Precision> found;
  if (has_amx() || quick_bf16_kernels()) found.push_back(Precision::kBf16);
  if (avx512_fp16_kernels()) found.push_back(Precision::kFp16);
  found.push_back(Precision::kFp32);
  return found;
}

std::size_t clearly_quickest(const std::vector<double>& seconds) {
  constexpr double kClearly = 1.5;
  std::size_t best = 0;
  for (std::size_t i = 1; i < seconds.size(); ++i)
    if (kClearly * seconds[i] < seconds[best]) best = i;
  return best;
}

std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model, const ImageSize& image_size,
                                    Precision precision, bool frees) {
  const bool fp16 = precision == Precision::kFp16, bf16 = precision == Precision::kBf16;
  if (fp16 && !avx512_fp16_kernels()) {
    log_info("fp16 on a processor without AVX512-FP16: computing with LibTorch's operators");
    return nullptr;
  }
  if (bf16 && has_amx() && !amx_bf16_kernels()) {
    log_info(
        "bf16 on a processor with AMX that Linux refuses: computing with LibTorch's operators");
    return nullptr;
  }
  const Kernels* const quick = fp16 ? avx512_fp16_kernels() : bf16 ? quick_bf16_kernels() : nullptr;
  const Kernels* const kernels = quick ? quick : fastest_fp32_kernels();
  if (!kernels) {
    log_info("a processor without AVX2: computing with LibTorch's operators");
    return nullptr;
  }
  if (const auto reason = refusal(model.architecture, *kernels)) {
    log_warning(concat("the CPU engine cannot compute this backbone: ", *reason,
                       "; computing with LibTorch's operators"));
    return nullptr;
  }
  return std::make_unique<Engine>(model, image_size, *kernels, scalar_type(precision), frees);
}

}  // namespace coldframe::vit::cpu
