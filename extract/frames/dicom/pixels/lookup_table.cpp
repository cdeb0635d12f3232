#include "extract/frames/dicom/pixels/lookup_table.h"

#include <dcmtk/dcmdata/dcelem.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames::dicom {
namespace {

struct Descriptor {
  std::size_t entries = 0;
  double first = 0;
  int bits = 16;
};

Descriptor read_descriptor(DcmItem& item, const DcmTagKey& tag, bool signed_inputs) {
  const auto numbers = numbers_of(item, tag);
  if (numbers.size() < 3) throw DataError("a look-up table has no descriptor of three values");
  const auto unsigned16 = [](double value) { return value < 0 ? value + 65536 : value; };
  Descriptor descriptor;
  const double entries = unsigned16(numbers[0]);
  descriptor.entries = entries == 0 ? 65536 : static_cast<std::size_t>(entries);
  descriptor.first = unsigned16(numbers[1]);
  if (signed_inputs && descriptor.first >= 32768) descriptor.first -= 65536;
  descriptor.bits = static_cast<int>(numbers[2]);
  if (!(entries >= 0 && entries <= 65535) || descriptor.bits < 1 || descriptor.bits > 16) {
    throw DataError(
        concat("a look-up table's descriptor is ", numbers[0], "\\", numbers[1], "\\", numbers[2]));
  }
  return descriptor;
}

std::span<const std::uint16_t> words_of(DcmItem& item, const DcmTagKey& tag) {
  const Uint16* words = nullptr;
  unsigned long count = 0;
  if (item.findAndGetUint16Array(tag, words, &count).bad() || words == nullptr) return {};
  return {words, count};
}

// Entries of 8 bits may be packed two in a word.
std::vector<std::uint16_t> unpack(std::span<const std::uint16_t> words,
                                  const Descriptor& descriptor) {
  std::vector<std::uint16_t> entries(words.begin(), words.end());
  if (descriptor.bits <= 8 && words.size() < descriptor.entries) {
    entries.clear();
    for (const std::uint16_t word : words) {
      entries.push_back(word & 0xFF);
      entries.push_back(word >> 8);
    }
  }
  if (entries.size() < descriptor.entries) {
    throw DataError(concat("a look-up table has ", entries.size(), " entries, its descriptor says ",
                           descriptor.entries));
  }
  entries.resize(descriptor.entries);
  return entries;
}

// PS3.3 C.7.9.2: runs of entries (0), straight lines (1), and repeated segments (2).
constexpr std::size_t kMaxSegments = 1 << 18;

class SegmentReader {
 public:
  SegmentReader(std::span<const std::uint16_t> words, std::size_t limit)
      : words_(words), limit_(limit) {}

  std::vector<std::uint16_t> expand() {
    while (at_ < words_.size() && entries_.size() < limit_) segment(true);
    return std::move(entries_);
  }

 private:
  std::uint16_t next() {
    if (at_ >= words_.size()) throw DataError("a segmented look-up table is truncated");
    return words_[at_++];
  }
  void put(double value) {
    if (entries_.size() < limit_) entries_.push_back(static_cast<std::uint16_t>(value));
  }

  void segment(bool may_repeat) {
    if (++segments_ > kMaxSegments) throw DataError("a segmented look-up table does not end");
    const std::uint16_t kind = next(), length = next();
    if (kind == 0) {
      for (int i = 0; i < length; ++i) put(next());
    } else if (kind == 1 && !entries_.empty()) {
      const double from = entries_.back(), to = next();
      for (int i = 1; i <= length; ++i) put(std::floor(from + (to - from) * i / length + 0.5));
    } else if (kind == 2 && may_repeat) {
      const std::size_t low = next(), offset = low | static_cast<std::size_t>(next()) << 16;
      const std::size_t back = at_;
      at_ = offset;
      for (int i = 0; i < length && entries_.size() < limit_; ++i) segment(false);
      at_ = back;
    } else {
      throw DataError(concat("a segmented look-up table has a segment of kind ", kind));
    }
  }

  std::span<const std::uint16_t> words_;
  std::size_t limit_, at_ = 0, segments_ = 0;
  std::vector<std::uint16_t> entries_;
};

}  // namespace

std::uint16_t LookupTable::at(double input) const {
  const double index = std::floor(input - first);
  if (!(index > 0)) return entries.front();
  return index >= static_cast<double>(entries.size()) ? entries.back()
                                                      : entries[static_cast<std::size_t>(index)];
}

LookupTable read_table(DcmItem& item, const DcmTagKey& descriptor, const DcmTagKey& data,
                       bool signed_inputs) {
  const Descriptor shape = read_descriptor(item, descriptor, signed_inputs);
  return {shape.first, shape.bits, unpack(words_of(item, data), shape)};
}

LookupTable read_palette(DcmItem& item, const DcmTagKey& descriptor, const DcmTagKey& data,
                         const DcmTagKey& segmented, bool signed_inputs) {
  const auto segments = words_of(item, segmented);
  if (!words_of(item, data).empty() || segments.empty()) {
    return read_table(item, descriptor, data, signed_inputs);
  }
  const Descriptor shape = read_descriptor(item, descriptor, signed_inputs);
  std::vector<std::uint16_t> entries = SegmentReader(segments, shape.entries).expand();
  if (entries.size() < shape.entries) throw DataError("a segmented look-up table is too short");
  return {shape.first, shape.bits, std::move(entries)};
}

}  // namespace coldframe::frames::dicom
