#include "cache/format/schema.h"

#include <algorithm>
#include <type_traits>

namespace coldframe::cache {
namespace {

using hdf5::Type;

template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return Type::kUint8;
  if constexpr (std::is_same_v<T, std::int32_t>) return Type::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Type::kInt64;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Type::kUint32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return Type::kUint64;
  if constexpr (std::is_same_v<T, double>) return Type::kFloat64;
  return Type::kText;
}

template <typename T, typename Owner>
constexpr Type type_of(T Owner::*) {
  return type_of<ItemOf<T>>();
}
constexpr Type type_of(FrameCounts) {
  return Type::kUint64;
}
constexpr Type type_of(ThumbnailBytes) {
  return Type::kUint8;
}

}  // namespace

hdf5::Type SchemaRow::type() const {
  return std::visit([](auto of) { return type_of(of); }, member);
}

bool SchemaRow::is_group() const {
  return std::holds_alternative<std::vector<ExamColumn> ExamInfo::*>(member) ||
         std::holds_alternative<std::vector<FrameColumn> ExamInfo::*>(member);
}

std::vector<const char*> groups_of(const ShardHeader& header) {
  std::vector<const char*> groups{kFeatures};
  if (header.cut) groups.push_back(kCut);
  groups.insert(groups.end(), {kFrames, kExams, kFailures});
  if (header.recipe.has_thumbnails()) groups.push_back(kThumbnails);
  return groups;
}

hdf5::DatasetSpec spec_of(const SchemaRow& row, const RowCounts& counts, std::size_t arrays) {
  hdf5::DatasetSpec spec{row.type(), 0, counts.along(row.axis), {}};
  if (std::holds_alternative<std::vector<std::uint64_t> StoredExam::*>(row.member))
    spec.row_shape = {arrays};
  return spec;
}

void MetadataSize::observe(const ExamInfo& info) {
  each_text(info, [&](const SchemaRow& row, const std::string& name, const std::string& text) {
    std::uint64_t& longest = longest_[{&row, name}];
    longest = std::max<std::uint64_t>({longest, text.size(), 1});
  });
}

std::uint64_t MetadataSize::bytes(const RowCounts& counts, std::size_t arrays,
                                  bool thumbnails) const {
  std::uint64_t bytes = 0;
  for (const SchemaRow& row : kSchema) {
    if (row.type() == Type::kText || (row.group == std::string_view(kThumbnails) && !thumbnails))
      continue;
    const hdf5::DatasetSpec spec = spec_of(row, counts, arrays);
    bytes += spec.rows * spec.row_bytes();
  }
  for (const auto& [place, longest] : longest_) bytes += counts.along(place.first->axis) * longest;
  return bytes;
}

}  // namespace coldframe::cache
