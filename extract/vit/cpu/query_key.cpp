#include "extract/vit/cpu/query_key.h"

namespace coldframe::vit::cpu {

QueryKeyChanges::QueryKeyChanges(const AttentionWeights& weights, const Architecture& shape)
    : q_norm(weights.q_norm, weights.q_norm_bias, shape.norm_epsilon),
      k_norm(weights.k_norm, weights.k_norm_bias, shape.norm_epsilon),
      sine(weights.sine),
      cosine(weights.cosine),
      prefix(shape.prefix_tokens()) {}

void QueryKeyChanges::apply(const Kernels& kernels, const Head& head, std::int64_t number) const {
  const std::int64_t bytes = kernels.element_bytes(), stride = 3 * head.row;
  const std::int64_t patches = head.tokens - prefix, half = head.width / 2;
  const std::int64_t own = sine.dim() == 3 ? number * patches * half : 0;
  auto* x = static_cast<char*>(head.qkv);
  for (const NormWeights* const norm : {&q_norm, &k_norm}) {
    if (*norm) kernels.norm_in_place(x, stride, head.tokens, head.width, norm->factors());
    if (sine.defined())
      kernels.rotate(x + prefix * stride * bytes, stride, patches, half,
                     sine.const_data_ptr<float>() + own, cosine.const_data_ptr<float>() + own);
    x += head.row * bytes;  // from queries to keys
  }
}

}  // namespace coldframe::vit::cpu
