// TIFF and BigTIFF pages through libtiff, row by row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/file.h"
#include "extract/frames/value_scale.h"

struct tiff;

namespace coldframe::frames {

struct TiffPage {
  std::int64_t width = 0, height = 0;
  int channels = 1;  // of a row as it is handed over: 1 or 3
  Depth depth = Depth::k8;
  int orientation = 1;  // 1 … 8, tag 274: how the rows must be turned to be upright
};

// One open file. Rows are handed over as numbers: grey (inverted where white is zero) or RGB,
// palettes looked up, alpha dropped as Pillow's convert("RGB") drops it. Read: 1, 8 and 16 bits and
// 32-bit floats; grey, RGB, palette; in strips. DataError, without the file's name: damaged
// or truncated data, and what would not come out as Pillow's pixels (JPEG inside, planes
// apart, tiles), named.
class TiffFile {
 public:
  explicit TiffFile(const std::filesystem::path& path);

  // Offsets of the pages' directories; reads all of them once, and no pixels.
  std::vector<std::uint64_t> pages();
  TiffPage open_page(std::uint64_t directory);  // before read_rows()
  void read_rows(const std::function<void(std::int64_t y, std::span<const double>)>& visit);

 private:
  struct Close {
    void operator()(tiff* file) const;
  };
  void check_page();
  std::uint32_t field(std::uint32_t tag, std::uint32_t otherwise) const;
  void read_palette();
  void hand_over(const std::byte* raw);

  struct Stream {
    InputFile file;
    std::uint64_t position = 0;
  };
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<tiff, Close> tiff_;
  TiffPage page_;
  int bits_ = 8, samples_ = 1;
  std::uint32_t photometric_ = 1;
  std::vector<double> palette_;  // [entry, channel]
  std::vector<double> row_;

  friend struct TiffCallbacks;
};

}  // namespace coldframe::frames
