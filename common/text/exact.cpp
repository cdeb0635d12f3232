#include "common/text/exact.h"

#include <array>
#include <charconv>

namespace coldframe {

// `general` writes numbers of up to six digits as streams do, so that texts already stored stay
// the same.
std::string exact(double value) {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general);
  return {text.data(), end.ptr};
}

}  // namespace coldframe
