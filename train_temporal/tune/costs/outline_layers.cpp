#include "train_temporal/tune/costs/outline_layers.h"

#include <ATen/core/dispatch/Dispatcher.h>

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

// Buffers that oneDNN's matrix products of bfloat16 work in, as measured with LibTorch 2.11 on
// AVX-512, 1, 2 and 4 threads, matrices of 192 × 192 to 4096 × 1024: each thread copies blocks of
// an operand, and adds up a weight's gradient in float32 where there are many rows.
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

bool bfloat16_products_have_buffers() {
  static const bool has = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("mkldnn::_is_mkldnn_bf16_supported", "")
                              .typed<bool()>()
                              .call();
  return has;
}

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
  if (tape_.half() && !shape_.cuda && bfloat16_products_have_buffers()) {
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

}  // namespace coldframe::tune
