#include "train_temporal/tune/costs/outline_operations.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "train_temporal/tune/recompute/eight_bits.h"

namespace coldframe::tune {
namespace {

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

std::uint64_t count(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

// The CPU's kernels convert an operand of another type as a whole.
std::uint64_t converted(const Outline& x, bool cuda) {
  return x.width == 2 && !cuda ? 4 * x.elements : 0;
}

Outline by_heads(Outline x) {
  x.by_heads = true;
  return x;
}

}  // namespace

bool bfloat16_products_have_buffers() {
  static const bool has = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("mkldnn::_is_mkldnn_bf16_supported", "")
                              .typed<bool()>()
                              .call();
  return has;
}

OutlineOperations::OutlineOperations(Tape& tape, const ChainShape& shape, std::uint64_t frames,
                                     Keep keep)
    : tape_(tape),
      shape_(shape),
      keep_(keep),
      frames_(frames),
      tokens_(count(shape.tokens())),
      prefix_(count(shape.architecture.prefix_tokens())),
      width_(count(shape.architecture.width)),
      threads_(static_cast<std::uint64_t>(shape.threads)) {}

Operator OutlineOperations::elementwise(const std::vector<Outline>& inputs,
                                        std::uint64_t width) const {
  Operator op{inputs, inputs[0].elements, width};
  op.work = kWorkPerValue * static_cast<double>(op.elements);
  return op;
}

Outline OutlineOperations::parameter(const torch::Tensor& tensor) {
  return tape_.weight(count(tensor.numel()), tensor.requires_grad());
}

bool OutlineOperations::may_drop(Again kind, const std::vector<Outline>& inputs,
                                 const Outline& result) const {
  const auto shares = [&](const Outline& x) { return x.memory == result.memory; };
  if (!result.memory || std::ranges::any_of(inputs, shares)) return false;
  const auto stays = [&] {
    std::uint64_t bytes = 0;
    for (const Outline& x : inputs)
      bytes += x.is_leaf() || !x.memory || x.memory->recipe ? 0 : x.bytes();
    return bytes;
  };
  return drops(keep_, kind, stays, result.bytes());
}

Outline OutlineOperations::linear(const Outline& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias) {
  return product(cast(x), cast(parameter(weight)), weight, bias);
}

Outline OutlineOperations::product(const Outline& input, const Outline& factors,
                                   const torch::Tensor& weight, const torch::Tensor&) {
  const bool trained = weight.requires_grad();
  const std::uint64_t out = count(weight.size(0)), in = count(weight.numel()) / out;
  const std::uint64_t width = tape_.half() ? 2 : 4, rows = input.elements / in;
  Operator op{{input, factors}, rows * out, width};
  if (trained) op.saved.push_back(input);
  if (input.node) op.saved.push_back(factors);
  op.second_gradient_first = keep_ != Keep::kWhole;
  op.work =
      2.0 * static_cast<double>(rows * in * out) + kWorkPerWeight * static_cast<double>(in * out);
  if (tape_.half() && !shape_.cuda && bfloat16_products_have_buffers()) {
    op.forward_temporary = product_buffer(threads_);
    op.backward_temporary =
        trained ? gradient_buffer(threads_, rows, out, in) : product_buffer(threads_);
  }
  return tape_.run(op);
}

// Each pass of an operator on the CPU finds a piece in the processor's cache; on a GPU it does not.
void OutlineOperations::round(const Outline& x, std::int64_t width) {
  if (keep_ != Keep::kRounded || !x.node || x.memory->recipe) return;
  const std::uint64_t groups = x.elements / count(EightBits::group(width));
  const std::uint64_t piece = 4 * std::min(x.elements, count(EightBits::piece(shape_.cuda)));
  const auto pass = [&](std::uint64_t cpu, std::uint64_t cuda) {
    return kWorkPerValue * static_cast<double>((shape_.cuda ? cuda : cpu) * x.elements);
  };
  Operator levels{{}, x.elements, 1};
  levels.forward_temporary = piece;
  levels.work = pass(3, 5);
  const std::vector<Outline> packed{tape_.run({{}, groups, 4}), tape_.run({{}, groups, 4}),
                                    tape_.run(levels)};
  Operator values{{}, x.elements, x.width};
  values.forward_temporary = piece;
  values.work = pass(1, 4);
  tape_.may_drop(x, packed, [this, values](const auto&) { return tape_.run(values); });
}

Operator OutlineOperations::normed(const Outline& x, const vit::NormImpl& layer) {
  const std::uint64_t width = count(layer.weight.numel()), rows = x.elements / width;
  const bool trained = layer.weight.requires_grad();
  const bool in_float =
      shape_.cuda && tape_.half();  // autocast's list of CUDA has it, the CPU's not
  const Outline input = in_float ? tape_.cast(x, 4) : x;
  Operator op = elementwise({input, tape_.weight(2 * width, trained)}, input.width);
  op.saved = {input};
  op.saved_bytes = 8 * rows;
  if (trained && !shape_.cuda)  // each thread's sums for weight and bias
    op.backward_temporary = 8 * width * threads_;
  if (!layer.bias.defined()) {  // an RMSNorm is computed by single operators
    op.saved_bytes = 4 * rows + 4 * x.elements;
    op.backward_temporary = 12 * x.elements;
  }
  return op;
}

Outline OutlineOperations::norm(const Outline& x, const vit::NormImpl& layer) {
  return tape_.run(normed(x, layer));
}

// Queries and keys lie token by token, and are put in the order of heads.
Outline OutlineOperations::norm_of_heads(const Outline& x, const vit::NormImpl& layer) {
  Operator op = normed(x, layer);
  op.forward_temporary = x.bytes();
  if (layer.bias.defined())
    op.backward_temporary = x.bytes();
  else if (x.width == 2)
    op.saved_bytes += 4 * x.elements;
  return by_heads(tape_.run(op));
}

Outline OutlineOperations::gelu(const Outline& x) {
  Operator op = elementwise({x}, x.width);
  op.saved = {x};
  op.turns_gradient = keep_ != Keep::kWhole;
  return tape_.run(op);
}
Outline OutlineOperations::silu(const Outline& x) {
  Operator op = elementwise({x}, x.width);
  op.saved = {x};
  return tape_.run(op);
}

Outline OutlineOperations::sigmoid(const Outline& x) {
  Operator op{{x}, x.elements, x.width};
  op.saves_result = true;
  return tape_.run(op);
}

Outline OutlineOperations::times(const Outline& x, const Outline& y) {
  Operator op = elementwise({x, y}, std::max(x.width, y.width));
  if (y.node) op.saved.push_back(x);
  if (x.node) op.saved.push_back(y);
  return tape_.run(op);
}

// The factors are float32, and so is what they give.
Outline OutlineOperations::scaled(const Outline& x, const torch::Tensor& factors) {
  const bool trained = factors.requires_grad();
  Operator op = elementwise({x, parameter(factors)}, 4);
  if (trained) op.saved = {x};
  op.forward_temporary = converted(x, shape_.cuda);
  op.backward_temporary = (trained ? 4 * x.elements : 0) + (x.width == 2 ? 4 * x.elements : 0);
  return tape_.run(op);
}

Outline OutlineOperations::plus(const Outline& x, const Outline& y) {
  Operator op = elementwise({x, y}, std::max(x.width, y.width));
  if (x.width != y.width && !shape_.cuda) op.forward_temporary = 4 * x.elements;
  op.passes_gradient = true;
  return tape_.run(op);
}

// The factors are drawn again for the backward pass.
Outline OutlineOperations::dropped(const Outline& x) {
  if (!shape_.dropout) return x;
  Operator op = elementwise({x}, x.width);
  op.forward_temporary = op.backward_temporary =
      4 * x.elements + (x.width == 2 ? 2 * x.elements : 0);
  return tape_.run(op);
}

std::vector<Outline> OutlineOperations::split(const Outline& x, const Sizes& sizes) {
  return tape_.split(x, {sizes.begin(), sizes.end()});
}

// Going back, the parts' gradients are put side by side, then into the order of x.
std::vector<Outline> OutlineOperations::heads(const Outline& x, std::int64_t parts, std::int64_t) {
  Operator copy{{x}, x.elements, x.width};
  copy.is_view = true;
  const Outline by_heads = tape_.run(copy);
  return parts == 1 ? std::vector{by_heads}
                    : split(by_heads, Sizes(static_cast<std::size_t>(parts), 1));
}

// In float32: patches · cosine + turned · sine, then put behind the prefix tokens.
Outline OutlineOperations::rotate(const Outline& x, bool rotation) {
  if (!rotation) return x;
  Operator op{{x}, x.elements, x.width};
  const std::uint64_t turned = x.elements / tokens_ * (tokens_ - prefix_);
  const std::uint64_t forward = (12 + x.width) * turned;  // before there is a result
  op.forward_temporary = forward - std::min(forward, x.bytes());
  op.backward_temporary = (x.width == 2 ? 12 : 14) * turned;
  op.work = 4 * kWorkPerValue * static_cast<double>(x.elements);
  return by_heads(tape_.run(op));
}

// Flash attention saves queries, keys, values, the result, and the logarithms of sums. A bias that
// is trained takes the way that writes the matrix out, softmax(q·kᵀ + bias), and so do values that
// are wider than keys. What it gives lies as the queries do.
Outline OutlineOperations::attend(const Outline& query, const Outline& key, const Outline& v,
                                  std::int64_t head_width, const torch::Tensor& bias) {
  const Outline q = tape_.cast(query, v.width), k = tape_.cast(key, v.width);
  const std::uint64_t head = count(head_width), width = tape_.half() ? 2 : 4;
  const std::uint64_t rows = q.elements / head;  // of all heads
  const std::uint64_t keys = v.elements / width_ / frames_;
  const std::uint64_t queries = keys * q.elements / k.elements;
  Operator op{{q, k, v}, q.elements * v.elements / k.elements, width};
  op.saved = {q, k, v};
  op.saves_result = true;
  op.saved_bytes = 4 * rows;
  op.work = 2.0 * static_cast<double>((q.elements + op.elements) * keys) +
            kWorkPerValue * static_cast<double>(rows * keys) / 4;
  if (v.elements != k.elements) {  // by single operators, in float32
    const std::uint64_t matrix = 4 * rows * keys;
    op.saved.clear();
    op.saves_result = false;
    op.saved_bytes = matrix + 4 * (q.elements + k.elements + v.elements);
    op.forward_temporary = width == 2 ? matrix + 4 * (op.elements + q.elements) : 0;
    op.backward_temporary = matrix;
  } else if (bias.defined()) {
    const std::uint64_t matrix = rows * keys * width;
    op.saved_bytes = matrix;
    op.forward_temporary = 2 * matrix;
    op.backward_temporary = 2 * matrix;
  } else if (!shape_.cuda) {
    const FlashBlocks blocks(queries);
    const std::uint64_t scores = blocks.queries * std::min(blocks.keys, keys);
    op.forward_temporary =
        threads_ * (4 * (scores + blocks.queries * (2 + head)) + (width == 2 ? 2 * scores : 0));
    op.backward_temporary = threads_ * 2 * scores * (width == 2 ? 6 : 4);
  }
  return query.by_heads ? by_heads(tape_.run(op)) : tape_.run(op);
}

Outline OutlineOperations::merged(const Outline& x) {
  if (!x.by_heads) return x;
  Operator copy{{x}, x.elements, x.width};
  copy.passes_gradient = true;
  return tape_.run(copy);
}

Outline OutlineOperations::latent_query(const vit::AttentionPoolImpl& pool, const Outline&) {
  const Outline query = pool.q->forward(*this, parameter(pool.latent));
  return {frames_ * width_, query.width, query.memory, query.node, 0};  // the same for all
}

Outline OutlineOperations::cut_patches(const Outline& images, std::int64_t) {
  return tape_.run({{images}, images.elements, 4});
}

Outline OutlineOperations::with_start(const Outline& patches,
                                      const vit::VisionTransformerImpl& model) {
  const bool trained = model.patch_embed->proj->weight.requires_grad();
  Operator joined{
      {patches, tape_.weight(width_ * prefix_, trained)}, frames_ * tokens_ * width_, 4};
  if (patches.width == 2 && !shape_.cuda) joined.forward_temporary = 4 * patches.elements;
  const Outline all = tape_.run(joined);
  if (!model.pos_embed.defined()) return all;
  Operator placed{{all, tape_.weight(tokens_ * width_, trained)}, all.elements, 4};
  placed.passes_gradient = true;
  return tape_.run(placed);
}

Outline OutlineOperations::tokens(const Outline& x, std::int64_t from, std::int64_t to) {
  Operator slice{{x}, frames_ * count(to - from) * width_, x.width};
  slice.is_view = true;
  return tape_.run(slice);
}

Outline OutlineOperations::mean(const Outline& x, std::int64_t from, std::int64_t to) {
  return tape_.run({{tokens(x, from, to)}, frames_ * width_, x.width});
}

Outline OutlineOperations::joined(const std::vector<Outline>& values) {
  Operator op{values, 0, values[0].width};
  for (const Outline& each : values) op.elements += each.elements;
  return tape_.run(op);
}

}  // namespace coldframe::tune
