#include "common/text/base64.h"

#include <cstddef>
#include <cstdint>

namespace coldframe {

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;  // three bytes, zeros behind the end
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    const std::size_t digits = bytes.size() - i < 3 ? bytes.size() - i + 1 : 4;
    for (std::size_t j = 0; j < 4; ++j)
      text.push_back(j < digits ? kDigits[group >> (18 - 6 * j) & 63] : '=');
  }
  return text;
}

}  // namespace coldframe
