#include "cache/format/cut.h"

#include <algorithm>

#include "cache/format/format.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

constexpr std::int64_t kMostBlocks = 1 << 16, kLargestSide = 1 << 20;
constexpr std::uint64_t kLongestRow = 1ull << 30;

bool is_count(const Json& json, std::int64_t most) {
  return json.is_number_integer() && json >= 0 && json <= most;
}

// [N, D] before a block behind the first, [H, W, 3] before the first.
bool is_possible(const Cut& cut) {
  if (cut.shape.size() != (cut.is_pixels() ? 3 : 2)) return false;
  std::uint64_t bytes = sizeof(float);
  for (const std::int64_t size : cut.shape) {
    if (size < 1) return false;
    bytes *= static_cast<std::uint64_t>(size);
    if (bytes > kLongestRow) return false;
  }
  return !cut.is_pixels() || cut.shape.back() == 3;
}

}  // namespace

std::size_t Cut::row_bytes() const {
  std::size_t bytes = bytes_of(type());
  for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

std::vector<float> values_of(const Cut& cut, std::span<const std::byte> rows) {
  std::vector<float> values(rows.size() / bytes_of(cut.type()));
  convert(rows, cut.type(), std::span(values));
  return values;
}

Json to_json(const Cut& cut) {
  return {{"block", cut.block}, {"shape", cut.shape}};
}

std::optional<Cut> find_cut(const Recipe& recipe, DType storage) {
  if (!recipe.storage.contains(kCut)) return std::nullopt;
  const Json& json = recipe.storage[kCut];
  const bool has_form =
      json.is_object() && json.size() == 2 && json.contains("block") && json.contains("shape") &&
      is_count(json["block"], kMostBlocks) && json["shape"].is_array() &&
      std::ranges::all_of(json["shape"], [](const Json& n) { return is_count(n, kLargestSide); });
  if (has_form) {
    const Cut cut{json["block"].get<std::int64_t>(), json["shape"].get<std::vector<std::int64_t>>(),
                  storage};
    if (is_possible(cut)) return cut;
  }
  throw CacheError(concat("the recipe has the cut ", json.dump().substr(0, 200),
                          ", expected a block and the shape of its tokens [N, D], or block 0 and "
                          "the shape of pixels [H, W, 3]"));
}

}  // namespace coldframe::cache
