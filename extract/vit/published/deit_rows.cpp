// Made by tests/extract/vit/timm_rows.py from deit.py of timm 1.0.31.
#include "extract/vit/published/rows.h"

namespace coldframe::vit {

const std::vector<PublishedRow>& deit_rows() {
  static const std::vector<PublishedRow> rows = {
      {"deit3_base_patch16_224", "vit_base_patch16_224", "prefix_positions=0 layer_scale=1"},
      {"deit3_base_patch16_384", "deit3_base_patch16_224", "position_grid=24 image=384"},
      {"deit3_huge_patch14_224", "vit_huge_patch14_224", "prefix_positions=0 layer_scale=1"},
      {"deit3_large_patch16_224", "vit_large_patch16_224", "prefix_positions=0 layer_scale=1"},
      {"deit3_large_patch16_384", "deit3_large_patch16_224", "position_grid=24 image=384"},
      {"deit3_medium_patch16_224", "deit3_base_patch16_224", "width=512 mlp_hidden=2048 heads=8"},
      {"deit3_small_patch16_224", "", "prefix_positions=0 layer_scale=1"},
      {"deit3_small_patch16_384", "deit3_small_patch16_224", "position_grid=24 image=384"},
      {"deit_base_distilled_patch16_224", "vit_base_patch16_224", "registers=1 pool=prefix-mean"},
      {"deit_base_distilled_patch16_384", "vit_base_patch16_384", "registers=1 pool=prefix-mean"},
      {"deit_base_patch16_224", "vit_base_patch16_224", ""},
      {"deit_base_patch16_384", "vit_base_patch16_384", ""},
      {"deit_small_distilled_patch16_224", "", "registers=1 pool=prefix-mean"},
      {"deit_small_patch16_224", "", ""},
      {"deit_tiny_distilled_patch16_224", "vit_tiny_patch16_224", "registers=1 pool=prefix-mean"},
      {"deit_tiny_patch16_224", "vit_tiny_patch16_224", ""},
  };
  return rows;
}

}  // namespace coldframe::vit
