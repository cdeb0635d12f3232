#include "extract/vit/gpu/engine.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/precision.h"
#include "extract/cuda/kernels.h"
#include "extract/vit/vit.h"

namespace coldframe::vit::gpu {

// Arguments of extract/cuda's kernels.

inline const float* floats(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

inline cuda::NormFactors factors_of(const NormImpl& layer) {
  return {floats(layer.weight), floats(layer.bias), static_cast<float>(layer.epsilon),
          layer.bias.defined()};
}

// Nothing for an activation that no kernel computes.
inline std::optional<cuda::Function> function_of(Activation activation) {
  constexpr std::pair<Activation, cuda::Function> kKnown[] = {
      {Activation::kGelu, cuda::Function::kGelu},
      {Activation::kGeluTanh, cuda::Function::kGeluTanh},
      {Activation::kQuickGelu, cuda::Function::kQuickGelu},
      {Activation::kSilu, cuda::Function::kSilu}};
  for (const auto& [name, function] : kKnown)
    if (name == activation) return function;
  return std::nullopt;
}

inline void* stream_of(const torch::Device& device) {
  if (device.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

inline void check(int error) {
  if (error == 0) return;
  if (error == cuda::kOutOfMemory)  // code is loaded to the device with its first use
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "no memory for a kernel");
  throw SystemError(concat("a CUDA kernel of the ViT failed with error ", error,
                           "; run with --device cpu, or check the driver with nvidia-smi"));
}

// The smallest free one that is large enough.
torch::Tensor Buffers::take(torch::IntArrayRef sizes, torch::ScalarType type) {
  const std::int64_t bytes =
      c10::multiply_integers(sizes) * static_cast<std::int64_t>(torch::elementSize(type));
  const torch::Tensor* found = nullptr;
  for (const torch::Tensor& one : all_)
    if (one.storage().use_count() == 1 && one.numel() >= bytes &&
        (!found || one.numel() < found->numel()))
      found = &one;
  if (!found)
    found = &all_.emplace_back(
        torch::empty({bytes}, torch::TensorOptions(device_).dtype(torch::kUInt8)));
  return found->narrow(0, 0, bytes).view(type).view(sizes);
}

namespace {

using Attentions = std::vector<AttentionWeights>;  // of each block

Attentions attentions_of(const VisionTransformerImpl& model) {
  Attentions all;
  const auto turns = rotations(model.architecture, model.grid, model.rope_freqs);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::vector<Branch>& branches = model.blocks[i]->branches[0];
    all.push_back(branches.size() == 1 ? attention_weights(*branches[0].attention, turns[i])
                                       : AttentionWeights());
  }
  return all;
}

// Gives a copy of the model its tensors on the device, and shapes for what DeviceWeights keeps
// otherwise.
class Source : public WeightSource {
 public:
  Source(const VisionTransformerImpl& model, const Attentions& attentions,
         const EngineOptions& options)
      : options_(options) {
    for (const auto& parameter : model.named_parameters())
      tensors_[parameter.key()] = parameter.value().detach();
    tensors_.erase("patch_embed.proj.weight");
    for (std::size_t i = 0; i < attentions.size(); ++i) {
      const AttentionWeights& own = attentions[i];
      const std::string prefix = concat("blocks.", i, ".attn.");
      for (const auto& [name, tensor] : {std::pair("qkv.weight", own.qkv),
                                         {"qkv.bias", own.qkv_bias},
                                         {"q_norm.weight", own.q_norm},
                                         {"q_norm.bias", own.q_norm_bias},
                                         {"k_norm.weight", own.k_norm},
                                         {"k_norm.bias", own.k_norm_bias}})
        if (tensor.defined()) tensors_[prefix + name] = tensor;
    }
  }

  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override {
    const torch::Tensor& found = tensors_[name];
    if (!found.defined() || found.sizes() != shape) return torch::empty(shape, torch::kMeta);
    const bool matrix =
        name.starts_with("blocks.") && name.ends_with(".weight") && shape.size() == 2;
    return found.to(options_.device, matrix ? options_.type : torch::kFloat).contiguous();
  }

 private:
  std::map<std::string, torch::Tensor> tensors_;
  const EngineOptions& options_;
};

VisionTransformer on_device(const VisionTransformerImpl& from, const Attentions& attentions,
                            const EngineOptions& options) {
  Source source(from, attentions, options);
  return VisionTransformer(Scope(source), from.architecture, options.image_size,
                           from.projection ? from.projection->weight.size(0) : 0);
}

}  // namespace

DeviceWeights::DeviceWeights(const VisionTransformerImpl& from, const EngineOptions& options)
    : DeviceWeights(from, options, attentions_of(from)) {}

DeviceWeights::DeviceWeights(const VisionTransformerImpl& from, const EngineOptions& options,
                             const Attentions& attentions)
    : model(on_device(from, attentions, options)) {
  const torch::Tensor weight = from.patch_embed->proj->weight.detach().flatten(1);
  const std::int64_t columns = weight.size(1);
  const std::int64_t pitch = (columns + kPatchColumns - 1) / kPatchColumns * kPatchColumns;
  patch_embed = at::constant_pad_nd(weight, {0, pitch - columns}).to(options.device, options.type);
  start = starting_tokens(from, from.grid.patches()).to(options.device);
  for (const AttentionWeights& own : attentions) {
    const auto copied = [&](const torch::Tensor& tensor) {
      return tensor.defined() ? tensor.to(options.device).contiguous() : tensor;
    };
    turns.push_back({copied(own.sine), copied(own.cosine)});
  }
  labels_[patch_embed.storage().data()] = "patch_embed";
  for (const auto& module : model->named_modules())
    if (const auto* const linear = module.value()->as<LinearImpl>();
        linear && !linear->weight.is_meta())
      labels_[linear->weight.storage().data()] = module.key().substr(module.key().rfind('.') + 1);
}

const std::string& DeviceWeights::label(const torch::Tensor& weight) const {
  return labels_.at(weight.storage().data());
}

LayerClock::LayerClock(const EngineOptions& options) : options_(options) {
  moments_.push_back(now());
}

// Events of this flag keep times (c10/cuda/impl/CUDAGuardImpl.h: cudaEventDefault).
LayerClock::TimeMark LayerClock::now() const {
  const torch::Device& device = options_.device;
  TimeMark moment{c10::Event(device.type(), c10::EventFlag::BACKEND_DEFAULT), options_.cpu_time()};
  if (!device.is_cpu())
    moment.event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return moment;
}

double LayerClock::seconds(const TimeMark& from, const TimeMark& to) const {
  if (options_.device.is_cpu()) return std::chrono::duration<double>(to.time - from.time).count();
  return from.event.elapsedTime(to.event) / 1000;
}

void LayerClock::mark(const std::string& layer, double operations, double bytes) {
  marks_.push_back({layer, operations, bytes, 0});
  moments_.push_back(now());
}

std::vector<LayerCost> LayerClock::read() const {
  if (!options_.device.is_cpu()) moments_.back().event.synchronize();
  std::vector<LayerCost> layers;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    auto layer = std::ranges::find(layers, marks_[i].layer, &LayerCost::layer);
    if (layer == layers.end()) layer = layers.insert(layer, {marks_[i].layer});
    layer->operations += marks_[i].operations;
    layer->bytes += marks_[i].bytes;
    layer->seconds += seconds(moments_[i], moments_[i + 1]);
  }
  return layers;
}

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
  return width % 4 == 0 && width <= cuda::kMaxWidth;
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
  // The kernel's rows lie one after the other; parts of a wider product do not.
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

// The kernel turns pairs of numbers that lie half a head apart; DeviceWeights brings them there in
// blocks of one plain attention.
std::optional<std::string> refusal(const Architecture& shape) {
  const bool plain = shape.block == BlockKind::kPreNorm || shape.block == BlockKind::kPostNorm;
  if (shape.rotary == Rotary::kNone || (plain && !shape.differential)) return std::nullopt;
  return value_text(shape, "rotary");
}

Engine::Engine(const VisionTransformerImpl& model, const EngineOptions& options,
               const cuda::GpuKernels& kernels, MakeGraph make_graph)
    : options_(options),
      kernels_(kernels),
      weights_([&] {
        if (const auto reason = refusal(model.architecture)) throw ConfigError(*reason);
        const torch::InferenceMode guard;
        return DeviceWeights(model, options);
      }()),
      operations_(weights_, options_, kernels),
      recording_(std::move(make_graph)) {}

torch::Tensor Engine::forward_frames(const torch::Tensor& frames, const torch::Tensor& levels) {
  const std::int64_t batch = frames.size(0);
  return run(batch, [&] {
    check(kernels_.patches(
        {frames.const_data_ptr<std::uint8_t>(), floats(levels), patches_.data_ptr(), batch,
         options_.image_size, weights_.model->architecture.patch, patches_.size(1),
         dtype_of(options_.type)},
        stream_of(options_.device)));
  });
}

torch::Tensor Engine::forward_images(const torch::Tensor& images) {
  const std::int64_t batch = images.size(0), patch = weights_.model->architecture.patch;
  const std::int64_t grid = options_.image_size / patch, columns = 3 * patch * patch;
  return run(batch, [&] {
    patches_.narrow(0, 0, batch * grid * grid)
        .narrow(1, 0, columns)
        .view({batch, grid, grid, 3, patch, patch})
        .copy_(images.view({batch, 3, grid, patch, grid, patch}).permute({0, 2, 4, 1, 3, 5}));
  });
}

void Engine::reserve(std::int64_t batch) {
  if (patches_.defined() && capacity_ >= batch) return;
  release_memory();  // before more is taken: the two may not fit together
  const std::int64_t pitch = weights_.patch_embed.size(1);
  patches_ =
      torch::zeros({batch * weights_.model->grid.patches(), pitch}, weights_.patch_embed.options());
  capacity_ = batch;
}

void Engine::release_memory() {
  recording_.clear();  // it computes in that memory
  operations_.release_memory();
  patches_ = features_ = torch::Tensor();
}

bool Engine::expect(std::int64_t batch, bool stays) {
  const bool choose = stays && batch > 0 && options_.attention;
  if (batch == expected_ && (!choose || attention_chosen_)) return false;
  set_expected(batch);
  if (choose) choose_attention();
  return true;
}

// The recording and the attention are those of the batch that is expected.
void Engine::set_expected(std::int64_t batch) {
  recording_.clear();
  operations_.set_attention(nullptr);
  attention_chosen_ = false;
  expected_ = batch;
}

bool Engine::compute_exactly() {
  EngineOptions exact = options_;
  exact.residual = torch::kFloat;
  exact.gelu_in_product = false;
  exact.attention = nullptr;
  if (exact.residual == options_.residual && !options_.gelu_in_product && !options_.attention)
    return false;
  release_memory();
  options_ = exact;
  operations_.set_attention(nullptr);
  return true;
}

// The limit is that of frames, which the patch kernel counts in pixels, and of the largest tensors.
std::int64_t Engine::max_images() const {
  const std::int64_t size = options_.image_size, patches = weights_.model->grid.patches();
  std::int64_t columns = weights_.start.size(1);
  for (const auto& module : weights_.model->modules())
    if (const auto* const linear = module->as<LinearImpl>())
      columns = std::max(columns, linear->weight.size(0));
  return INT32_MAX / std::max({3 * size * size, patches * weights_.patch_embed.size(1),
                               weights_.start.size(0) * columns});
}

template <class Work>
auto Engine::within_memory(const Work& work) {
  const torch::InferenceMode guard;
  const c10::DeviceGuard device(options_.device);  // on which the kernels are launched
  try {
    return work();
  } catch (const c10::Error& error) {
    if (!is_out_of_memory(error)) throw;
    release_memory();
    set_expected(0);  // it was too large
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, error.what_without_backtrace());
  }
}

// Rows after the batch hold stale data; what is computed from them is not read.
torch::Tensor Engine::run(std::int64_t batch, const std::function<void()>& fill_patches) {
  const std::int64_t computed = batch > 0 ? std::max(batch, expected_) : 1;
  return within_memory([&] {
    reserve(computed);
    if (batch > 0) fill_patches();
    if (computed == expected_)
      recording_.run([this, computed] { compute(computed); });
    else
      compute(computed);
    return features_.narrow(0, 0, batch);
  });
}

void Engine::compute(std::int64_t batch) {
  const std::int64_t patches = weights_.model->grid.patches();
  const torch::Tensor found = operations_.features(
      patches_.narrow(0, 0, batch * patches).view({batch, patches, patches_.size(1)}));
  if (!features_.defined()) features_ = torch::empty({capacity_, found.size(1)}, found.options());
  features_.narrow(0, 0, batch).copy_(found);
}

std::vector<LayerCost> Engine::measure_layers(std::int64_t batch) {
  return within_memory([&] {
    reserve(batch);
    LayerClock clock(options_);
    operations_.set_clock(&clock);
    try {
      compute(batch);
    } catch (...) {
      operations_.set_clock(nullptr);
      throw;
    }
    operations_.set_clock(nullptr);
    return clock.read();
  });
}

// Of a pass over the images that are expected, after one that warms up.
double Engine::seconds_by(Attention attention) {
  constexpr int kPasses = 2;
  operations_.set_attention(attention);
  compute(expected_);
  LayerClock clock(options_);
  for (int i = 0; i < kPasses; ++i) compute(expected_);
  clock.mark("passes", 0, 0);
  return clock.read().front().seconds / kPasses;
}

// On Hopper cuDNN's attention takes half of flash attention's time or less, on older devices more;
// it builds a plan for every shape, so that it is worth while once the shape stays.
void Engine::choose_attention() {
  const StageTimer timer(options_.times.get(), "attention");
  within_memory([&] {
    reserve(expected_);
    const double own = seconds_by(nullptr);
    try {
      const double others = seconds_by(options_.attention);
      const char* const taken = others < own ? "cuDNN's" : "LibTorch's choice";
      log_info(concat("a batch of ", expected_, " takes ", fixed(1e3 * others, 2),
                      " ms with cuDNN's attention and ", fixed(1e3 * own, 2),
                      " ms with LibTorch's choice: ", taken, " is taken"));
      if (others >= own) operations_.set_attention(nullptr);
    } catch (const std::exception& error) {
      operations_.set_attention(nullptr);
      if (is_out_of_memory(error)) throw;
      log_info(concat("cuDNN's attention is left out: ", first_line(error)));
    }
    attention_chosen_ = true;
  });
}

}  // namespace coldframe::vit::gpu
