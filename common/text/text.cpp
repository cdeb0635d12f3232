#include "common/text/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "common/cli/error.h"

namespace coldframe {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The run of digits that starts at text[at].
std::string_view digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(at, end - at);
}

std::string_view without_leading_zeros(std::string_view digits) {
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? std::string_view() : digits.substr(first);
}

// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, previous, current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) current[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(previous, current);
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({replaced, previous[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
  }
  return current[b.size()];
}

// All of `text`, with a sign or without.
template <typename Number>
bool parse_all(std::string_view text, Number& value) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return false;
  }
  Number parsed = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, parsed);
  if (result.ec != std::errc() || result.ptr != end) return false;
  value = parsed;
  return true;
}

}  // namespace

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const int length = std::snprintf(nullptr, 0, "%.*f", digits, value);
  std::string text(static_cast<std::size_t>(length), '\0');
  std::snprintf(text.data(), text.size() + 1, "%.*f", digits, value);
  return text;
}

// `general` writes numbers of up to six digits as streams do, so that texts already stored stay
// the same.
std::string exact(double value) {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general);
  return {text.data(), end.ptr};
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return concat(bytes, " B");
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.95 would be rounded to "1024.0" of the smaller unit.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fixed(value, 1) + " " + kUnits[unit];
}

std::string human_duration(double seconds) {
  if (!(seconds >= 0.0) || std::isinf(seconds)) return "?";
  if (seconds < 0.9995) return concat(std::lround(seconds * 1000.0), "ms");
  if (seconds < 9.95) return fixed(seconds, 1) + "s";
  if (seconds > 1e15) return "?";
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  if (hours > 0) return concat(hours, "h ", minutes, "m");
  if (minutes > 0) return concat(minutes, "m ", rest, "s");
  return concat(rest, "s");
}

std::string plural(std::size_t n, std::string_view noun) {
  return concat(n, " ", noun, n == 1 ? "" : "s");
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at == text.size() || text[at] == separator) {
      parts.emplace_back(text.substr(start, at - start));
      start = at + 1;
    }
  }
  return parts;
}

std::string trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("@%_-+=:,./").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? R"('"'"')" : std::string(1, c);
  return word + "'";
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool is_missing(std::string_view value) {
  const std::string word = lower(trim(value));
  return word.empty() || word == "nan" || word == "na" || word == "n/a";
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool parse_double(std::string_view text, double& value) {
  return parse_all(text, value);
}

bool parse_int(std::string_view text, std::int64_t& value) {
  return parse_all(text, value);
}

std::uint64_t parse_bytes(std::string_view text) {
  struct Unit {
    const char* name;
    double factor;
  };
  constexpr std::array<Unit, 10> kUnits = {{{"", 1.0},
                                            {"b", 1.0},
                                            {"kb", 1e3},
                                            {"mb", 1e6},
                                            {"gb", 1e9},
                                            {"tb", 1e12},
                                            {"kib", 1024.0},
                                            {"mib", 1048576.0},
                                            {"gib", 1073741824.0},
                                            {"tib", 1099511627776.0}}};
  const std::string clean = trim(text);
  std::size_t number_end = 0;
  while (number_end < clean.size() && (is_digit(clean[number_end]) || clean[number_end] == '.')) {
    ++number_end;
  }
  const std::string unit_name = lower(trim(std::string_view(clean).substr(number_end)));
  double number = 0.0;
  if (parse_double(std::string_view(clean).substr(0, number_end), number)) {
    for (const Unit& unit : kUnits) {
      const double bytes = number * unit.factor;
      if (unit_name == unit.name && bytes < 1.8e19) return static_cast<std::uint64_t>(bytes);
    }
  }
  throw ConfigError(
      concat("'", text, "' is not an amount of memory; write for example 500MiB, 2GB or 1.5GiB"));
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    // A slip of the hand seldom hits the first letter, and then nothing else.
    const bool begins_alike = !word.empty() && candidate.starts_with(word.front());
    if (distance < best_distance && distance < candidate.size() &&
        (begins_alike || distance == 1)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view left = digits_at(a, i), right = digits_at(b, j);
      const std::string_view x = without_leading_zeros(left), y = without_leading_zeros(right);
      if (x.size() != y.size()) return x.size() < y.size();
      if (const int order = x.compare(y); order != 0) return order < 0;
      i += left.size();
      j += right.size();
    } else {
      const auto x = static_cast<unsigned char>(a[i++]), y = static_cast<unsigned char>(b[j++]);
      if (x != y) return x < y;
    }
  }
  const std::size_t rest_a = a.size() - i, rest_b = b.size() - j;
  if (rest_a != rest_b) return rest_a < rest_b;
  return a < b;  // equal numbers written with different zeros: still a strict order
}

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

void require_image_size(const ImageSize& size, const std::string& text) {
  const auto fits = [](std::int64_t side) {
    return side >= kMinImageSide && side <= kMaxImageSide;
  };
  if (fits(size.height) && fits(size.width)) return;
  throw ConfigError(concat("--image-size '", text, "': expected ", kMinImageSide, " to ",
                           kMaxImageSide, " pixels, as S or as HEIGHTxWIDTH"));
}

ImageSize parse_image_size(const std::string& text) {
  const std::vector<std::string> sides = split(lower(text), 'x');
  ImageSize size;
  const bool is_read = sides.size() <= 2 && parse_int(sides.front(), size.height) &&
                       parse_int(sides.back(), size.width);
  require_image_size(is_read ? size : ImageSize(0), text);
  return size;
}

}  // namespace coldframe
