#include "train_temporal/tune/outline_layers.h"

#include <algorithm>

#include "extract/vit/positions/grid.h"

namespace coldframe::tune {
namespace {

// A value that is read and written costs as much time as so many operations of a matrix product.
constexpr double kWorkPerValue = 16;

// Blocks of queries and keys that the CPU's flash attention works on (ATen's
// native/cpu/FlashAttentionKernel.cpp).
struct FlashBlocks {
  std::uint64_t queries, keys;
  explicit FlashBlocks(std::uint64_t tokens)
      : queries(tokens >= 768   ? 256
                : tokens >= 192 ? 64
                                : 32),
        keys(std::min<std::uint64_t>(512, tokens)) {}
};

// What oneDNN's matrix products of bfloat16 work in, as measured with LibTorch 2.11 on AVX-512, 1,
// 2 and 4 threads, matrices of 192 × 192 to 4096 × 1024: each thread copies blocks of an operand,
// and adds up a weight's gradient in float32 where there are many rows.
std::uint64_t product_buffer(std::uint64_t threads) {
  return threads * 110'000;
}
std::uint64_t gradient_buffer(std::uint64_t threads, std::uint64_t rows, std::uint64_t out,
                              std::uint64_t in) {
  const std::uint64_t m = out / threads;
  const std::uint64_t block = m >= 256 && m % 256 == 0 ? 256 : std::min<std::uint64_t>(192, m);
  if (rows <= 512) return threads * block * 2 * (rows + 250);
  return threads * (69'000 + block * (1080 + 4 * std::min<std::uint64_t>(in, 768)));
}

}  // namespace

OutlineLayers::OutlineLayers(Tape& tape, const ChainShape& shape, std::uint64_t frames)
    : tape_(tape),
      shape_(shape),
      vit_(shape.architecture),
      frames_(frames),
      tokens_(static_cast<std::uint64_t>(shape.tokens())),
      prefix_(static_cast<std::uint64_t>(vit_.prefix_tokens())),
      width_(static_cast<std::uint64_t>(vit_.width)),
      trains_(shape.lora_rank == 0) {}

Outline OutlineLayers::linear(const Outline& x, std::uint64_t in, std::uint64_t out, bool trained) {
  const std::uint64_t width = tape_.half() ? 2 : 4;
  const Outline weight = tape_.cast(tape_.weight(in * out, trained), width);
  const Outline input = tape_.cast(x, width);
  Operator op{{input, weight}, x.elements / in * out, width};
  if (trained) op.saved.push_back(input);
  if (input.node) op.saved.push_back(weight);
  const auto rows = x.elements / in;
  op.work =
      2.0 * static_cast<double>(rows * in * out) + kWorkPerValue * static_cast<double>(in * out);
  if (tape_.half() && !shape_.cuda) {
    const auto threads = static_cast<std::uint64_t>(shape_.threads);
    op.forward_temporary = product_buffer(threads);
    op.backward_temporary =
        trained ? gradient_buffer(threads, rows, out, in) : product_buffer(threads);
  }
  return tape_.run(op);
}

Outline OutlineLayers::tuned_linear(const Outline& x, std::uint64_t in, std::uint64_t out) {
  const Outline product = linear(x, in, out, trains_);
  if (shape_.lora_rank == 0) return product;
  const auto rank = static_cast<std::uint64_t>(shape_.lora_rank);
  const auto scaled = [this](const Outline& y) { return tape_.run({{y}, y.elements, y.width}); };
  return add(product, scaled(linear(linear(x, in, rank, true), rank, out, true)));
}

Outline OutlineLayers::norm(const Outline& x, std::uint64_t width, bool of_heads) {
  const std::uint64_t values = 4 * x.elements, rows = x.elements / width;
  const Outline weight = tape_.weight(2 * width, trains_);
  const bool in_float =
      shape_.cuda && tape_.half();  // autocast's list of CUDA has it, the CPU's not
  const Outline input = in_float ? tape_.cast(x, 4) : x;
  Operator op{{input, weight}, x.elements, input.width};
  op.saved = {input};
  op.saved_bytes = 8 * rows;
  if (trains_ && !shape_.cuda)  // each thread's sums for weight and bias
    op.backward_temporary = 8 * width * static_cast<std::uint64_t>(shape_.threads);
  op.work = kWorkPerValue * static_cast<double>(x.elements);
  if (of_heads) op.forward_temporary = op.backward_temporary = x.bytes();  // in the order of heads
  if (vit_.rms_norm) {                                                     // by single operators
    op.saved_bytes = 4 * rows + (of_heads && x.width == 2 ? 2 : 1) * values;
    op.backward_temporary = 3 * values;
  }
  return tape_.run(op);
}

Outline OutlineLayers::times(const Outline& x, const Outline& y) {
  Operator op{{x, y}, std::max(x.elements, y.elements), std::max(x.width, y.width)};
  if (y.node) op.saved.push_back(x);
  if (x.node) op.saved.push_back(y);
  op.work = kWorkPerValue * static_cast<double>(op.elements);
  return tape_.run(op);
}

Outline OutlineLayers::activate(const Outline& x, vit::Activation activation) {
  if (activation == vit::Activation::kQuickGelu) {
    const auto sigmoid = [this](const Outline& y) {
      Operator op{{y}, y.elements, y.width};
      op.saves_result = true;
      return tape_.run(op);
    };
    return times(x, sigmoid(tape_.run({{x}, x.elements, x.width})));
  }
  Operator op{{x}, x.elements, x.width};
  op.saved = {x};
  op.work = kWorkPerValue * static_cast<double>(x.elements);
  return tape_.run(op);
}

// The factors are float32, and so is what they give.
Outline OutlineLayers::scale(const Outline& x) {
  const std::uint64_t values = 4 * x.elements;
  const bool converted = x.width == 2 && !shape_.cuda;
  const Outline gamma = tape_.weight(width_, trains_);
  Operator op{{x, gamma}, x.elements, 4};
  if (trains_) op.saved = {x};
  op.forward_temporary = converted ? values : 0;
  op.backward_temporary = (trains_ ? values : 0) + (x.width == 2 ? values : 0);
  op.work = kWorkPerValue * static_cast<double>(x.elements);
  return tape_.run(op);
}

// The CPU's kernels convert an operand of another type as a whole.
Outline OutlineLayers::add(const Outline& x, const Outline& y) {
  Operator op{{x, y}, x.elements, std::max(x.width, y.width)};
  if (x.width != y.width && !shape_.cuda) op.forward_temporary = 4 * x.elements;
  op.passes_gradient = true;
  op.work = kWorkPerValue * static_cast<double>(x.elements);
  return tape_.run(op);
}

// The factors are drawn again for the backward pass.
Outline OutlineLayers::dropped(const Outline& x) {
  if (!shape_.dropout) return x;
  Operator op{{x}, x.elements, x.width};
  op.forward_temporary = op.backward_temporary =
      4 * x.elements + (x.width == 2 ? 2 * x.elements : 0);
  op.work = kWorkPerValue * static_cast<double>(x.elements);
  return tape_.run(op);
}

// In float32: patches · cosine + turned · sine, then put behind the prefix tokens.
Outline OutlineLayers::rotate(const Outline& x) {
  if (vit_.rotary == vit::Rotary::kNone) return x;
  Operator op{{x}, x.elements, x.width};
  const std::uint64_t turned = x.elements / tokens_ * (tokens_ - prefix_);
  const std::uint64_t forward = (12 + x.width) * turned;  // before there is a result
  op.forward_temporary = forward - std::min(forward, x.bytes());
  op.backward_temporary = (x.width == 2 ? 12 : 14) * turned;
  op.work = 4 * kWorkPerValue * static_cast<double>(x.elements);
  return tape_.run(op);
}

// Flash attention saves queries, keys, values, the result, and the logarithms of sums. A bias that
// is trained takes the way that writes the matrix out, softmax(q·kᵀ + bias).
Outline OutlineLayers::scaled_dot_product(const Outline& q, const Outline& k, const Outline& v) {
  const auto heads = static_cast<std::uint64_t>(vit_.heads);
  const std::uint64_t queries = q.elements / width_, keys = k.elements / width_ / frames_;
  const std::uint64_t width = tape_.half() ? 2 : 4;
  Operator op{{q, k, v}, q.elements, width};
  op.saved = {q, k, v};
  op.saves_result = true;
  op.saved_bytes = 4 * heads * queries;
  op.work = 4.0 * static_cast<double>(queries * keys * width_) +
            kWorkPerValue * static_cast<double>(queries * keys * heads) / 4;
  if (vit_.relative_positions && trains_) {
    const std::uint64_t matrix = heads * queries * keys * width;
    op.saved_bytes = matrix;
    op.forward_temporary = 2 * matrix;
    op.backward_temporary = 2 * matrix;
  } else if (!shape_.cuda) {
    const FlashBlocks blocks(queries / frames_);
    const auto threads = static_cast<std::uint64_t>(shape_.threads);
    const std::uint64_t scores = blocks.queries * std::min(blocks.keys, keys);
    op.forward_temporary = threads * (4 * (scores + blocks.queries * (2 + width_ / heads)) +
                                      (width == 2 ? 2 * scores : 0));
    op.backward_temporary = threads * 2 * scores * (width == 2 ? 6 : 4);
  }
  return tape_.run(op);
}

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

Outline OutlineLayers::mean_of_patches(const Outline& tokens, std::uint64_t rows) {
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
    if (pooling == Pooling::kRegisterMean)
      found.push_back(mean_of_patches(x, static_cast<std::uint64_t>(vit_.registers)));
    if (pooling == Pooling::kCls || pooling == Pooling::kClsMean) {
      Operator select{{x}, frames_ * width_, x.width};
      select.is_view = true;
      found.push_back(tape_.run(select));
    }
    if (pooling == Pooling::kMean || pooling == Pooling::kClsMean)
      found.push_back(mean_of_patches(x, tokens_ - prefix_));
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
