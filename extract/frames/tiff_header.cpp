#include "extract/frames/tiff_header.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "common/error.h"
#include "common/text.h"
#include "extract/frames/byte_reader.h"

namespace coldframe::frames {
namespace {

// TIFF 6.0 tags.
enum Tag : std::uint32_t {
  kWidth = 256,
  kHeight = 257,
  kBitsPerSample = 258,
  kCompression = 259,
  kPhotometric = 262,
  kOrientation = 274,
  kSamplesPerPixel = 277,
  kPlanarConfiguration = 284,
  kSampleFormat = 339,
};

class Directory {
 public:
  explicit Directory(const ByteReader& in) : in_(in) {
    const std::uint64_t at = in.u32(4);
    const std::uint32_t count = in.u16(at);
    for (std::uint32_t i = 0; i < count; ++i) entries_[in.u16(at + 2 + 12 * i)] = at + 2 + 12 * i;
    next_ = in.u32(at + 2 + 12 * std::uint64_t{count});
  }

  bool is_last() const { return next_ == 0; }

  // The first value of a field of 16- or 32-bit numbers.
  std::uint32_t value(Tag tag, std::optional<std::uint32_t> otherwise) const {
    const auto entry = entries_.find(tag);
    if (entry == entries_.end()) {
      if (otherwise) return *otherwise;
      throw DataError(concat("its TIFF directory lacks tag ", static_cast<std::uint32_t>(tag)));
    }
    const bool is_short = in_.u16(entry->second + 2) == 3;
    const std::uint32_t count = in_.u32(entry->second + 4);
    const bool is_inside = count <= (is_short ? 2u : 1u);
    const std::uint64_t at = is_inside ? entry->second + 8 : in_.u32(entry->second + 8);
    return is_short ? in_.u16(at) : in_.u32(at);
  }

 private:
  const ByteReader& in_;
  std::map<std::uint32_t, std::uint64_t> entries_;  // tag -> offset of its entry
  std::uint32_t next_ = 0;
};

void require(const Directory& directory, Tag tag, std::uint32_t otherwise, const char* what,
             std::initializer_list<std::uint32_t> allowed) {
  const std::uint32_t found = directory.value(tag, otherwise);
  if (std::find(allowed.begin(), allowed.end(), found) == allowed.end()) {
    throw DataError(concat("its TIFF ", what, " is ", found,
                           ", which is not read; convert it to 8-bit grey or RGB"));
  }
}

}  // namespace

ImageSize check_tiff(std::string_view bytes) {
  const auto order = bytes.front() == 'I' ? ByteReader::Order::kLittle : ByteReader::Order::kBig;
  const ByteReader in(bytes, order);
  const Directory directory(in);
  if (!directory.is_last()) {
    throw DataError("it is a TIFF of several pages; save each page as a file of its own");
  }
  require(directory, kBitsPerSample, 1, "number of bits per sample", {8});
  require(directory, kSampleFormat, 1, "sample format", {1});
  require(directory, kSamplesPerPixel, 1, "number of samples per pixel", {1, 3});
  require(directory, kPhotometric, 0, "photometric interpretation", {0, 1, 2, 3});
  require(directory, kPlanarConfiguration, 1, "planar configuration", {1});
  require(directory, kOrientation, 1, "orientation", {1});
  require(directory, kCompression, 1, "compression", {1, 5, 8, 32773, 32946});
  return {directory.value(kWidth, std::nullopt), directory.value(kHeight, std::nullopt)};
}

}  // namespace coldframe::frames
