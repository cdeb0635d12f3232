// A TIFF file: its directories and pages, decoded row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "extract/decode/image/still_formats.h"

struct tiff;

namespace coldframe::frames {

// The decoded samples of one TIFF page, row by row, for any storage layout: strips or tiles,
// interleaved or planar.

struct TiffLayout {
  std::int64_t width = 0, height = 0;
  int samples = 1, bits = 8;  // of a pixel, of a sample

  std::size_t row_bytes() const {
    return static_cast<std::size_t>((width * samples * bits + 7) / 8);
  }
};

// Delivers every row of the current directory with interleaved samples. DataError, without the
// file's name, for data that cannot be decoded.
void read_tiff_rows(tiff* file, const TiffLayout& layout,
                    const std::function<void(std::int64_t y, const std::byte* row)>& visit);

[[noreturn]] void damaged_tiff();  // DataError for pixels that libtiff cannot decode

// TIFF and BigTIFF pages through libtiff, row by row.

struct TiffPage {
  std::int64_t width = 0, height = 0;
  int channels = 1;  // of a delivered row: 1 or 3
  Depth depth = Depth::k8;
  int orientation = 1;  // 1 … 8, tag 274: orientation of the rows
};

// The location of a page's samples: a directory, or one of the contiguous images after the
// directory's own.
struct TiffPlace {
  std::uint64_t directory = 0;  // its offset
  std::int64_t image = 0;       // 0 is the directory's own

  bool operator==(const TiffPlace&) const = default;
};

struct TiffDirectory {
  std::uint64_t offset = 0;
  bool is_frame = true;  // neither a thumbnail, another reduction nor a mask
};

// One open file. Rows are delivered as numbers: grey (inverted where white is zero) or RGB,
// palettes looked up, alpha dropped as in Pillow's convert("RGB"), as is an unspecified fourth
// sample of RGB, but not a second one of grey, which may be a channel. Supported: integers of 1, 2,
// 4, 8, 16 and 32 bits, signed from 8 on, and floats of 32 and 64; grey, RGB, palette, JPEG's
// YCbCr; in strips or tiles, interleaved or planar. DataError, without the file's name: damaged or
// truncated data, more pixels than the file can hold, and, by name, what would differ from Pillow's
// pixels.
class TiffFile {
 public:
  explicit TiffFile(std::shared_ptr<const ByteSource> bytes);

  // All directories; reads each once, and no pixels. If the file is damaged after the first ones,
  // returns those and the error in `fault`.
  std::vector<TiffDirectory> directories(std::string& fault);
  // True if several of them are frames, or one fails after the first; reads no more of them than
  // needed. Both are for a file that was just opened, and so are these, of its first directory.
  bool has_several_pages();
  std::string description() const;  // ImageDescription; "" for none
  int samples() const;              // of a pixel
  // How many of the `stated` images are stored contiguously after the only directory: at most those
  // that the file holds wholly or in part; 1 if they are not contiguous.
  std::int64_t images_behind(std::int64_t stated);

  TiffPage open_page(const TiffPlace& place);  // before read_rows()
  void read_rows(const std::function<void(std::int64_t y, std::span<const double>)>& visit);

 private:
  struct Close {
    void operator()(tiff* file) const;
  };
  void read_layout();
  void check_size() const;
  void check_variety() const;
  bool has_alpha() const;
  std::uint64_t image_bytes() const;
  std::uint64_t min_bytes();
  bool is_frame() const;
  bool is_last() const;
  bool has_whole_directory() const;
  std::optional<std::uint64_t> offset_in_one_piece();
  std::uint32_t field(std::uint32_t tag, std::uint32_t otherwise) const;
  void read_palette();
  void hand_over(const std::byte* raw);

  struct Stream {
    std::shared_ptr<const ByteSource> file;
    std::uint64_t position = 0;
    std::uint64_t ahead = 0;  // of where libtiff asks, lies what it shall read
    bool is_damaged = false;  // libtiff warned that it invented pixels
    KeptError kept = {};      // of what libtiff calls
  };
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<tiff, Close> tiff_;
  TiffPage page_;
  std::uint64_t ahead_ = 0;  // of page_'s samples
  TiffLayout layout_;
  std::uint32_t photometric_ = 1, compression_ = 1, format_ = 1;
  std::vector<double> palette_;  // [entry, channel]
  std::vector<double> row_;

  friend struct TiffCallbacks;
};

}  // namespace coldframe::frames
