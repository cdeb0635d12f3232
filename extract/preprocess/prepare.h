// The steps from a decoded frame to the image that is tiled or resized.
#pragma once

#include <optional>

#include "extract/preprocess/preprocessing.h"

namespace coldframe::preprocess {

// Mask, crop, spacing, in this order. `crop` is the rectangle that was decided for this frame.
// DataError as apply_mask, crop_image and rescale_frame say.
frames::Image prepare_frame(const Preprocessing& preprocessing, frames::Frame&& frame,
                            const std::optional<frames::Rect>& crop);

}  // namespace coldframe::preprocess
