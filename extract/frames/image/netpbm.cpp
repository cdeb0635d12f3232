// Sources: pgm(5) and ppm(5) of Netpbm.
#include "extract/frames/image/netpbm.h"

#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

constexpr std::uint64_t kLargestValue = 65535, kShallow = 255;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads numbers between white space and comments, which reach from # to the end of the line.
class Numbers {
 public:
  Numbers(std::string_view bytes, std::size_t at) : bytes_(bytes), at_(at) {}

  std::size_t position() const { return at_; }

  std::uint64_t next(const char* what, std::uint64_t greatest) {
    skip();
    if (at_ >= bytes_.size()) throw DataError(concat("it is truncated before its ", what));
    std::uint64_t value = 0;
    for (; at_ < bytes_.size() && is_digit(bytes_[at_]); ++at_) {
      value = 10 * value + static_cast<std::uint64_t>(bytes_[at_] - '0');
      if (value > greatest)
        throw DataError(
            concat("its ", what, " is more than ", greatest, ", the most there may be"));
    }
    if (!is_digit(bytes_[at_ - 1]) || (at_ < bytes_.size() && !is_space(bytes_[at_])))
      throw DataError(concat("its ", what, " at byte ", at_, " is no whole number"));
    return value;
  }

 private:
  void skip() {
    while (at_ < bytes_.size() && (is_space(bytes_[at_]) || bytes_[at_] == '#')) {
      if (bytes_[at_] == '#') at_ = std::min(bytes_.find('\n', at_), bytes_.size() - 1);
      ++at_;
    }
  }

  std::string_view bytes_;
  std::size_t at_;
};

struct Header {
  bool is_text = false;
  int channels = 1;
  FrameSize size;
  std::uint64_t greatest = 0;  // that a value may have
  std::size_t pixels = 0;      // the byte at which they begin

  std::uint64_t values() const {
    return static_cast<std::uint64_t>(size.width * size.height) *
           static_cast<std::uint64_t>(channels);
  }
};

Header read_header(std::string_view bytes) {
  Header header;
  header.is_text = bytes[1] == '2' || bytes[1] == '3';
  header.channels = bytes[1] == '3' || bytes[1] == '6' ? 3 : 1;
  Numbers numbers(bytes, 2);
  header.size.width = static_cast<std::int64_t>(numbers.next("width", INT32_MAX));
  header.size.height = static_cast<std::int64_t>(numbers.next("height", INT32_MAX));
  header.greatest = numbers.next("greatest value", kLargestValue);
  if (header.greatest == 0) throw DataError("its greatest value is 0, expected 1 to 65535");
  header.pixels = numbers.position() + 1;  // one white space stands between them
  return header;
}

// A number of a text takes two bytes, but for the last one.
void check_length(const Header& header, std::string_view bytes) {
  const std::uint64_t width = header.is_text || header.greatest > kShallow ? 2 : 1;
  const std::uint64_t there =
      bytes.size() + (header.is_text ? 1 : 0) - std::min(bytes.size(), header.pixels);
  if (there / width < header.values())
    throw DataError(concat("it is truncated: its header gives a size of ", header.size.width, "×",
                           header.size.height, " pixels, which ", bytes.size(),
                           " bytes cannot hold"));
}

// Pillow's rule: the nearest level, halves to even.
std::uint64_t scaled(std::uint64_t value, std::uint64_t greatest, std::uint64_t white) {
  const double share = static_cast<double>(value) / static_cast<double>(greatest);
  return std::min(white,
                  static_cast<std::uint64_t>(std::nearbyint(share * static_cast<double>(white))));
}

template <typename Level>
std::vector<Level> read_values(const Header& header, std::string_view bytes, std::uint64_t white) {
  std::vector<Level> levels(header.values());
  Numbers numbers(bytes, header.pixels);
  const bool wide = header.greatest > kShallow;
  const auto byte = [&](std::size_t at) {
    return std::uint64_t{static_cast<unsigned char>(bytes[header.pixels + at])};
  };
  for (std::size_t i = 0; i < levels.size(); ++i) {
    std::uint64_t value = 0;
    if (header.is_text) {
      value = numbers.next("pixels", header.greatest);
    } else {
      value = wide ? byte(2 * i) << 8 | byte(2 * i + 1) : byte(i);
    }
    levels[i] = static_cast<Level>(
        header.greatest == white ? value : scaled(value, header.greatest, white));
  }
  return levels;
}

}  // namespace

bool is_netpbm(std::string_view head) {
  constexpr std::string_view kKinds = "2356";
  if (head.size() < 4 || head[0] != 'P' || kKinds.find(head[1]) == std::string_view::npos)
    return false;
  std::size_t at = 2;
  while (at < head.size() && is_space(head[at])) ++at;
  return at > 2 && at < head.size() && (is_digit(head[at]) || head[at] == '#');
}

bool is_deep_netpbm(std::string_view head) {
  try {
    return is_netpbm(head) && read_header(head).greatest > kShallow;
  } catch (const DataError&) {
    return false;
  }
}

FrameSize netpbm_size(std::string_view bytes) {
  const Header header = read_header(bytes);
  check_length(header, bytes);
  return header.size;
}

Image decode_netpbm(std::string_view bytes) {
  const Header header = read_header(bytes);
  std::vector<std::uint8_t> levels = read_values<std::uint8_t>(header, bytes, kShallow);
  Image image{static_cast<int>(header.size.width), static_cast<int>(header.size.height), {}};
  if (header.channels == 3) {
    image.rgb = std::move(levels);
  } else {
    for (const std::uint8_t level : levels) image.rgb.insert(image.rgb.end(), 3, level);
  }
  return image;
}

Image16 decode_deep_netpbm(std::string_view bytes) {
  const Header header = read_header(bytes);
  return {static_cast<int>(header.size.width), static_cast<int>(header.size.height),
          header.channels, read_values<std::uint16_t>(header, bytes, kLargestValue)};
}

}  // namespace coldframe::frames
