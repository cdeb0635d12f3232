#include "common/text/printable.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace coldframe {
namespace {

struct Range {
  unsigned first, last;
};

// Unicode's control characters, its marks that turn the direction of writing (UAX #9, table 4) and
// its separators of lines.
constexpr std::array<Range, 7> kSteering = {{{0x00, 0x1f},
                                             {0x7f, 0x9f},
                                             {0x61c, 0x61c},
                                             {0x200e, 0x200f},
                                             {0x2028, 0x202e},
                                             {0x2066, 0x2069},
                                             {0xfeff, 0xfeff}}};

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// The code point of a sequence of up to 3 bytes; longer ones hold no control characters.
unsigned code_point(std::string_view sequence) {
  const auto low_bits = [&](std::size_t i) { return byte_at(sequence, i) & 0x3fu; };
  if (sequence.size() == 1) return byte_at(sequence, 0);
  if (sequence.size() == 2) return (byte_at(sequence, 0) & 0x1fu) << 6 | low_bits(1);
  return (byte_at(sequence, 0) & 0x0fu) << 12 | low_bits(1) << 6 | low_bits(2);
}

bool steers(std::string_view sequence) {
  if (sequence.size() > 3) return false;
  const unsigned point = code_point(sequence);
  return std::ranges::any_of(
      kSteering, [&](const Range& range) { return range.first <= point && point <= range.last; });
}

std::string escaped_as(const char* format, unsigned value) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

// Overlong forms, surrogates and code points above U+10FFFF are malformed, too (RFC 3629, table in
// section 4).
std::size_t utf8_sequence(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80, high = 0xBF;  // bounds of the second byte
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

std::string printable(std::string_view text, Lines lines) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto plain = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(),
                                        [](char c) { return c >= 0x20 && c < 0x7f; });
    const auto end = static_cast<std::size_t>(plain - text.begin());
    shown += text.substr(at, end - at);
    at = end;
    if (at == text.size()) break;
    const std::size_t length = utf8_sequence(text, at);
    const std::string_view sequence = text.substr(at, std::max<std::size_t>(length, 1));
    const bool layout = lines == Lines::kMany && (sequence == "\n" || sequence == "\t");
    if (length == 0)
      shown += escaped_as("\\x%02x", byte_at(text, at));
    else if (!layout && steers(sequence))
      shown += escaped_as("\\u%04x", code_point(sequence));
    else
      shown += sequence;
    at += sequence.size();
  }
  return shown;
}

std::string utf8_name(std::string_view name) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string shown;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t length = utf8_sequence(name, at);
    const auto byte = static_cast<unsigned char>(name[at]);
    if (length > 0)
      shown += name.substr(at, length);
    else
      shown += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    at += std::max<std::size_t>(length, 1);
  }
  return shown;
}

std::size_t whole_code_points(std::string_view text) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t back = 1; back < kLongest && back <= text.size(); ++back) {
    const std::size_t start = text.size() - back;
    const unsigned char byte = byte_at(text, start);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? start : text.size();
  }
  return text.size();
}

}  // namespace coldframe
