// The way of a frame from its reader to the backbone's input, in its one order: mask, crop,
// spacing; then for each view and each tile of it, resize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "extract/preprocess/preprocessing.h"

namespace coldframe::preprocess {

// One input of the backbone: a frame's view, or one tile of it.
struct Input {
  std::size_t view = 0;              // 0: clean, 1 … K: augmented
  std::size_t tile = 0, tiles = 1;   // which of the view's
  std::vector<std::uint8_t> pixels;  // [H, W, 3]
};

struct FreshPixels {
  std::vector<std::uint8_t> operator()() const { return {}; }
};

class PreparedFrame {
 public:
  // Mask, crop, spacing. `crop` is the rectangle that was decided for this frame. DataError as
  // apply_mask, crop_image and rescale_frame say. `preprocessing` must outlive this.
  PreparedFrame(const Preprocessing& preprocessing, frames::Frame&& frame,
                const std::optional<frames::Rect>& crop);

  // The frame for people to see: thumbnails and the dry run show it.
  const frames::Image& image() const { return image_; }

  // Inputs of the clean view. DataError as plan_tiles.
  std::size_t tiles() const { return tiles_of(image_).size(); }

  // Hands each Input to `sink`, view by view, until it returns false; so does this then. `views`
  // makes the augmented ones, as augment::ExamViews: warp() before the tiles, finish() behind the
  // resize. `spare` gives memory for an input's pixels, which may have served before. DataError as
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
