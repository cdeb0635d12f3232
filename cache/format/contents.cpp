#include "cache/format/contents.h"

#include "cache/format/format.h"
#include "common/text/text.h"

namespace coldframe::cache {

RowArray ShardHeader::array(std::size_t number) const {
  const hdf5::Type number_type =
      storage == StorageType::kFloat16 ? hdf5::Type::kFloat16 : hdf5::Type::kFloat32;
  const bool is_cut = number >= views.size();
  const std::string& view = views[is_cut ? number - views.size() : number];
  if (!is_cut)
    return {concat("features of view ", view),
            join_path(kFeatures, escape_name(view)),
            number_type,
            {static_cast<std::uint64_t>(dimension)}};
  return {concat("cut rows of view ", view),
          join_path(kCut, escape_name(view)),
          cut->is_pixels() ? hdf5::Type::kUint8 : number_type,
          {cut->shape.begin(), cut->shape.end()}};
}

}  // namespace coldframe::cache
