// How the GPU engine computes.
#pragma once

#include <c10/core/Event.h>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/system/monitor.h"
#include "common/torch/graphs.h"
#include "common/torch/tensor.h"
#include "extract/cuda/kernels.h"
#include "extract/vit/pooling.h"
#include "extract/vit/vit.h"
#include "extract/vit/weights.h"

namespace coldframe::vit::gpu {

// softmax(q·kᵀ / √d)·v, all [B, heads, tokens, d]; throws what it cannot compute.
using Attention = torch::Tensor (*)(const torch::Tensor& q, const torch::Tensor& k,
                                    const torch::Tensor& v);
torch::Tensor cudnn_attention(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v);

struct EngineOptions {
  torch::Device device{torch::kCPU};
  torch::ScalarType type = torch::kBFloat16;  // of products and activations; kFloat, kHalf
  // The blocks add to tensors of this type. In float, sums over many blocks lose nothing; in `type`
  // the norm kernels move fewer bytes.
  torch::ScalarType residual = torch::kFloat;
  // Fuses GELU into fc1's product, in cuBLAS's tanh form for any model: saves a write and a read of
  // fc1's output.
  bool gelu_in_product = false;
  Attention attention = nullptr;  // tried next to LibTorch's choice; keeps the faster
  FeatureOptions features{};
  std::int64_t image_size = 224;
  std::chrono::steady_clock::time_point (*cpu_time)() = std::chrono::steady_clock::now;
  std::shared_ptr<StageTimes> times{};  // as BackboneOptions has them
};

// The workspace of a forward pass.

// Allocates tensors, reusing the memory of unreferenced ones, so that later passes of one shape
// allocate nothing. All work on the tensors runs on one stream.
class Buffers {
 public:
  explicit Buffers(const torch::Device& device) : device_(device) {}

  torch::Tensor take(torch::IntArrayRef sizes, torch::ScalarType type);
  void clear() { all_.clear(); }

 private:
  torch::Device device_;
  std::vector<torch::Tensor> all_;  // [bytes] uint8
};

// The result of the GPU's operations: a tensor, or a lazy expression of others.

struct Expression;
using Value = std::shared_ptr<Expression>;

struct Product {  // x · weightᵀ + bias
  Value x;
  torch::Tensor weight, bias;  // [out, in], [out]; no bias: undefined
};
struct Activated {  // f(x), or with a gate f(g) · v of x's halves
  Value x;
  Activation function;
  bool gated;
};
struct Scaled {
  Value x;
  torch::Tensor factors;  // [width]
};
struct Sum {  // y may have the first tokens only; so has the sum then
  Value x, y;
};
struct Start {  // the tokens that enter block 0, of those of the patches
  Value patches;
};
struct Normed {
  Value x;
  const NormImpl* layer;
};

struct Expression {
  torch::Tensor tensor;  // undefined until needed
  std::variant<std::monostate, Product, Activated, Scaled, Sum, Start, Normed> how{};
};

inline Value value(torch::Tensor tensor) {
  return std::make_shared<Expression>(Expression{std::move(tensor)});
}
template <class How>
Value later(How how) {
  return std::make_shared<Expression>(Expression{{}, std::move(how)});
}
// Its expression, if it is not computed yet and has this form.
template <class How>
const How* pending(const Value& x) {
  return x->tensor.defined() ? nullptr : std::get_if<How>(&x->how);
}

// A model's weights in the layout of the GPU's operations.

// Columns of patches are padded to whole 32-byte sectors: tensor cores need aligned rows, and
// patches of 14 pixels have 588 columns.
inline constexpr std::int64_t kPatchColumns = 16;

struct RotaryTable {           // of a block's queries and keys
  torch::Tensor sine, cosine;  // float, as AttentionWeights has them; undefined: none
};

struct DeviceWeights {
  // Copies float weights to the device; `from` is no longer needed then.
  DeviceWeights(const VisionTransformerImpl& from, const EngineOptions& options);

  // The layer whose matrix, or part of it, this is: "fc1".
  const std::string& label(const torch::Tensor& weight) const;

  // Block matrices have options.type, all else is float. Patch embedding and starting tokens have
  // shapes only: the members below replace them.
  VisionTransformer model;
  torch::Tensor patch_embed;       // [width, pitch], of options.type
  torch::Tensor start;             // [tokens, width] float
  std::vector<RotaryTable> turns;  // of each block

 private:
  DeviceWeights(const VisionTransformerImpl& from, const EngineOptions& options,
                const std::vector<AttentionWeights>& attentions);

  std::map<const void*, std::string> labels_;  // by where the matrix begins
};

// Device times of the layers of one forward pass.

// A kind of layer in one pass, all blocks together.
struct LayerCost {
  std::string layer;
  double operations = 0;  // multiplications and additions of its matrix products
  double bytes = 0;       // of the tensors that it reads and writes, each once
  double seconds = 0;
};

class LayerClock {
 public:
  explicit LayerClock(const EngineOptions& options);

  // Attributes all work launched since the last mark, on the current stream, to this layer.
  void mark(const std::string& layer, double operations, double bytes);

  // Waits for the device. Layers come in the order of their first marks.
  std::vector<LayerCost> read() const;

 private:
  // A moment of the device's time; of a CPU, which computes as it is called, of cpu_time's.
  struct TimeMark {
    c10::Event event;
    std::chrono::steady_clock::time_point time;
  };
  TimeMark now() const;
  double seconds(const TimeMark& from, const TimeMark& to) const;

  const EngineOptions& options_;
  std::vector<TimeMark> moments_;  // the start, then one after each of
  std::vector<LayerCost> marks_;   // these, whose seconds are not known yet
};

// The GPU's interpretation of a ViT (vit.h). Products, activations, scales, sums and norms are
// lazy. On first use, as many of them are fused as a kernel of extract/cuda or a cuBLAS epilogue
// supports; LibTorch computes the rest in float.

class Operations {
 public:
  using Value = gpu::Value;
  using Rotation = const RotaryTable*;
  using Sizes = std::vector<std::int64_t>;

  Operations(const DeviceWeights& weights, const EngineOptions& options,
             const cuda::GpuKernels& kernels);

  Value linear(const Value& x, const torch::Tensor& weight, const torch::Tensor& bias) {
    return later(Product{x, weight, bias});
  }
  Value norm(const Value& x, const NormImpl& layer) { return later(Normed{x, &layer}); }
  Value activated(const Value& x, Activation function) {
    return later(Activated{x, function, false});
  }
  Value gated(const Value& x, Activation function) { return later(Activated{x, function, true}); }
  Value scaled(const Value& x, const torch::Tensor& factors) { return later(Scaled{x, factors}); }
  Value plus(const Value& x, const Value& y) { return later(Sum{x, y}); }
  Value dropped(const Value& x) { return x; }
  Value times(const Value& x, const Value& y) { return value(wide(x) * wide(y)); }
  Value times(const Value& x, double number) { return value(wide(x) * number); }
  Value parameter(const torch::Tensor& tensor) { return value(tensor); }
  std::vector<Value> split(const Value& x, const Sizes& sizes);

  std::vector<Value> heads(const Value& x, std::int64_t parts, std::int64_t heads);
  Value norm_of_heads(const Value& x, const NormImpl& layer);  // in place
  Value rotate(const Value& x, Rotation turn);                 // in place
  Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
               const torch::Tensor& bias);
  Value merged(const Value& x) { return value(computed(x).transpose(1, 2).flatten(2)); }

  // images [B, patches, pitch]: their patches already
  Value patches(const Value& images, const PatchEmbedImpl& layer);
  Value with_start(const Value& patches, const VisionTransformerImpl&) {
    return later(Start{patches});
  }
  Rotation rotation(const VisionTransformerImpl& model, std::int64_t block, const Value& x);
  Value tokens(const Value& x, std::int64_t from, std::int64_t to);
  Value mean(const Value& x, std::int64_t from, std::int64_t to);
  Value vector(const Value& x) { return value(wide(x).select(1, 0)); }
  Value attention_pool(const Value& seen);
  Value joined(const std::vector<Value>& values);
  Value flattened(const Value& x, std::int64_t) { return value(wide(x).flatten(1)); }
  void kept(const Value& x) { cut_ = computed(x); }

  // images' patches -> [B, features] float, as VisionTransformerImpl::forward() has them
  torch::Tensor features(const torch::Tensor& patches);
  void release_memory() { buffers_.clear(); }
  void set_clock(LayerClock* clock) { clock_ = clock; }
  void set_attention(Attention attention) { attention_ = attention; }

 private:
  enum class End { kNothing, kBias, kBiasAndGelu };

  const torch::Tensor& computed(const Value& x);
  torch::Tensor wide(const Value& x) { return computed(x).to(torch::kFloat); }
  torch::Tensor operand(const Value& x) { return computed(x).to(options_.type); }
  torch::Tensor compute(const Product& product) { return multiply(product, End::kBias); }
  torch::Tensor compute(const Activated& activated);
  torch::Tensor compute(const Scaled& scaled) { return wide(scaled.x) * scaled.factors; }
  torch::Tensor compute(const Sum& sum);
  torch::Tensor compute(const Start& start);
  torch::Tensor compute(const Normed& normed);
  torch::Tensor compute(const std::monostate&) { return {}; }

  torch::Tensor multiply(const Product& product, End end);
  bool ends_in_gelu(const Activated& activated, const Product& product) const;
  torch::Tensor add_and_norm(const Sum& sum, const NormImpl& layer, torch::Tensor& added);
  torch::Tensor start_and_norm(const Start& start, const NormImpl& layer, torch::Tensor& added);
  torch::Tensor behind_start(const Start& start);
  std::vector<Value> class_token_heads(const Product& product, std::int64_t heads);
  torch::Tensor in_type(const torch::Tensor& parameter);
  void done(const std::string& layer, std::initializer_list<torch::Tensor> moved,
            double operations = 0);

  const DeviceWeights& weights_;
  const EngineOptions& options_;
  const cuda::GpuKernels& kernels_;
  TorchOperations torch_;
  Buffers buffers_;
  std::map<const void*, torch::Tensor> rounded_;  // biases, rounded to the products' type
  bool class_token_alone_ = false;                // nothing else leaves this block
  torch::Tensor cut_;                             // what enters options.features.cut
  Attention attention_ = nullptr;                 // in place of LibTorch's choice
  LayerClock* clock_ = nullptr;                   // while layers are measured
};

// The GPU engine: the model of vit.h, interpreted by the operations of operations.h, replayed as a
// CUDA Graph. Written against LibTorch's operators and a table of kernels, so that the tests run
// all of it on the CPU with the kernels' twins.

// Why the engine does not support this architecture; empty if it does.
std::optional<std::string> refusal(const Architecture& architecture);

class Engine {
 public:
  // Casts the float weights of `model` to the device once; the model is no longer needed then.
  // ConfigError if refusal(). `kernels` must compute on the device.
  Engine(const VisionTransformerImpl& model, const EngineOptions& options,
         const cuda::GpuKernels& kernels, MakeGraph make_graph);
  Engine(const Engine&) = delete;

  // frames [B, S, S, 3] uint8 and levels [3, 256] float, what each level of each channel becomes,
  // both on the device -> [B, features and what is kept] float there, valid until the next call.
  // Asynchronous on the current stream. c10::OutOfMemoryError, after which all memory but the
  // weights' is freed; SystemError if a kernel fails.
  torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor& levels);

  // images [B, 3, S, S] float, normalised, on the device -> the same.
  torch::Tensor forward_images(const torch::Tensor& images);

  // Measures each kind of layer in a pass over `batch` images, launched and not replayed; it
  // computes whatever lies in memory. Call after forward_frames(), which warms up the libraries.
  // Waits for the device.
  std::vector<LayerCost> measure_layers(std::int64_t batch);

  // Frees all memory but the weights'; the next call reallocates.
  void release_memory();

  // Sets the batch size from now on: pads smaller batches to it, so that libraries see one shape,
  // and records the pass (never recorded before this call). If the size `stays`, times a pass with
  // each attention once and takes the fastest. False if nothing changes.
  bool expect(std::int64_t batch, bool stays = true);
  std::int64_t expected() const { return expected_; }
  const EngineOptions& options() const { return options_; }

  // From now on disables optimisations that cost accuracy. False: they were disabled already.
  bool compute_exactly();

  // Index arithmetic on the device, in part that of libraries, is in 32 bits.
  std::int64_t max_images() const;

  std::uint64_t graph_bytes() const { return recording_.bytes(); }

 private:
  torch::Tensor run(std::int64_t batch, const std::function<void()>& fill_patches);
  template <class Work>
  auto within_memory(const Work& work);
  void reserve(std::int64_t batch);
  void compute(std::int64_t batch);
  void set_expected(std::int64_t batch);
  void choose_attention();
  double seconds_by(Attention attention);

  EngineOptions options_;
  const cuda::GpuKernels& kernels_;
  DeviceWeights weights_;
  Operations operations_;
  std::int64_t capacity_ = 0;      // images
  torch::Tensor patches_;          // [capacity · patches, pitch], those of the last images
  torch::Tensor features_;         // [capacity, …] float
  std::int64_t expected_ = 0;      // images; 0: any number
  bool attention_chosen_ = false;  // for as many
  Recording recording_;            // of a pass over as many
};

}  // namespace coldframe::vit::gpu
