// 8-bit RGB frames to inputs of a backbone: mask, crop, spacing, tiles, resize.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/decode/frame.h"
#include "extract/preprocess/normalization.h"
#include "extract/preprocess/volume/blocks.h"

namespace coldframe::preprocess {

// The configuration of preprocessing from 8-bit RGB frames to backbone inputs. PreparedFrame
// defines the order of the steps; normalisation comes last, per batch.

enum class Resize { kShortest, kSquash, kPad };
inline const WordTable<Resize> kResizes{
    {"shortest", Resize::kShortest}, {"squash", Resize::kSquash}, {"pad", Resize::kPad}};
enum class Interpolation { kBicubic, kBilinear };
inline const WordTable<Interpolation> kInterpolations{{"bicubic", Interpolation::kBicubic},
                                                      {"bilinear", Interpolation::kBilinear}};
// Resamples tensors, not PIL images.
inline bool is_of_tensors(Resampler resampler) {
  return resampler == Resampler::kTorch || resampler == Resampler::kTransformers;
}

// The pixels of a frame to keep; others become black. Made by make_mask().
struct Mask {
  int width = 0, height = 0;
  std::vector<std::uint8_t> keep;  // [height, width] 0 or 1
  std::string digest;              // SHA-256 of size and `keep`, independent of the mask's file
};

// A sliding window over large frames; each position is a separate backbone input.
struct Tiling {
  int size = 0;           // side of a tile in pixels of the frame; 0: no tiling
  double overlap = 0.25;  // of adjacent tiles, as a fraction of the side

  bool operator==(const Tiling&) const = default;
};

struct Preprocessing {
  ImageSize image_size{};  // H×W of the backbone's input
  // timm's crop modes: "center" (smallest size that covers H×W / crop_pct, then centre crop),
  // "squash" (both edges) and "border" (largest size that fits; borders in the colour of `mean`)
  Resize resize = Resize::kShortest;
  double crop_pct = 1.0;
  Interpolation interpolation = Interpolation::kBicubic;
  Resampler resampler = Resampler::kPillow;
  std::array<float, 3> mean{},
      std{};  // of pixels scaled to [0, 1]; never assumed for an unknown checkpoint

  std::shared_ptr<const Mask> mask = nullptr;  // --mask; null: none
  frames::CropRule crop = {};                  // --crop; an exam's own rule overrides it
  double spacing_mm = 0;                       // --spacing: millimetres per pixel; 0: no rescaling
  Tiling tiles = {};                           // --tiles
  VolumeRule volume = {};  // --block; if it is on, inputs are blocks, and only mean and std of the
                           // above hold (the first of each)
};

// Omits inactive steps, so that recipes from before a step existed stay unchanged.
Json to_json(const Preprocessing& preprocessing);

// Resizes and crops. `out` has H·W·3 bytes, RGB interleaved [H, W, 3]. Bit-identical to
// torchvision's Resize + CenterCrop on a PIL image (kPillow, kPillow12) or on a uint8 tensor with
// antialias (kTorch), or to transformers' resize and center_crop (kTransformers). DataError for an
// empty image.
void resize_frame(const Preprocessing& preprocessing, const frames::Image& image,
                  std::uint8_t* out);

// Looks up each pixel in normalization_table(): in [S, S, 3] uint8 → out [3, S, S] float32. GPUs
// use patches() of cuda/kernels.h with patches as large as the frame.
void normalize(const Preprocessing& preprocessing, const std::uint8_t* in, float* out);

// All values that normalize() can return: [channel * 256 + pixel].
std::array<float, 768> normalization_table(const Preprocessing& preprocessing);

// Computes which part of a frame is scaled to which size and placed where in the backbone's input,
// as in torchvision's Resize and CenterCrop, in transformers, and in timm's crop modes.

// One axis: the frame's `input` pixels are scaled to `scaled`; of these, `size` from `offset` on
// are placed at `target` in the output. The rest of the output is border.
struct Axis {
  int input = 0;
  std::int64_t scaled = 0, offset = 0;
  int target = 0, size = 0;
};

struct Geometry {
  Axis x, y;
  bool vertical_first = false;  // the order of the resampler's two passes
};

// The whole image, scaled to width × height.
Geometry plan_whole(Resampler resampler, const frames::Image& image, int width, int height);

Geometry plan_geometry(const Preprocessing& preprocessing, int width, int height);

// The optional steps before resizing, one function each: mask, crop, spacing, tiles. PreparedFrame
// applies them in order.

// --mask FILE: white pixels are kept, black ones are not. A pixel counts as white when its
// brightest channel is 128 or more.
Mask make_mask(const frames::Image& image);

// DataError if the mask's size is not the frame's.
void apply_mask(const Mask& mask, frames::Image& frame);

std::string to_text(const frames::Rect& rect);      // "x,y,w,h"
std::string to_text(const frames::CropRule& rule);  // as parse_crop() reads it

// DataError if the rectangle does not lie within the image.
frames::Image crop_image(const frames::Image& image, const frames::Rect& rect);

// Resizes the whole image like Pillow's Image.resize (or torchvision's, depending on the
// resampler).
frames::Image resize_image(const Preprocessing& preprocessing, const frames::Image& image,
                           int width, int height);

// --spacing MM, which brings frames of different scanners and depths to one scale: the frame's
// pixels at `preprocessing.spacing_mm` millimetres per pixel in both directions, each edge times
// its own spacing / spacing_mm, rounded half to even, at least one pixel. DataError for a frame of
// unknown spacing, one that would grow more than 16-fold along an edge, and for a result of more
// than 2^26 pixels.
frames::Image rescale_frame(const Preprocessing& preprocessing, const frames::Frame& frame);

// --tiles: the positions of the sliding window. Square tiles of `tiling.size` pixels, row by row,
// each overlapping the previous one by the given fraction; the last of a row or column ends at the
// frame's border. A frame smaller than a tile is one tile; if it is smaller along one edge only,
// tiles have that edge's length. Without tiling: the whole frame. DataError above a million tiles.
std::vector<frames::Rect> plan_tiles(const Tiling& tiling, int width, int height);

// Turns a decoded frame into backbone inputs, always in this order: mask, crop, spacing; then
// resize for each view and tile.

// One input of the backbone: a frame's view, or one tile of it.
struct Input {
  std::size_t view = 0;              // 0: clean, 1 … K: augmented
  std::size_t tile = 0, tiles = 1;   // index of the tile in its view
  std::vector<std::uint8_t> pixels;  // [H, W, 3]
};

struct FreshPixels {
  std::vector<std::uint8_t> operator()() const { return {}; }
};

class PreparedFrame {
 public:
  // Mask, crop, spacing. `crop`: the rectangle chosen for this frame. DataError as apply_mask,
  // crop_image and rescale_frame say. `preprocessing` must outlive this.
  PreparedFrame(const Preprocessing& preprocessing, frames::Frame&& frame,
                const std::optional<frames::Rect>& crop);

  // The frame as displayed in thumbnails and the dry run.
  const frames::Image& image() const { return image_; }

  // Number of inputs of the clean view. DataError as plan_tiles.
  std::size_t tiles() const { return tiles_of(image_).size(); }

  // Passes each Input to `sink`, view by view; if `sink` returns false, stops and returns false.
  // `views` makes the augmented views, as augment::ExamViews: warp() before tiling, finish() after
  // resizing. `spare` supplies a (possibly reused) buffer for an input's pixels. DataError as
  // plan_tiles and resize_frame.
  template <typename Views, typename Sink, typename Spare = FreshPixels>
  bool make_inputs(Views& views, const Sink& sink, const Spare& spare = {}) const;

 private:
  std::vector<frames::Rect> tiles_of(const frames::Image& view) const;
  std::vector<std::uint8_t> resized(const frames::Image& view, const frames::Rect& tile,
                                    std::vector<std::uint8_t> pixels) const;

  const Preprocessing& preprocessing_;
  frames::Image image_;
};

template <typename Views, typename Sink, typename Spare>
bool PreparedFrame::make_inputs(Views& views, const Sink& sink, const Spare& spare) const {
  for (std::size_t view = 0; view <= views.count(); ++view) {
    const frames::Image warped = view > 0 ? views.warp(view, image_) : frames::Image{};
    const frames::Image& image = view > 0 ? warped : image_;
    const auto tiles = tiles_of(image);
    for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
      Input input{view, tile, tiles.size(), resized(image, tiles[tile], spare())};
      if (view > 0) views.finish(view, input.pixels);
      if (!sink(std::move(input))) return false;
    }
  }
  return true;
}

}  // namespace coldframe::preprocess
