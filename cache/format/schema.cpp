#include "cache/format/schema.h"

#include <algorithm>
#include <type_traits>

namespace coldframe::cache {
namespace {

template <typename T, typename Owner>
constexpr hdf5::Type type_of(T Owner::*) {
  if constexpr (std::is_arithmetic_v<ItemOf<T>>) return dtype_of<ItemOf<T>>();
  return hdf5::kText;
}
constexpr hdf5::Type type_of(FrameCounts) {
  return DType::kUint64;
}
constexpr hdf5::Type type_of(ThumbnailBytes) {
  return DType::kUint8;
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
    if (row.type() == hdf5::kText || (row.group == std::string_view(kThumbnails) && !thumbnails))
      continue;
    const hdf5::DatasetSpec spec = spec_of(row, counts, arrays);
    bytes += spec.rows * spec.row_bytes();
  }
  for (const auto& [place, longest] : longest_) bytes += counts.along(place.first->axis) * longest;
  return bytes;
}

}  // namespace coldframe::cache
