// Images of the Netpbm formats PGM and PPM, as text (P2, P3) or bytes (P5, P6).
#pragma once

#include <string_view>

#include "extract/frames/image/png.h"

namespace coldframe::frames {

bool is_netpbm(std::string_view head);       // by its signature and first number
bool is_deep_netpbm(std::string_view head);  // its greatest value is more than 255

// What the header says. DataError, without the file's name, here and below: a header that is
// damaged, or pixels that are truncated.
FrameSize netpbm_size(std::string_view bytes);

// Values from 0 to the greatest one that the header states become 0 to 255 or, of deep images, 0 to
// 65535, rounded as Pillow does.
Image decode_netpbm(std::string_view bytes);
Image16 decode_deep_netpbm(std::string_view bytes);

}  // namespace coldframe::frames
