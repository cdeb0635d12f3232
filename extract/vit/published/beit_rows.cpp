// Made by tests/extract/vit/timm_rows.py from beit.py of timm 1.0.31.
#include "extract/vit/published/rows.h"

namespace coldframe::vit {

const std::vector<PublishedRow>& beit_rows() {
  static const std::vector<PublishedRow> rows = {
      {"beit_base_patch16_224", "vit_base_patch16_rope_mixed_224",
       "relative_positions=1 norm=0 fc_norm=1 rotary=none rotary_xy=0 pool=mean split_names=1"},
      {"beit_base_patch16_384", "beit_base_patch16_224", "position_grid=24 image=384"},
      {"beit_large_patch16_224", "beit_base_patch16_224",
       "width=1024 depth=24 mlp_hidden=4096 heads=16"},
      {"beit_large_patch16_384", "beit_large_patch16_224", "position_grid=24 image=384"},
      {"beit_large_patch16_512", "beit_large_patch16_224", "position_grid=32 image=512"},
      {"beitv2_base_patch16_224", "beit_base_patch16_224", ""},
      {"beitv2_large_patch16_224", "beit_large_patch16_224", ""},
  };
  return rows;
}

}  // namespace coldframe::vit
