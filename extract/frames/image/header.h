// Reads what an image file says of itself before anything is decoded: this decides which files are
// decoded at all, and bounds the memory that decoding takes.
#pragma once

#include <cstdint>
#include <string_view>

namespace coldframe::frames {

inline constexpr std::uint64_t kMaxImageFileBytes = 1ull << 30;

enum class ImageFormat { kNone, kJpeg, kPng, kTiff, kWebp, kNetpbm, kJpeg2000 };

ImageFormat image_format(std::string_view head);  // by signature
bool is_deep_png(std::string_view head);          // of 16 bits per channel
bool is_grey_png(std::string_view head);          // with or without alpha

bool is_animated_png(std::string_view head);  // `head` reaches to the pixels

struct FrameSize {
  std::int64_t width = 0, height = 0;
};
void check_size(const FrameSize& size);  // DataError: empty, or larger than what is read

// Checks the whole file's structure as far as it shows truncation. DataError, without the file's
// name, for content that is truncated, larger than 2^28 pixels or than its bytes can hold, or of a
// variety (animated, …) whose pixels would not come out as Pillow's.
FrameSize check_image(std::string_view bytes);

}  // namespace coldframe::frames
