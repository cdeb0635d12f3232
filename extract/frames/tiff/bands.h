// The decoded samples of one TIFF page, row by row, however they lie in the file: in strips or in
// tiles, together or each sample in a plane of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

struct tiff;

namespace coldframe::frames {

struct TiffLayout {
  std::int64_t width = 0, height = 0;
  int samples = 1, bits = 8;  // of a pixel, of a sample

  std::size_t row_bytes() const {
    return static_cast<std::size_t>((width * samples * bits + 7) / 8);
  }
};

// Hands over every row of the current directory, its samples one pixel after another. DataError,
// without the file's name, for data that cannot be decoded.
void read_tiff_rows(tiff* file, const TiffLayout& layout,
                    const std::function<void(std::int64_t y, const std::byte* row)>& visit);

[[noreturn]] void damaged_tiff();  // DataError for pixels that libtiff cannot decode

}  // namespace coldframe::frames
