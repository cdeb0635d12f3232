// The places of an image's patches.
#pragma once

#include <cstdint>

#include "common/text/image_size.h"

namespace coldframe::vit {

struct Grid {
  std::int64_t rows = 0, columns = 0;

  constexpr Grid() = default;
  constexpr Grid(std::int64_t side) : rows(side), columns(side) {}
  constexpr Grid(const ImageSize& size, std::int64_t patch)
      : rows(size.height / patch), columns(size.width / patch) {}

  constexpr std::int64_t patches() const { return rows * columns; }
  bool operator==(const Grid&) const = default;
};

}  // namespace coldframe::vit
