// The size of the images that a backbone takes.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace coldframe {

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

inline constexpr std::int64_t kLeastImageSide = 8, kMostImageSide = 4096;

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
