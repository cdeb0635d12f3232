#include "cache/format/contents.h"

#include "cache/format/format.h"
#include "common/text/text.h"

namespace coldframe::cache {

RowArray ShardHeader::array(std::size_t number) const {
  const bool is_cut = number >= views.size();
  const std::string& view = views[is_cut ? number - views.size() : number];
  if (!is_cut)
    return {concat("features of view ", view),
            join_path(kFeatures, escape_name(view)),
            storage,
            {static_cast<std::uint64_t>(dimension)}};
  return {concat("cut rows of view ", view),
          join_path(kCut, escape_name(view)),
          cut->type(),
          {cut->shape.begin(), cut->shape.end()}};
}

}  // namespace coldframe::cache
