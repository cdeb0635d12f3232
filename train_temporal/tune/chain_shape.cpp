#include "train_temporal/tune/chain_shape.h"

namespace coldframe::tune {

std::int64_t ChainShape::tokens() const {
  return architecture.prefix_tokens() + vit::Grid(image_size, architecture.patch).patches();
}

std::int64_t ChainShape::feature_count() const {
  if (projected > 0) return projected;
  const std::int64_t patches = vit::Grid(image_size, architecture.patch).patches();
  return vit::pooled_features(features.pooling, architecture, patches) *
         static_cast<std::int64_t>(vit::layers_of(features, architecture).size());
}

std::uint64_t ChainShape::token_bytes() const {
  return static_cast<std::uint64_t>(4 * tokens() * architecture.width);
}

std::uint64_t ChainShape::attention_bytes() const {
  return static_cast<std::uint64_t>(4 * architecture.heads * tokens() * tokens());
}

}  // namespace coldframe::tune
