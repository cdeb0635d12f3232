// A frozen backbone: images in, one feature vector per image out, and behind it, where
// FeatureOptions::cut asks for it, what enters a block.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/system/monitor.h"
#include "common/text/text.h"
#include "common/torch/precision.h"
#include "common/torch/tensor.h"
#include "extract/vit/pooling.h"

namespace coldframe::vit {

// A few of the input's images, to judge a backbone by.
struct CheckInput {
  torch::Tensor images;          // as Backbone::forward() takes them; undefined: nothing is judged
  torch::Tensor frames, levels;  // the same as forward_frames() takes them, on the CPU
};

struct BackboneOptions {
  // A ViT: a file of weights, or a folder as the Hugging Face hub has it (checkpoint/checkpoint.h).
  std::filesystem::path weights{};
  std::filesystem::path module{};  // or a TorchScript module or .pt2 package, [B,3,H,W] -> [B,D]
  std::optional<std::uint64_t> random_seed{};  // or seeded random weights of `architecture`
  // timm's name, a tag behind a dot ignored; required with random_seed, else checked against the
  // weights. It goes before a config that lies beside the weights.
  std::string architecture{};
  // The whole of it, as a recipe states it: nothing else is asked then.
  std::optional<Architecture> stated{};
  // They go before what the name, the config, or the weights' shapes say (published/published.h).
  std::optional<std::int64_t> heads{};
  std::optional<Activation> activation{};
  FeatureOptions features{};  // ignored for a module, which makes its own
  ImageSize image_size{};
  // If set, features in bf16 or fp16, and all of a ViT on a GPU, are compared on these images with
  // those in fp32. Where they stray, the backbone computes by other means and warns; SystemError
  // where those stray, too.
  std::function<CheckInput()> check{};  // is called once the weights have been read
  // Somebody asked for the precision by name: SystemError where features stray in it, and a GPU
  // rounds no more than the name says.
  bool named_precision = false;
  std::shared_ptr<StageTimes> times{};  // of what a ViT does to start; null: they are not wanted
};

class Backbone {
 public:
  virtual ~Backbone() = default;
  // images [B, 3, H, W] float32, normalised, on the CPU or the backbone's device ->
  // [B, row_values()] float32 on the latter, valid until the next call. On a GPU asynchronous on
  // the current stream. No gradients.
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;
  // True when forward_frames() is there: the device normalises by itself.
  virtual bool takes_frames() const { return false; }
  // frames [B, H, W, 3] uint8 and levels [3, 256] float32, what each level of each channel becomes,
  // both on the backbone's device -> the same. Undefined when it takes frames no longer: forward()
  // computes then.
  virtual torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor& levels);
  // The job's passes have so many images from now on, the last one perhaps fewer: what depends on
  // that is prepared and checked. `stays`: there will be enough of them to find out what computes
  // them quickest. On the current stream.
  virtual void expect(std::int64_t /*batch*/, bool /*stays*/) {}
  // Device memory that each image of a pass takes at most; 0: it is not known.
  virtual std::uint64_t bytes_per_image() const { return 0; }
  // Device memory that is kept aside without being counted as tensors.
  virtual std::uint64_t bytes_aside() const { return 0; }
  // Gives back what is kept from one call to the next, except the weights.
  virtual void release_memory() {}
  // The most images that one call takes, whatever the memory.
  virtual std::int64_t max_images() const { return std::numeric_limits<std::int64_t>::max(); }
  virtual std::int64_t dimension() const = 0;  // D, of the features
  // [tokens, width] of what is kept of each image behind its features; {}: nothing.
  virtual std::vector<std::int64_t> cut_shape() const { return {}; }
  std::int64_t row_values() const;          // the features and what is kept
  virtual Precision precision() const = 0;  // the one asked for, or what it fell back to
  // Describes the backbone for the recipe: kind, weights' SHA-256, architecture, pooling.
  virtual Json describe() const = 0;
};

inline constexpr double kMinCosine = 0.999;  // of features to those of the CPU engine in fp32
// "features of the first frames have a cosine of 0.9 to those of fp32 on the CPU, expected …"
std::string strays_by(double cosine, const torch::Device& device);

// Whether make_backbone() has something to compare on options.check: whatever may round, and a ViT
// on a GPU, also in fp32.
bool is_compared(const BackboneOptions& options, const torch::Device& device,
                 std::optional<Precision> precision);

// Without a precision (`--precision auto`) a ViT on the CPU is timed on options.check in each that
// the processor has instructions for, and the quickest of those that do not stray is taken;
// anything else computes as parse_precision() says. DataError / ConfigError: unreadable or
// mismatching weights, with the tensors' names and shapes. SystemError: it does not fit on the
// device.
std::unique_ptr<Backbone> make_backbone(const BackboneOptions& options, const torch::Device& device,
                                        std::optional<Precision> precision);

// The kinds of backbone that make_backbone chooses from.

// Takes options.weights, or random weights of options.architecture. Several precisions, on the CPU:
// the quickest of them on options.check is taken, the first where nothing is given to compare.
std::unique_ptr<Backbone> make_vit_backbone(const BackboneOptions& options,
                                            const torch::Device& device,
                                            const std::vector<Precision>& precisions);

std::unique_ptr<Backbone> make_compiled_backbone(const BackboneOptions& options,
                                                 const torch::Device& device, Precision precision);

// Features stray in a precision ("features of … have a cosine of …"): SystemError where somebody
// named it, else a warning, since another one computes.
void leave_precision(Precision precision, const std::string& how, bool named, Precision other);

// DataError unless images are [B, 3, H, W] float32.
void require_images(const torch::Tensor& images, const ImageSize& image_size);

}  // namespace coldframe::vit
