#include <bit>

#include "extract/vit/engine/kernels.h"

namespace coldframe::vit::engine {
namespace {

constexpr int kVectorBytes = 16;

#include "extract/vit/engine/vector_math.h"
// Its functions need the ones above.
#include "extract/vit/engine/kernel_templates.h"

}  // namespace

const Kernels& portable_kernels(Element element) {
  static const Kernels fp32 =
      make_kernels<float, 4, 2>("portable fp32", multiply<4, 2, FloatProduct>);
  static const Kernels bf16 =
      make_kernels<std::uint16_t, 4, 2>("portable bf16", multiply<4, 2, Bf16Product>);
  return element == Element::kFp32 ? fp32 : bf16;
}

}  // namespace coldframe::vit::engine
