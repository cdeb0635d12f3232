// Writes RGB pixels as PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace coldframe {

// The bytes of a PNG file. `rgb`: [height, width, 3].
std::string png_picture(std::span<const std::uint8_t> rgb, std::size_t width);

}  // namespace coldframe
