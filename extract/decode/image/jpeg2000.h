// JPEG 2000 code (ISO/IEC 15444-1, -15) and the files that hold it, through OpenJPEG.
#pragma once

#include <openjpeg.h>

#include <functional>
#include <memory>
#include <string_view>

#include "extract/decode/image/still_formats.h"

namespace coldframe::frames {

struct FreeJpeg2000 {
  void operator()(opj_image_t* image) const { opj_image_destroy(image); }
};
using Jpeg2000Pixels = std::unique_ptr<opj_image_t, FreeJpeg2000>;

// `check` receives the header's content before decoding, and once more after it. DataError, without
// the file's name, here and below, for code that is damaged or cut off.
Jpeg2000Pixels decode_jpeg2000_code(std::string_view code,
                                    const std::function<void(const opj_image_t&)>& check);

bool is_jpeg2000(std::string_view head);
bool is_deep_jpeg2000(std::string_view bytes);  // grey of more than 8 bits

// What the header says. Grey and RGB of up to 16 bits, with or without alpha, are images.
FrameSize jpeg2000_size(std::string_view bytes);

// As in Pillow: alpha is dropped; values are shifted to 8 bits, grey ones of more than 8 bits to
// 16. `size`: as jpeg2000_size() says.
Image decode_jpeg2000_image(std::string_view bytes, const FrameSize& size);
Image16 decode_deep_jpeg2000(std::string_view bytes, const FrameSize& size);

}  // namespace coldframe::frames
