// DICOM files made byte by byte, in explicit little endian.
#pragma once

#include <cstdint>
#include <string>

namespace coldframe::testing {

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 0xFF);
  return text;
}

inline std::string element(unsigned group, unsigned number, const std::string& vr,
                           std::string value) {
  if (value.size() % 2 != 0) value += ' ';
  const bool is_long = vr == "OB" || vr == "OW" || vr == "SQ";
  return little(group, 2) + little(number, 2) + vr +
         (is_long ? little(0, 2) + little(value.size(), 4) : little(value.size(), 2)) + value;
}

}  // namespace coldframe::testing
