#include "extract/preprocess/prepared_frame.h"

#include "extract/preprocess/steps.h"

namespace coldframe::preprocess {

PreparedFrame::PreparedFrame(const Preprocessing& preprocessing, frames::Frame&& frame,
                             const std::optional<frames::Rect>& crop)
    : preprocessing_(preprocessing) {
  if (preprocessing.mask) apply_mask(*preprocessing.mask, frame.pixels);
  if (crop) frame.pixels = crop_image(frame.pixels, *crop);
  image_ =
      preprocessing.spacing_mm > 0 ? rescale_frame(preprocessing, frame) : std::move(frame.pixels);
}

std::vector<frames::Rect> PreparedFrame::tiles_of(const frames::Image& view) const {
  return plan_tiles(preprocessing_.tiles, view.width, view.height);
}

std::vector<std::uint8_t> PreparedFrame::resized(const frames::Image& view,
                                                 const frames::Rect& tile,
                                                 std::vector<std::uint8_t> pixels) const {
  pixels.resize(static_cast<std::size_t>(3 * preprocessing_.image_size.pixels()));
  if (tile.width == view.width && tile.height == view.height)
    resize_frame(preprocessing_, view, pixels.data());
  else
    resize_frame(preprocessing_, crop_image(view, tile), pixels.data());
  return pixels;
}

}  // namespace coldframe::preprocess
