// Stored values out of a decoded frame's bytes (PS3.5 section 8.1).
#pragma once

#include <bit>
#include <cstring>

#include "extract/frames/dicom/pixels/frame_data.h"

namespace coldframe::frames::dicom {

class Samples {
 public:
  explicit Samples(const RawFrame& raw)
      : raw_(raw),
        unit_(static_cast<std::size_t>(raw.layout.bits_allocated) / 8),
        shift_(raw.layout.high_bit + 1 - raw.layout.bits_stored),
        mask_(raw.layout.bits_stored >= 32 ? ~0u : (1u << raw.layout.bits_stored) - 1) {}

  // The bits of a value, overlays and padding taken away; an index for a table of levels.
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

}  // namespace coldframe::frames::dicom
