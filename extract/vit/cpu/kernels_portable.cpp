#include <bit>

#include "extract/vit/cpu/kernels.h"

namespace coldframe::vit::cpu {
namespace {

constexpr int kVectorBytes = 16;

#include "extract/vit/cpu/vector_math.h"
// Its functions need the ones above.
#include "extract/vit/cpu/kernel_templates.h"

}  // namespace

const Kernels& portable_kernels(StoredType element) {
  static const Kernels fp32 =
      make_kernels<float, 4, 2>("portable fp32", multiply<4, 2, FloatProduct>);
  static const Kernels bf16 =
      make_kernels<std::uint16_t, 4, 2>("portable bf16", multiply<4, 2, Bf16Product>);
  return element == StoredType::kFp32 ? fp32 : bf16;
}

}  // namespace coldframe::vit::cpu
