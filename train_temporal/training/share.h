// Processes divide work into contiguous parts, in the order of ranks.
#pragma once

#include <cstddef>

namespace coldframe::temporal {

struct Share {
  std::size_t rank = 0, size = 1;

  std::size_t begin(std::size_t count) const { return count * rank / size; }
  std::size_t end(std::size_t count) const { return count * (rank + 1) / size; }
};

}  // namespace coldframe::temporal
