#include "extract/preprocess/prepare.h"

#include <utility>

#include "extract/preprocess/crop.h"
#include "extract/preprocess/rescale.h"

namespace coldframe::preprocess {

frames::Image prepare_frame(const Preprocessing& preprocessing, frames::Frame&& frame,
                            const std::optional<frames::Rect>& crop) {
  if (preprocessing.mask) apply_mask(*preprocessing.mask, frame.pixels);
  if (crop) frame.pixels = crop_image(frame.pixels, *crop);
  return preprocessing.spacing_mm > 0 ? rescale_frame(preprocessing, frame)
                                      : std::move(frame.pixels);
}

}  // namespace coldframe::preprocess
