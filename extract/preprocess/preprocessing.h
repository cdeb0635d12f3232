// The pixel pipeline as data: what happens to an 8-bit RGB frame before the backbone sees it. Its
// order is that of PreparedFrame (prepared_frame.h); normalisation comes last, with the batch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/text/image_size.h"
#include "common/text/word_table.h"
#include "extract/frames/frame.h"
#include "extract/preprocess/normalization.h"

namespace coldframe::preprocess {

enum class Resize { kShortest, kSquash, kPad };
inline const WordTable<Resize> kResizes{
    {"shortest", Resize::kShortest}, {"squash", Resize::kSquash}, {"pad", Resize::kPad}};
enum class Interpolation { kBicubic, kBilinear };
inline const WordTable<Interpolation> kInterpolations{{"bicubic", Interpolation::kBicubic},
                                                      {"bilinear", Interpolation::kBilinear}};
// Resampled on tensors, not on PIL images.
inline bool is_of_tensors(Resampler resampler) {
  return resampler == Resampler::kTorch || resampler == Resampler::kTransformers;
}

// Marks the pixels of a frame that are kept; the others become black. Made by make_mask().
struct Mask {
  int width = 0, height = 0;
  std::vector<std::uint8_t> keep;  // [height, width] 0 or 1
  std::string digest;              // SHA-256 of size and `keep`, whatever file they came from
};

// A window that slides over large frames; each place is an input of the backbone of its own.
struct Tiling {
  int size = 0;           // side of a tile in pixels of the frame; 0: no tiling
  double overlap = 0.25;  // of a tile with the next, as a fraction of its side

  bool operator==(const Tiling&) const = default;
};

struct Preprocessing {
  ImageSize image_size{};             // H×W of the backbone's input
  Resize resize = Resize::kShortest;  // timm's crop modes: "center" (as small as covers H×W divided
                                      // by crop_pct, then centre crop), "squash" (both edges) and
                                      // "border" (as large as fits; borders in the colour of
                                      // `mean`)
  double crop_pct = 1.0;
  Interpolation interpolation = Interpolation::kBicubic;
  Resampler resampler = Resampler::kPillow;
  std::array<float, 3> mean{},
      std{};  // of pixels scaled to [0, 1]; never assumed for an unknown checkpoint

  std::shared_ptr<const Mask> mask = nullptr;  // --mask; null: none
  frames::CropRule crop = {};                  // --crop; an exam's own rule goes before it
  double spacing_mm = 0;                       // --spacing: millimetres per pixel; 0: as they are
  Tiling tiles = {};                           // --tiles
};

// Steps that do nothing are left out, so that they leave a recipe as it was before they existed.
Json to_json(const Preprocessing& preprocessing);

// Resizes and crops. `out` has H·W·3 bytes, RGB interleaved [H, W, 3]. Bit-identical to
// torchvision's Resize + CenterCrop on a PIL image (kPillow, kPillow12) or on a uint8 tensor with
// antialias (kTorch), or to transformers' resize and center_crop (kTransformers). DataError for an
// empty image.
void resize_frame(const Preprocessing& preprocessing, const frames::Image& image,
                  std::uint8_t* out);

// Takes each pixel's value from normalization_table(): in [S, S, 3] uint8 → out [3, S, S] float32.
// A GPU has patches() of cuda/kernels.h for it, of patches as large as the frame.
void normalize(const Preprocessing& preprocessing, const std::uint8_t* in, float* out);

// All that normalize() can give: [channel * 256 + pixel].
std::array<float, 768> normalization_table(const Preprocessing& preprocessing);

}  // namespace coldframe::preprocess
