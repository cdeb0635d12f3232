#include "extract/vit/checkpoint/stand_in.h"

#include <array>

#include "common/text/text.h"

namespace coldframe::vit {

std::string stand_in(const ByteSource& file) {
  std::array<char, 256> start{};
  const std::size_t count = file.read_some(0, std::as_writable_bytes(std::span(start)));
  const std::string text = lower(trim(std::string_view(start.data(), count)));
  if (text.starts_with("version https://git-lfs"))
    return "a Git LFS pointer, which only names the weights; fetch them with 'git lfs pull'";
  if (text.starts_with("<!doctype html") || text.starts_with("<html"))
    return "a web page, not the weights; download the file itself, not the page that shows it";
  return "";
}

}  // namespace coldframe::vit
