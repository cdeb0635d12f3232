// The forward pass of the GPU engine.
#include <algorithm>

#include "extract/vit/gpu/workspace.h"

namespace coldframe::vit::gpu {
namespace {

// Scores and weighted values of each query [B, h, queries, d]: two products over all tokens.
double attention_operations(const torch::Tensor& attended, std::int64_t tokens) {
  return 4.0 * static_cast<double>(attended.numel()) * static_cast<double>(tokens);
}

}  // namespace

cuda::NormFactors Engine::Norm::factors() const {
  return {floats(weight), floats(bias), static_cast<float>(epsilon), centred};
}

torch::Tensor Engine::Norm::of(const torch::Tensor& x) const {
  const torch::Tensor wide = x.to(torch::kFloat);
  return centred ? at::layer_norm(wide, weight.sizes(), weight, bias, epsilon)
                 : at::rms_norm(wide, weight.sizes(), weight, epsilon);
}

// out = in · weight + bias, which may be undefined.
void Engine::multiply(const char* layer, torch::Tensor& out, const torch::Tensor& in,
                      const torch::Tensor& weight, const torch::Tensor& bias) {
  if (bias.defined())
    at::addmm_out(out, bias, in, weight);
  else
    at::mm_out(out, in, weight);
  done(layer, {out, in, weight},
       2.0 * static_cast<double>(in.numel()) * static_cast<double>(weight.size(1)));
}

// Tells the clock that a layer has been launched, which read and wrote these tensors.
void Engine::done(const char* layer, std::initializer_list<torch::Tensor> moved,
                  double operations) {
  if (clock_ == nullptr) return;
  double bytes = 0;
  for (const torch::Tensor& tensor : moved) bytes += static_cast<double>(tensor.nbytes());
  clock_->mark(layer, operations, bytes);
}

void Engine::compute(std::int64_t batch) {
  embed(batch);
  const std::int64_t rows = batch * tokens_;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const bool last = i + 1 == blocks_.size();
    // Nothing but the class token's feature leaves the last block then.
    const bool class_token_alone = last && options_.pooling == Pooling::kCls;
    const std::int64_t left = class_token_alone ? batch : rows;
    class_token_alone ? attend_class_token(block, batch) : attend(block, batch);
    add(block.proj_bias, block.scale1, block.norm2, left);
    mlp(block, left);
    // Without a norm at the end nothing reads what the last one gives.
    add(block.fc2_bias, block.scale2,
        !last   ? blocks_[i + 1].norm1
        : norm_ ? norm_
                : block.norm2,
        left);
  }
  pool(batch);
}

void Engine::embed(std::int64_t batch) {
  const std::int64_t rows = batch * tokens_;
  torch::Tensor y = work_->y.narrow(0, 0, batch * patches_);
  multiply("patch_embedding", y, work_->patches.narrow(0, 0, batch * patches_),
           patch_embed_.weight);
  if (patch_norm_) y.copy_(patch_norm_.of(patch_bias_.defined() ? y + patch_bias_ : y));
  const Norm& norm = blocks_.front().norm1;
  check(kernels_.embed_norm(
      {floats(start_), y.const_data_ptr(), work_->x.data_ptr(), norm.factors(),
       work_->normed.data_ptr(), batch, tokens_, architecture_.prefix_tokens(), architecture_.width,
       element_of(options_.residual), element_of(options_.type)},
      stream()));
  torch::Tensor x = work_->x.narrow(0, 0, rows), normed = work_->normed.narrow(0, 0, rows);
  if (norm_pre_) {
    x.copy_(norm_pre_.of(x));
    normed.copy_(norm.of(x));
  }
  done("sums_and_norms", {y, x, normed});
}

// normed -> y, without the projection's bias.
void Engine::attend(const Block& block, std::int64_t batch) {
  const std::int64_t rows = batch * tokens_, width = architecture_.width;
  const std::int64_t heads = architecture_.heads;
  torch::Tensor qkv = work_->qkv.narrow(0, 0, rows);
  multiply("qkv", qkv, work_->normed.narrow(0, 0, rows), block.qkv.weight, block.qkv.bias);
  const auto parts = qkv.view({batch, tokens_, 3, heads, width / heads})
                         .permute({2, 0, 3, 1, 4})  // [3, B, h, tokens, d]
                         .unbind(0);
  if (block.q_norm) {
    parts[0].copy_(block.q_norm.of(parts[0]));
    parts[1].copy_(block.k_norm.of(parts[1]));
  }
  rotate(block, qkv, 2 * heads, batch);
  const auto bias = block.relative.defined() ? std::optional(block.relative) : std::nullopt;
  const torch::Tensor attended =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2], bias);
  done("attention", {qkv, attended}, attention_operations(attended, tokens_));
  project(block, attended.transpose(1, 2).reshape({rows, width}), rows);
}

// The same for the first token of each image alone, whose x moves to the first `batch` rows. Rotary
// positions leave its query as it is.
void Engine::attend_class_token(const Block& block, std::int64_t batch) {
  const std::int64_t rows = batch * tokens_, width = architecture_.width;
  const std::int64_t heads = architecture_.heads, head = width / heads;
  const auto class_tokens = [&](const torch::Tensor& tensor) {
    return tensor.narrow(0, 0, rows)
        .view({batch, tokens_, width})
        .select(1, 0)
        .clone(at::MemoryFormat::Contiguous);
  };
  const auto columns = [&](std::int64_t from, std::int64_t count, torch::Tensor& out,
                           const torch::Tensor& in) {
    const torch::Tensor& bias = block.qkv.bias;
    multiply("qkv", out, in, block.qkv.weight.narrow(1, from, count),
             bias.defined() ? bias.narrow(0, from, count) : bias);
  };
  torch::Tensor query = work_->y.narrow(0, 0, batch);
  columns(0, width, query, class_tokens(work_->normed));
  torch::Tensor others =
      work_->qkv.flatten().narrow(0, 0, rows * 2 * width).view({rows, 2 * width});
  columns(width, 2 * width, others, work_->normed.narrow(0, 0, rows));
  const torch::Tensor queries = query.view({batch, heads, 1, head});
  const auto parts =
      others.view({batch, tokens_, 2, heads, head}).permute({2, 0, 3, 1, 4}).unbind(0);
  if (block.q_norm) {
    queries.copy_(block.q_norm.of(queries));
    parts[0].copy_(block.k_norm.of(parts[0]));
  }
  rotate(block, others, heads, batch);
  const auto bias =
      block.relative.defined() ? std::optional(block.relative.narrow(2, 0, 1)) : std::nullopt;
  const torch::Tensor attended =
      at::scaled_dot_product_attention(queries, parts[0], parts[1], bias);  // [B, h, 1, d]
  const torch::Tensor x = class_tokens(work_->x);
  work_->x.narrow(0, 0, batch).copy_(x);
  done("attention", {query, others, attended}, attention_operations(attended, tokens_));
  project(block, attended.reshape({batch, width}), batch);
}

// Turns the first `heads` heads of each row of x.
void Engine::rotate(const Block& block, torch::Tensor& x, std::int64_t heads, std::int64_t batch) {
  if (!block.sine.defined()) return;
  const std::int64_t tables = block.sine.dim() == 3 ? architecture_.heads : 1;
  check(kernels_.rotate({x.data_ptr(), floats(block.sine), floats(block.cosine), batch, tokens_,
                         architecture_.prefix_tokens(), x.stride(0), heads, block.sine.size(-1),
                         tables, element_of(options_.type)},
                        stream()));
}

// The heads' output [rows, width] -> y, without the projection's bias.
void Engine::project(const Block& block, const torch::Tensor& attended, std::int64_t rows) {
  torch::Tensor y = work_->y.narrow(0, 0, rows);
  multiply("projection", y,
           block.attention_norm ? block.attention_norm.of(attended).to(options_.type) : attended,
           block.proj.weight);
}

// normed -> y through the perceptron, without its last bias.
void Engine::mlp(const Block& block, std::int64_t rows) {
  const std::int64_t step = work_->hidden.size(0), own = architecture_.mlp_hidden;
  const bool gated = architecture_.gated_mlp;
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    torch::Tensor hidden = work_->hidden.narrow(0, 0, count);
    torch::Tensor inner = gated ? work_->gates.narrow(0, 0, count) : hidden;
    torch::Tensor y = work_->y.narrow(0, first, count);
    multiply("fc1", inner, work_->normed.narrow(0, first, count), block.fc1.weight);
    check(kernels_.activation(
        {inner.const_data_ptr(), floats(block.fc1_bias), hidden.data_ptr(), count, hidden_,
         *function_of(architecture_.activation), gated, element_of(options_.type)},
        stream()));
    if (block.mlp_norm) {
      torch::Tensor normed = hidden.narrow(1, 0, own);
      normed.copy_(block.mlp_norm.of(normed));
    }
    done("activation", {inner, hidden});
    multiply("fc2", y, hidden, block.fc2.weight);
  }
}

// x += scale · (y + bias), normed = the next norm of x.
void Engine::add(const torch::Tensor& bias, const torch::Tensor& scale, const Norm& next,
                 std::int64_t rows) {
  check(kernels_.residual_norm(
      {work_->x.data_ptr(), work_->y.const_data_ptr(), floats(bias), floats(scale), next.factors(),
       work_->normed.data_ptr(), rows, architecture_.width, element_of(options_.residual),
       element_of(options_.type)},
      stream()));
  if (clock_ == nullptr) return;
  const torch::Tensor x = work_->x.narrow(0, 0, rows);
  done("sums_and_norms", {x, x, work_->y.narrow(0, 0, rows), work_->normed.narrow(0, 0, rows)});
}

void Engine::pool(std::int64_t batch) {
  pool_tokens(batch);
  const std::int64_t rows = options_.pooling == Pooling::kCls ? batch : batch * tokens_;
  done("pooling", {work_->normed.narrow(0, 0, rows), work_->features.narrow(0, 0, batch)});
}

// The class token is normed again, in float; the mean evens the rounding of `normed` out.
void Engine::pool_tokens(std::int64_t batch) {
  const std::int64_t width = architecture_.width, rows = batch * tokens_;
  const bool alone = options_.pooling == Pooling::kCls;  // x holds class tokens only
  const auto finished = [&](const torch::Tensor& x) { return fc_norm_ ? fc_norm_.of(x) : x; };
  const auto tokens = [&](const torch::Tensor& of) {
    return of.narrow(0, 0, rows).view({batch, tokens_, width});
  };
  torch::Tensor features = work_->features.narrow(0, 0, batch);
  const torch::Tensor normed = norm_ ? work_->normed : work_->x;
  if (options_.pooling == Pooling::kMap) {
    const std::int64_t seen = architecture_.pool_prefix ? tokens_ : patches_;
    TorchOperations ops;
    features.copy_(
        attn_pool_->forward(ops, tokens(normed).narrow(1, tokens_ - seen, seen).to(torch::kFloat))
            .flatten(1));
    return;
  }
  if (takes_class_token(options_.pooling)) {
    const torch::Tensor x = alone ? work_->x.narrow(0, 0, batch) : tokens(work_->x).select(1, 0);
    features.narrow(1, 0, width).copy_(finished(norm_ ? norm_.of(x) : x.to(torch::kFloat)));
  }
  const auto range = averaged_tokens(options_.pooling, architecture_, patches_);
  if (!range) return;
  const torch::Tensor mean =
      tokens(normed).narrow(1, range->begin, range->count()).mean({1}, false, torch::kFloat);
  features.narrow(1, features.size(1) - width, width).copy_(finished(mean));
}

}  // namespace coldframe::vit::gpu
