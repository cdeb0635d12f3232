// Stored values of DICOM pixels to 8 bits: modality, window or table, padding, and colour. Where
// the range is to be found in the values, OpenedExam settles it for the whole exam.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "extract/decode/dicom/data_set.h"
#include "extract/decode/dicom/frame_data.h"
#include "extract/decode/frame.h"
#include "extract/decode/window.h"

namespace coldframe::frames::dicom {

// Extracts stored values from a decoded frame's bytes (PS3.5 section 8.1).

class Samples {
 public:
  explicit Samples(const RawFrame& raw)
      : raw_(raw),
        unit_(static_cast<std::size_t>(raw.layout.bits_allocated) / 8),
        shift_(raw.layout.high_bit + 1 - raw.layout.bits_stored),
        mask_(raw.layout.bits_stored >= 32 ? ~0u : (1u << raw.layout.bits_stored) - 1) {}

  // The bits of a value without overlays and padding; an index into a table of levels.
  std::uint32_t bits(std::size_t sample) const {
    const auto* at = reinterpret_cast<const unsigned char*>(raw_.samples.data()) + sample * unit_;
    std::uint32_t value = at[0];
    if (unit_ >= 2) value |= static_cast<std::uint32_t>(at[1]) << 8;
    if (unit_ == 4)
      value |= static_cast<std::uint32_t>(at[3]) << 24 | static_cast<std::uint32_t>(at[2]) << 16;
    return value >> shift_ & mask_;
  }
  double value_of_bits(std::uint32_t bits) const {
    const std::uint32_t sign = mask_ / 2 + 1;
    if (!raw_.layout.is_signed || (bits & sign) == 0) return bits;
    return static_cast<double>(bits) - static_cast<double>(mask_) - 1;
  }
  double value(std::size_t sample) const {
    if (raw_.layout.kind == PixelElement::Kind::kInteger) return value_of_bits(bits(sample));
    const char* at = raw_.samples.data() + sample * unit_;
    if (raw_.layout.kind == PixelElement::Kind::kFloat) {
      float value = 0;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

 private:
  const RawFrame& raw_;
  std::size_t unit_;
  int shift_;
  std::uint32_t mask_;
};
static_assert(std::endian::native == std::endian::little);

// DICOM look-up tables (PS3.3 C.11.1, C.11.2 and, for palettes, C.7.6.3.1.5 and C.7.9).

struct LookupTable {
  double first = 0;  // the input that the first entry belongs to
  int bits = 16;     // of an entry
  std::vector<std::uint16_t> entries;

  bool empty() const { return entries.empty(); }
  // Clamps inputs outside the table to its first and last entry.
  std::uint16_t at(double input) const;
  double greatest() const { return static_cast<double>((1u << bits) - 1); }

  bool operator==(const LookupTable&) const = default;
};

// DataError if the table is shorter than its descriptor states.
LookupTable read_table(DcmItem& item, const DcmTagKey& descriptor, const DcmTagKey& data,
                       bool signed_inputs);
// Reads a table in the same way; `segmented` holds it where `data` is absent.
LookupTable read_palette(DcmItem& item, const DcmTagKey& descriptor, const DcmTagKey& data,
                         const DcmTagKey& segmented, bool signed_inputs);

// Colour frames to 8-bit RGB (PS3.3 C.7.6.3.1.2).

using Palette = std::array<LookupTable, 3>;
Palette read_palettes(const DataSet& data, const PixelLayout& layout);

// Takes RGB, YBR_FULL and YBR_PARTIAL, with chroma of each pixel or pair; deeper samples keep their
// leading 8 bits' share of the range.
Image color_image(const RawFrame& raw);
Image palette_image(const RawFrame& raw, const Palette& palette);

// Turns a stored value into a grey level: the modality transformation (PS3.3 C.11.1), then the
// values of interest (VOI, PS3.3 C.11.2), then MONOCHROME1's inversion.

struct Modality {
  double slope = 1, intercept = 0;
  std::shared_ptr<const LookupTable> table;  // replaces slope and intercept

  bool operator==(const Modality&) const = default;
  bool is_identity() const { return !table && slope == 1 && intercept == 0; }
  double apply(double stored) const {
    return table ? table->at(stored) : stored * slope + intercept;
  }
};

// Uses the first of several windows or tables; tables take precedence over windows.
struct Voi {
  enum class Function { kLinear, kLinearExact, kSigmoid };
  Function function = Function::kLinear;
  double center = 0, width = 0;
  std::shared_ptr<const LookupTable> table;

  bool operator==(const Voi&) const = default;
  std::uint8_t apply(double value) const;
};

// The numbers of an item, without tables.
Modality read_rescale(DcmItem& item);
std::optional<Voi> read_window(DcmItem& item);

// Stored values that pad the image to a rectangle: PixelPaddingValue, up to PixelPaddingRangeLimit
// if present (PS3.3 C.7.5.1.1.2), and their float counterparts.
struct Padding {
  double least = std::numeric_limits<double>::infinity(), greatest = -least;  // none

  bool holds(double stored) const { return stored >= least && stored <= greatest; }
};
Padding read_padding(DcmItem& root, const PixelLayout& layout);

// Maps a file's frames to levels by the VOI of --window, else the file's (or each frame's own).
// Without either, files of at most 8 unsigned bits are unchanged; others are mapped from the min to
// the max of the exam (`wants_range`), as viewers do for an image. Padding and NaN become black and
// are excluded from that range.
class GreyScale {
 public:
  GreyScale(const DataSet& data, const PixelLayout& layout, const Window& window);

  bool wants_range() const { return wants_range_; }
  void set_range(const ValueRange& range);
  bool is_padding(double stored) const { return padding_.holds(stored); }
  double value(std::int64_t frame, double stored) const { return modality(frame).apply(stored); }
  std::uint8_t level(std::int64_t frame, double stored) const;
  // True if two frames have the same levels for the same stored values.
  bool same(std::int64_t a, std::int64_t b) const {
    return modality(a) == modality(b) && voi(a) == voi(b);
  }

 private:
  const Modality& modality(std::int64_t frame) const {
    return modalities_[modalities_.size() == 1 ? 0 : static_cast<std::size_t>(frame)];
  }
  const std::optional<Voi>& voi(std::int64_t frame) const {
    return vois_[vois_.size() == 1 ? 0 : static_cast<std::size_t>(frame)];
  }

  std::vector<Modality> modalities_;      // one for all frames, or one each
  std::vector<std::optional<Voi>> vois_;  // likewise; nothing: as it is, or `range_`
  Padding padding_;
  std::optional<ValueRange> range_;
  double stored_greatest_ = 255;
  bool wants_range_ = false, inverted_ = false;
};

}  // namespace coldframe::frames::dicom
