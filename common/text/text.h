// Small text helpers, so that messages read the same everywhere. (LibTorch bundles a version of fmt
// that clashes with the system's, hence no fmt.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
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

// A word of a command that a message advises, as a POSIX shell takes it for this text: "age" ->
// age, "the site" -> 'the site', "Simon's" -> 'Simon'"'"'s' (as shlex.quote in Python).
std::string shell_word(std::string_view text);

// What came from a file must not steer the terminal, nor turn the order of what is read there.

enum class Lines { kOne, kMany };

// Control characters, marks of direction, separators of lines and bytes that are not UTF-8 become
// escapes: "\u001b", "\u202e", "\xe9". In a string of JSON, \u escapes are the same text. Tabs
// and line feeds stay where there are many lines.
std::string printable(std::string_view text, Lines lines = Lines::kOne);

// The name of a file as it is stored and shown: bytes that are not UTF-8 as %E9.
std::string utf8_name(std::string_view name);

// Bytes of the UTF-8 sequence that starts at text[at]; 0 if it is malformed.
std::size_t utf8_sequence(std::string_view text, std::size_t at);
// Bytes of whole code points at the beginning of `text`: all of it but a last one that is cut off.
std::size_t whole_code_points(std::string_view text);

// The size of the images that a backbone takes.

struct ImageSize {
  std::int64_t height = 224, width = 224;  // pixels

  constexpr ImageSize() = default;
  constexpr ImageSize(std::int64_t side) : height(side), width(side) {}
  constexpr ImageSize(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}

  constexpr bool is_square() const { return height == width; }
  constexpr std::int64_t pixels() const { return height * width; }
  bool operator==(const ImageSize&) const = default;
};

// "224×224"
inline std::ostream& operator<<(std::ostream& out, const ImageSize& size) {
  return out << size.height << "×" << size.width;
}

inline constexpr std::int64_t kMinImageSide = 8, kMaxImageSide = 4096;

// Reads --image-size: "224", or "224x320" (height, then width). ConfigError.
ImageSize parse_image_size(const std::string& text);
// ConfigError for a side out of bounds; `text` is the size as it was given.
void require_image_size(const ImageSize& size, const std::string& text);

// In JSON a square is its side, and an oblong [height, width]. Templates, so that nlohmann's own
// conversion finds them and this header needs none of its.
template <typename AnyJson>
void to_json(AnyJson& json, const ImageSize& size) {
  if (size.is_square())
    json = size.height;
  else
    json = {size.height, size.width};
}
template <typename AnyJson>
void from_json(const AnyJson& json, ImageSize& size) {
  const bool square = !json.is_array();
  size.height = (square ? json : json.at(0)).template get<std::int64_t>();
  size.width = (square ? json : json.at(1)).template get<std::int64_t>();
}

}  // namespace coldframe
