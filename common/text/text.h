// Small text helpers, so that messages read the same everywhere. (LibTorch bundles a version of fmt
// that clashes with the system's, hence no fmt.)
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe {

// concat("frame ", 7, " of ", n) -> "frame 7 of 12"; anything that streams.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

std::string fixed(double value, int digits);               // 0.9132 -> "0.913"
std::string human_bytes(std::uint64_t bytes);              // 1536 -> "1.5 KiB"
std::string human_duration(double seconds);                // 75 -> "1m 15s"
std::string plural(std::size_t n, std::string_view noun);  // (2, "exam") -> "2 exams"

// The shortest text that reads back as the same number: 0.1953125 -> "0.1953125", 40.0 -> "40",
// 1e6 -> "1e+06"; not a number -> "nan". Streams (concat) keep six digits only.
std::string exact(double value);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);  // keeps empty parts
std::string trim(std::string_view text);
std::string lower(std::string_view text);  // ASCII only
bool is_valid_utf8(std::string_view text);
// True for what a table has in place of a value: nothing, nan, na or n/a, in any case.
bool is_missing(std::string_view value);

// Whole-string conversions: false when anything but the number is there. "nan" and "inf" are
// accepted by parse_double; the caller decides whether they make sense.
bool parse_double(std::string_view text, double& value);
bool parse_int(std::string_view text, std::int64_t& value);

// "500MiB", "2GB", "1.5GiB" or a plain number of bytes; ConfigError for anything else.
std::uint64_t parse_bytes(std::string_view text);

// The candidate with the fewest edits to `word`, for "did you mean"; "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// Natural order: "frame2" before "frame10".
bool natural_less(std::string_view a, std::string_view b);

}  // namespace coldframe
