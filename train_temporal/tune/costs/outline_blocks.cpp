// Attention, perceptrons, blocks, the patch embedding and pooling, made of the operators of
// outline_layers.cpp.
#include "train_temporal/tune/costs/outline_layers.h"

namespace coldframe::tune {

Outline OutlineLayers::normed_heads(const Outline& x) {
  return vit_.qk_norm ? norm(x, width_ / static_cast<std::uint64_t>(vit_.heads), true) : x;
}

Outline OutlineLayers::attention(const Outline& x) {
  const auto in_heads = [&](const Outline& packed) {
    Operator copy{{packed}, packed.elements, packed.width};  // back into the order of qkv
    copy.is_view = true;
    return tape_.split(tape_.run(copy), 3);
  };
  const auto parts = in_heads(tuned_linear(x, width_, 3 * width_));
  const Outline q = rotate(normed_heads(parts[0]));
  const Outline k = rotate(normed_heads(parts[1]));
  const auto by_tokens = [&](const Outline& result) {
    if (q.memory == parts[0].memory) return result;
    Operator copy{{result},
                  result.elements,
                  result.width};  // the result lies as the queries do, head by head
    copy.passes_gradient = true;
    return tape_.run(copy);
  };
  const Outline attended = by_tokens(
      scaled_dot_product(tape_.cast(q, parts[2].width), tape_.cast(k, parts[2].width), parts[2]));
  return tuned_linear(vit_.attention_norm ? norm(attended, width_) : attended, width_, width_);
}

Outline OutlineLayers::perceptron(const Outline& x, std::uint64_t in, std::uint64_t hidden,
                                  vit::Activation activation, bool gated, bool with_norm) {
  Outline inner = linear(x, in, gated ? 2 * hidden : hidden, trains_);
  if (gated) {
    const auto parts = tape_.split(inner, 2);
    inner = times(activate(parts[0], activation), parts[1]);
  } else {
    inner = activate(inner, activation);
  }
  return linear(with_norm ? norm(inner, hidden) : inner, hidden, in, trains_);
}

Outline OutlineLayers::branch(const Outline& x, bool with_attention) {
  if (with_attention) return attention(x);
  return perceptron(x, width_, static_cast<std::uint64_t>(vit_.mlp_hidden), vit_.activation,
                    vit_.gated_mlp, vit_.mlp_norm);
}

Outline OutlineLayers::half_block(const Outline& x, bool with_attention) {
  if (vit_.block == vit::BlockKind::kParallelThings) {
    Outline result = x;
    for (std::int64_t i = 0; i < vit_.parallel; ++i) {
      const Outline added = branch(norm(x, width_), with_attention);
      result = add(result, dropped(vit_.layer_scale ? scale(added) : added));
    }
    return result;
  }
  const bool norm_behind = vit_.block == vit::BlockKind::kPostNorm;
  const Outline input = norm_behind ? x : norm(x, width_);
  Outline added = branch(input, with_attention);
  added = dropped(added);
  if (norm_behind) return add(x, norm(added, width_));
  return add(x, vit_.layer_scale ? scale(added) : added);
}

Outline OutlineLayers::parallel_block(const Outline& x) {
  const auto hidden = static_cast<std::uint64_t>(vit_.mlp_hidden);
  const Outline packed = tuned_linear(norm(x, width_), width_, hidden + 3 * width_);
  const auto view = [&](std::uint64_t elements) {
    Operator op{{packed}, elements, packed.width};
    op.is_view = true;
    return tape_.run(op);
  };
  const std::uint64_t values = x.elements;
  const Outline inner = view(x.elements / width_ * hidden);
  const Outline attended = scaled_dot_product(rotate(normed_heads(view(values))),
                                              rotate(normed_heads(view(values))), view(values));
  Outline both = add(tuned_linear(attended, width_, width_),
                     linear(activate(inner, vit_.activation), hidden, width_, trains_));
  both = dropped(both);
  return add(x, vit_.layer_scale ? scale(both) : both);
}

// Levels of pixels are looked up channel by channel, put side by side, and cut into patches.
Outline OutlineLayers::embed() {
  const auto side = static_cast<std::uint64_t>(vit_.patch);
  const std::uint64_t values = frames_ * static_cast<std::uint64_t>(shape_.image_size.height) *
                               static_cast<std::uint64_t>(shape_.image_size.width);
  std::vector<Outline> channels;
  for (int channel = 0; channel < 3; ++channel) {
    Operator lookup{{}, values, 4};
    lookup.forward_temporary = 5 * values;  // the channel's bytes, and the same as int32
    channels.push_back(tape_.run(lookup));
  }
  const auto embedded = [&](const Outline& images) {
    const auto tokens = [&] {
      const Outline cut = tape_.run({{images}, images.elements, 4});
      const Outline rows = linear(cut, 3 * side * side, width_, trains_);
      return vit_.patch_norm ? norm(rows, width_) : rows;
    };
    const Outline rows = tokens();
    const Outline prefix = tape_.weight(width_ * prefix_, trains_);
    Operator joined{{rows, prefix}, frames_ * tokens_ * width_, 4};
    if (rows.width == 2 && !shape_.cuda) joined.forward_temporary = 4 * rows.elements;
    const Outline all = tape_.run(joined);
    if (!vit_.positions) return all;
    Operator placed{{all, tape_.weight(tokens_ * width_, trains_)}, all.elements, 4};
    placed.passes_gradient = true;
    return tape_.run(placed);
  };
  const Outline x = embedded(tape_.run({{}, 3 * values, 4}));
  return vit_.norm_pre ? norm(x, width_) : x;
}

Outline OutlineLayers::mean_of_tokens(const Outline& tokens, std::uint64_t rows) {
  Operator sliced{{tokens}, frames_ * rows * width_, tokens.width};
  sliced.is_view = true;
  const Outline part = tape_.run(sliced);
  return tape_.run({{part}, frames_ * width_, tokens.width});
}

// SigLIP's head: one query, its own perceptron.
Outline OutlineLayers::pooled_by_attention(const Outline& tokens) {
  const Outline query = linear(tape_.weight(width_, trains_), width_, width_, trains_);
  const Outline queries{frames_ * width_, query.width, query.memory, query.node, 0};
  const auto parts = tape_.split(linear(tokens, width_, 2 * width_, trains_), 2);
  const Outline attended =
      linear(scaled_dot_product(queries, parts[0], parts[1]), width_, width_, trains_);
  return add(attended, perceptron(norm(attended, width_), width_,
                                  static_cast<std::uint64_t>(vit_.pool_hidden),
                                  vit_.pool_activation, false, false));
}

Outline OutlineLayers::pooled(const Outline& tokens) {
  using vit::Pooling;
  const Pooling pooling = shape_.features.pooling;
  const auto head = [&](const Outline& x) -> Outline {
    if (pooling == Pooling::kMap) return pooled_by_attention(x);
    std::vector<Outline> found;
    if (pooling == Pooling::kNone) found.push_back(x);
    if (vit::takes_class_token(pooling)) {
      Operator select{{x}, frames_ * width_, x.width};
      select.is_view = true;
      found.push_back(tape_.run(select));
    }
    const auto patches = static_cast<std::int64_t>(tokens_ - prefix_);
    if (const auto range = vit::averaged_tokens(pooling, vit_, patches))
      found.push_back(mean_of_tokens(x, static_cast<std::uint64_t>(range->count())));
    if (vit_.fc_norm)
      for (Outline& features : found) features = norm(features, width_);
    Operator joined{found, 0, x.width};
    for (const Outline& each : found) joined.elements += each.elements;
    return tape_.run(joined);
  };
  return tape_.cast(head(vit_.norm ? norm(tokens, width_) : tokens), 4);
}

Outline OutlineLayers::features(const Outline& tokens) {
  const Outline found = pooled(tokens);
  if (shape_.projected == 0) return found;
  return tape_.cast(linear(found, found.elements / frames_,
                           static_cast<std::uint64_t>(shape_.projected), trains_),
                    4);
}

}  // namespace coldframe::tune
