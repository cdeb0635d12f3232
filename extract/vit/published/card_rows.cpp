// Made by tests/extract/vit/timm_rows.py from model cards' arguments of timm 1.0.31.
#include "extract/vit/published/rows.h"

namespace coldframe::vit {

const std::vector<PublishedRow>& card_rows() {
  static const std::vector<PublishedRow> rows = {
      {"medsiglip", "vit_so400m_patch16_siglip_512", "patch=14 image=448"},
      {"phikon_v2", "vit_large_patch16_224", "layer_scale=1"},
      {"prov_gigapath", "vit_giant_patch14_dinov2", "patch=16 position_grid=14 image=224"},
      {"uni", "phikon_v2", ""},
      {"uni2_h", "vit_giant_patch14_reg1_tipsv2",
       "depth=24 position_grid=16 registers=8 image=224"},
      {"virchow2", "vit_huge_patch14_224",
       "mlp_hidden=3416 registers=4 layer_scale=1 gated_mlp=1 activation=silu"},
  };
  return rows;
}

}  // namespace coldframe::vit
