#include "extract/vit/gpu/operations.h"

#include "extract/vit/gpu/kernel_calls.h"

namespace coldframe::vit::gpu {
namespace {

// Scores and weighted values of each query [B, h, queries, d]: two products over all tokens.
double attention_operations(const torch::Tensor& attended, std::int64_t tokens) {
  return 4.0 * static_cast<double>(attended.numel()) * static_cast<double>(tokens);
}

torch::Tensor rows_of(const torch::Tensor& x) {  // [..., n] -> [rows, n]
  return x.reshape({-1, x.size(-1)});
}

std::vector<std::int64_t> with_last(const torch::Tensor& x, std::int64_t columns) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = columns;
  return sizes;
}

bool takes_norm(std::int64_t width) {
  return width % 4 == 0 && width <= cuda::kMostWidth;
}

}  // namespace

torch::Tensor cudnn_attention(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v) {
  return std::get<0>(at::_scaled_dot_product_cudnn_attention(q, k, v, std::nullopt,
                                                             /*compute_log_sumexp=*/false));
}

Operations::Operations(const DeviceWeights& weights, const EngineOptions& options,
                       const cuda::GpuKernels& kernels)
    : weights_(weights), options_(options), kernels_(kernels), buffers_(options.device) {}

const torch::Tensor& Operations::computed(const Value& x) {
  if (!x->tensor.defined()) {
    x->tensor = std::visit([this](const auto& how) { return compute(how); }, x->how);
    x->how = std::monostate();  // gives back what it was made of
  }
  return x->tensor;
}

torch::Tensor Operations::features(const torch::Tensor& patches) {
  const VisionTransformerImpl& model = *weights_.model;
  cut_ = torch::Tensor();
  Value found = model.features(*this, value(patches), options_.features);
  torch::Tensor rows = wide(found);
  if (options_.features.projection) rows = model.projection->forward(torch_, rows);
  if (cut_.defined()) rows = at::cat({rows, cut_.to(torch::kFloat).flatten(1)}, 1);
  done("pooling", {rows});
  cut_ = torch::Tensor();
  return rows;
}

std::vector<Value> Operations::split(const Value& x, const Sizes& sizes) {
  std::vector<Value> parts;
  for (const torch::Tensor& part : torch_.split(computed(x), sizes)) parts.push_back(value(part));
  return parts;
}

std::vector<Value> Operations::heads(const Value& x, std::int64_t parts, std::int64_t heads) {
  if (class_token_alone_)
    if (const Product* const product = pending<Product>(x))
      return class_token_heads(*product, heads);
  std::vector<Value> all;
  for (const torch::Tensor& part : torch_.heads(operand(x), parts, heads))
    all.push_back(value(part));
  return all;
}

// The query of each image's first token alone, and all keys and values.
std::vector<Value> Operations::class_token_heads(const Product& product, std::int64_t heads) {
  const std::int64_t width = product.weight.size(0) / 3;
  const auto rows = [&](const Value& x, std::int64_t from, std::int64_t count) {
    const torch::Tensor& bias = product.bias;
    return later(Product{x, product.weight.narrow(0, from, count),
                         bias.defined() ? bias.narrow(0, from, count) : bias});
  };
  const Value first = value(operand(product.x).narrow(1, 0, 1));
  std::vector<Value> all{value(torch_.heads(computed(rows(first, 0, width)), 1, heads)[0])};
  for (const torch::Tensor& part :
       torch_.heads(computed(rows(product.x, width, 2 * width)), 2, heads))
    all.push_back(value(part));
  return all;
}

Value Operations::norm_of_heads(const Value& x, const NormImpl& layer) {
  computed(x).copy_(torch_.norm(wide(x), layer));
  return x;
}

// Turns what lies as a product gave it. The class token is not turned.
Value Operations::rotate(const Value& x, Rotation turn) {
  const torch::Tensor& heads = computed(x);  // [B, h, tokens, d]
  if (!turn->sine.defined() || heads.size(2) == 1) return x;
  const std::int64_t count = heads.size(1), tokens = heads.size(2), half = turn->sine.size(-1);
  TORCH_INTERNAL_ASSERT(heads.stride(1) == 2 * half && heads.stride(3) == 1 &&
                        heads.stride(0) == tokens * heads.stride(2));
  const std::int64_t tables = turn->sine.dim() == 3 ? count : 1;
  check(kernels_.rotate(
      {heads.data_ptr(), floats(turn->sine), floats(turn->cosine), heads.size(0), tokens,
       tokens - turn->sine.size(-2), heads.stride(2), count, half, tables, dtype_of(options_.type)},
      stream_of(options_.device)));
  done("rotation", {heads, heads});
  return x;
}

Value Operations::attend(const Value& q, const Value& k, const Value& v, std::int64_t,
                         const torch::Tensor& bias) {
  const torch::Tensor queries = operand(q), keys = operand(k), values = operand(v);
  torch::Tensor attended;
  if (bias.defined())
    attended = at::scaled_dot_product_attention(
        queries, keys, values, in_type(bias).narrow(1, 0, queries.size(2)).unsqueeze(0));
  else if (attention_ && queries.size(2) > 1)  // cuDNN takes no single query
    attended = attention_(queries, keys, values);
  else
    attended = at::scaled_dot_product_attention(queries, keys, values);
  done("attention", {queries, keys, values, attended},
       attention_operations(attended, keys.size(2)));
  return value(attended);
}

Value Operations::patches(const Value& images, const PatchEmbedImpl& layer) {
  return later(Product{images, weights_.patch_embed, layer.proj->bias});
}

// Of Pooling::kCls nothing but the class token's feature leaves the last block.
Operations::Rotation Operations::rotation(const VisionTransformerImpl& model, std::int64_t block,
                                          const Value&) {
  const std::int64_t last = layers_of(options_.features, model.architecture).back() - 1;
  class_token_alone_ = options_.features.pooling == Pooling::kCls && block == last;
  return &weights_.turns[static_cast<std::size_t>(block)];
}

// A single token is normed again, in float; a mean evens the rounding out.
Value Operations::tokens(const Value& x, std::int64_t from, std::int64_t to) {
  const Normed* const normed = pending<Normed>(x);
  if (!normed || to - from > 1) return value(computed(x).narrow(1, from, to - from));
  const Value sum = normed->x;
  const NormImpl& layer = *normed->layer;
  if (!class_token_alone_) computed(x);  // and the sum with it, by one kernel
  return value(torch_.norm(computed(sum).narrow(1, from, to - from).to(torch::kFloat), layer));
}

Value Operations::mean(const Value& x, std::int64_t from, std::int64_t to) {
  return value(computed(x).narrow(1, from, to - from).mean({1}, false, torch::kFloat));
}

Value Operations::attention_pool(const Value& seen) {
  return value(weights_.model->attn_pool->forward(torch_, wide(seen)).flatten(1));
}

Value Operations::joined(const std::vector<Value>& values) {
  std::vector<torch::Tensor> all;
  for (const Value& one : values) all.push_back(wide(one));
  return value(at::cat(all, 1));
}

torch::Tensor Operations::multiply(const Product& product, End end) {
  const torch::Tensor x = operand(product.x), weight = product.weight.t();
  torch::Tensor out = buffers_.take(with_last(x, weight.size(1)), options_.type);
  torch::Tensor rows = rows_of(out);
  const bool biased = end != End::kNothing && product.bias.defined();
  const torch::Tensor bias = biased ? in_type(product.bias) : torch::Tensor();
  if (end == End::kBiasAndGelu)
    at::_addmm_activation_out(rows, bias, rows_of(x), weight, 1, 1, /*use_gelu=*/true);
  else if (biased)
    at::addmm_out(rows, bias, rows_of(x), weight);
  else
    at::mm_out(rows, rows_of(x), weight);
  done(weights_.label(product.weight), {out, x, weight},
       2.0 * static_cast<double>(x.numel()) * static_cast<double>(weight.size(1)));
  return out;
}

// cuBLAS's epilogue has GELU by tanh (cublasLtEpilogue_t, CUBLASLT_EPILOGUE_GELU_BIAS), and so has
// LibTorch on CUDA where that is not to be had (addmm_out_cuda_impl() in aten/src/ATen/native/cuda/
// Blas.cpp); on a CPU it has the exact one (LinearAlgebra.cpp, addmm_activation_out_cpu).
bool Operations::ends_in_gelu(const Activated& activated, const Product& product) const {
  const Activation function = activated.function;
  return options_.gelu_in_product && !activated.gated && product.bias.defined() &&
         (function == Activation::kGelu || function == Activation::kGeluTanh);
}

torch::Tensor Operations::compute(const Activated& activated) {
  const Product* const product = pending<Product>(activated.x);
  if (product && ends_in_gelu(activated, *product)) return multiply(*product, End::kBiasAndGelu);
  // The kernel's rows lie one behind the other; parts of a wider product do not.
  const torch::Tensor x =
      product ? multiply(*product, End::kNothing) : operand(activated.x).contiguous();
  const torch::Tensor bias = product ? product->bias : torch::Tensor();
  const std::int64_t width = x.size(-1) / (activated.gated ? 2 : 1);
  const auto function = function_of(activated.function);
  if (!function || width % 8 != 0) {
    const torch::Tensor biased = bias.defined() ? x.to(torch::kFloat) + bias : x.to(torch::kFloat);
    return activated.gated ? gate_halves(torch_, biased, width, activated.function)
                           : activate(torch_, biased, activated.function);
  }
  const torch::Tensor out = buffers_.take(with_last(x, width), options_.type);
  check(
      kernels_.activation({x.const_data_ptr(), floats(bias), out.data_ptr(), x.numel() / x.size(-1),
                           width, *function, activated.gated, dtype_of(options_.type)},
                          stream_of(options_.device)));
  done("activation", {x, out});
  return out;
}

// What blocks add to, of y's tokens; or y is a bias.
torch::Tensor Operations::compute(const Sum& sum) {
  const torch::Tensor y = wide(sum.y), x = wide(sum.x);
  const torch::Tensor own = y.dim() == x.dim() ? x.narrow(1, 0, y.size(1)) : x;
  const torch::Tensor added = (own + y).to(options_.residual);
  done("sums_and_norms", {x, y, added});
  return added;
}

torch::Tensor Operations::compute(const Start& start) {
  const torch::Tensor patches = behind_start(start);
  torch::Tensor all = weights_.start.repeat({patches.size(0), 1, 1});
  all.narrow(1, all.size(1) - patches.size(1), patches.size(1)).add_(patches);
  return all;
}

torch::Tensor Operations::compute(const Normed& normed) {
  const NormImpl& layer = *normed.layer;
  const Value& x = normed.x;
  const bool fits = takes_norm(layer.weight.size(0));
  const Norm& before_blocks = weights_.model->norm_pre;
  if (const Sum* const sum = pending<Sum>(x); sum && fits) {
    torch::Tensor added;
    const torch::Tensor z = add_and_norm(*sum, layer, added);
    *x = Expression{added};
    return z;
  }
  // What a norm before the blocks gives is what they add to, so that it is not rounded.
  const Start* const start = pending<Start>(x);
  if (start && fits && !(before_blocks && before_blocks.get() == &layer)) {
    torch::Tensor added;
    const torch::Tensor z = start_and_norm(*start, layer, added);
    *x = Expression{added};
    return z;
  }
  const torch::Tensor found = torch_.norm(wide(x), layer);
  done("sums_and_norms", {computed(x), found});
  return found;
}

torch::Tensor Operations::add_and_norm(const Sum& sum, const NormImpl& layer,
                                       torch::Tensor& added) {
  Value term = sum.y;
  torch::Tensor gamma, bias, y;
  if (const Scaled* const scaled = pending<Scaled>(term); scaled && scaled->factors.dim() == 1) {
    gamma = scaled->factors;
    term = Value(scaled->x);
  }
  if (const Product* const product = pending<Product>(term)) {
    bias = product->bias;
    y = multiply(*product, End::kNothing);
  } else {
    y = operand(term).contiguous();
  }
  const torch::Tensor x =
      computed(sum.x).narrow(1, 0, y.size(1)).to(options_.residual).contiguous();
  added = buffers_.take(x.sizes(), options_.residual);
  const torch::Tensor z = buffers_.take(x.sizes(), options_.type);
  check(kernels_.residual_norm(
      {x.const_data_ptr(), y.const_data_ptr(), floats(bias), floats(gamma), factors_of(layer),
       added.data_ptr(), z.data_ptr(), x.numel() / x.size(-1), x.size(-1),
       dtype_of(options_.residual), dtype_of(options_.type)},
      stream_of(options_.device)));
  done("sums_and_norms", {x, y, added, z});
  return z;
}

// The bias of the patches' product is part of the starting tokens.
torch::Tensor Operations::behind_start(const Start& start) {
  const Product* const product = pending<Product>(start.patches);
  return product ? multiply(*product, End::kNothing) : operand(start.patches);
}

torch::Tensor Operations::start_and_norm(const Start& start, const NormImpl& layer,
                                         torch::Tensor& added) {
  const torch::Tensor y = behind_start(start);
  const std::int64_t tokens = weights_.start.size(0), width = weights_.start.size(1);
  added = buffers_.take({y.size(0), tokens, width}, options_.residual);
  const torch::Tensor z = buffers_.take({y.size(0), tokens, width}, options_.type);
  check(kernels_.embed_norm({floats(weights_.start), y.const_data_ptr(), factors_of(layer),
                             added.data_ptr(), z.data_ptr(), y.size(0), tokens, tokens - y.size(1),
                             width, dtype_of(options_.residual), dtype_of(options_.type)},
                            stream_of(options_.device)));
  done("sums_and_norms", {y, added, z});
  return z;
}

torch::Tensor Operations::in_type(const torch::Tensor& parameter) {
  torch::Tensor& found = rounded_[parameter.const_data_ptr()];
  if (!found.defined() || found.sizes() != parameter.sizes()) found = parameter.to(options_.type);
  return found;
}

// Tells the clock that a layer has been launched, which read and wrote these tensors.
void Operations::done(const std::string& layer, std::initializer_list<torch::Tensor> moved,
                      double operations) {
  if (clock_ == nullptr) return;
  double bytes = 0;
  for (const torch::Tensor& tensor : moved) bytes += static_cast<double>(tensor.nbytes());
  clock_->mark(layer, operations, bytes);
}

}  // namespace coldframe::vit::gpu
