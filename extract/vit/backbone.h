// A frozen backbone: maps images to one feature vector each, or clips to one or several, followed,
// if FeatureOptions::cut is set, by a block's input.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/system/monitor.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "common/torch/precision.h"
#include "common/torch/tensor.h"
#include "extract/vit/pooling.h"

namespace coldframe::vit {

// Sample images of the input, to check a backbone's precision.
struct CheckInput {
  torch::Tensor images;          // as for Backbone::forward(); undefined: no check
  torch::Tensor frames, levels;  // the same as for forward_frames(), on the CPU
};

// The order of a compiled module's axes: [B, 3, T, H, W] or [B, T, 3, H, W].
enum class ClipAxes { kChannelsFirst, kFramesFirst };
inline const WordTable<ClipAxes> kClipAxes{{"bcthw", ClipAxes::kChannelsFirst},
                                           {"btchw", ClipAxes::kFramesFirst}};

struct BackboneOptions {
  // A ViT: a file of weights, or a folder in the Hugging Face hub's layout
  // (checkpoint/checkpoint.h).
  std::filesystem::path weights{};
  // Or a TorchScript module or .pt2 package, [B,3,H,W] -> [B,D]; of clips as
  // make_compiled_backbone.
  std::filesystem::path module{};
  std::optional<std::uint64_t> random_seed{};  // or seeded random weights of `architecture`
  // timm's name; a tag after a dot is ignored. Required with random_seed, else checked against the
  // weights. Overrides a config next to the weights.
  std::string architecture{};
  // The complete architecture from a recipe: overrides all other sources.
  std::optional<Architecture> stated{};
  // They override the name, the config, and the weights' shapes (published/published.h).
  std::optional<std::int64_t> heads{};
  std::optional<Activation> activation{};
  FeatureOptions features{};  // ignored for a module, which defines its own
  ImageSize image_size{};
  // Frames per input that the user asked for; 0: what the weights' config states, else 1.
  std::int64_t clip_frames = 0;
  // Of a module of clips; nullopt: the order in which it runs, if it is one alone.
  std::optional<ClipAxes> clip_axes{};
  // Voxels of a block [X, Y, Z], for a backbone of volumes; zeros: of images or clips.
  std::array<std::int64_t, 3> block{};
  bool takes_blocks() const { return block[0] > 0; }
  // Maps of blocks are kept as they are, for the mean over a volume; else averaged.
  bool pools_volumes = false;
  // If set, features in bf16 or fp16, and any features of a ViT on a GPU, are compared with fp32 on
  // these images. If they deviate, the backbone falls back to another implementation and warns;
  // SystemError if that deviates, too.
  std::function<CheckInput()> check{};  // called after the weights are read
  // The user named the precision: SystemError if features deviate in it, and a GPU rounds no more
  // than the name states.
  bool named_precision = false;
  std::shared_ptr<StageTimes> times{};  // of a ViT's startup; null: not measured
};

class Backbone {
 public:
  virtual ~Backbone() = default;
  // images [B, 3, H, W], clips (clip_frames()) or blocks (block()), float32, normalised, on the CPU
  // or the backbone's device -> [B, row_values()] float32 on the latter, valid until the next call.
  // Asynchronous on the current stream on a GPU. No gradients.
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;
  // True if forward_frames() is supported: the device normalises.
  virtual bool takes_frames() const { return false; }
  // frames [B, H, W, 3] uint8 and levels [3, 256] float32, the normalised value of each level of
  // each channel, both on the backbone's device -> as forward(). Returns undefined once it no
  // longer takes frames: use forward() then.
  virtual torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor& levels);
  // Announces the batch size of the following passes (the last may be smaller), to prepare and
  // check what depends on it. `stays`: enough passes follow to make autotuning worthwhile. On the
  // current stream.
  virtual void expect(std::int64_t /*batch*/, bool /*stays*/) {}
  // Max device memory per image of a pass; 0: unknown.
  virtual std::uint64_t bytes_per_image() const { return 0; }
  // Device memory held outside tensors.
  virtual std::uint64_t bytes_aside() const { return 0; }
  // Frees what is kept between calls, except the weights.
  virtual void release_memory() {}
  // Max images per call, regardless of memory.
  virtual std::int64_t max_images() const { return std::numeric_limits<std::int64_t>::max(); }
  virtual std::int64_t dimension() const = 0;  // D, of the features
  // Frames per input: 1 for a backbone of images. Else T, and forward() takes clips, [B, T, 3, H,
  // W] in the order of time.
  virtual std::int64_t clip_frames() const { return 1; }
  // Voxels per block [X, Y, Z], and forward() takes [B, 1, X, Y, Z]; zeros: it takes no blocks.
  virtual std::array<std::int64_t, 3> block() const { return {}; }
  // [x, y, z] of the map that forward() gives per block: [B, D · x · y · z]; zeros: a vector.
  virtual std::array<std::int64_t, 3> map() const { return {}; }
  // All blocks of a volume make one row.
  virtual bool pools_volumes() const { return false; }
  bool takes_blocks() const { return block()[0] > 0; }
  // Features per input, in the order of time: forward() gives them side by side, [B, clip_steps() ·
  // D]. 1, or with Pooling::kTime one for each step of a clip's tubelets.
  virtual std::int64_t clip_steps() const { return 1; }
  // [tokens, width] of the tokens kept per image after its features; {}: none.
  virtual std::vector<std::int64_t> cut_shape() const { return {}; }
  // Values that forward() gives per input: all of its features, and the kept tokens.
  std::int64_t row_values() const;
  virtual Precision precision() const = 0;  // the requested one, or the fallback
  // Describes the backbone for the recipe: kind, weights' SHA-256, architecture, pooling.
  virtual Json describe() const = 0;
};

inline constexpr double kMinCosine = 0.999;  // min, to features of the CPU engine in fp32
// "features of the first frames have a cosine of 0.9 to those of fp32 on the CPU, expected …"
std::string strays_by(double cosine, const torch::Device& device);

// Whether make_backbone() compares features on options.check: if the precision may round, and for
// any ViT on a GPU, even in fp32.
bool is_compared(const BackboneOptions& options, const torch::Device& device,
                 std::optional<Precision> precision);

// Without a precision (`--precision auto`), times a ViT on the CPU on options.check in each
// precision that the processor supports natively, and takes the fastest that does not deviate;
// other backbones use parse_precision()'s. DataError / ConfigError: unreadable or mismatching
// weights, with the tensors' names and shapes. SystemError: it does not fit on the device.
std::unique_ptr<Backbone> make_backbone(const BackboneOptions& options, const torch::Device& device,
                                        std::optional<Precision> precision);

// The kinds of backbone that make_backbone chooses from.

// Uses options.weights, or random weights of options.architecture. Given several precisions (CPU),
// takes the fastest on options.check, or the first if there are no images to compare.
std::unique_ptr<Backbone> make_vit_backbone(const BackboneOptions& options,
                                            const torch::Device& device,
                                            const std::vector<Precision>& precisions);

// Of images [B, 3, H, W] -> [B, D]. If options.clip_frames (T) is more than 1, of clips in the
// order of options.clip_axes -> [B, D], [B, N, D] (averaged over N) or [B, D, t, h, w] (over t, h,
// w). With options.block of blocks [B, C, X, Y, Z] -> the same shapes, where C is 1 or, of a module
// that does not run so, 3 times the one channel. DataError: it cannot be run, mixes the inputs of a
// batch, returns another shape, infinities or NaN, or runs in both orders of axes while none is
// given.
std::unique_ptr<Backbone> make_compiled_backbone(const BackboneOptions& options,
                                                 const torch::Device& device, Precision precision);

// Reports that features deviate in a precision ("features of … have a cosine of …"): SystemError if
// the user named it, else a warning that `other` is used.
void leave_precision(Precision precision, const std::string& how, bool named, Precision other);

// Says that options.clip_frames must be given: the weights take clips, usually of so many `frames`,
// and no config or name tells the length.
ConfigError unknown_length(std::int64_t frames);

// DataError unless images are [B, 3, H, W] float32, or with several clip_frames [B, T, 3, H, W].
void require_images(const torch::Tensor& images, const ImageSize& image_size,
                    std::int64_t clip_frames = 1);

}  // namespace coldframe::vit
