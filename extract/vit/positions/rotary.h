// Rotary positions: before queries meet keys, pairs of their numbers are turned by angles that grow
// with the patch's place, so that their product depends on how far two patches lie apart (Su et al.
// 2021, arXiv:2104.09864). Class token and registers are not turned. As timm's
// layers/pos_embed_sincos.py has it.
#pragma once

#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/positions/grid.h"

namespace coldframe::vit {

// Of each of a head's numbers; [patches, head width], or [heads, patches, head width] where heads
// turn differently. Undefined without rotary positions.
struct Rotation {
  torch::Tensor sine, cosine;
  bool half = false;        // numbers i and i + d/2 are a pair; else 2i and 2i + 1
  std::int64_t prefix = 0;  // tokens at the beginning that are not turned
};

// The rotation of each block for images of such a grid of patches. `frequencies` is the parameter
// of Rotary::kMixed, [2, depth, heads, head width / 2].
//   axial   half of the pairs turns with the row, half with the column, at wavelengths of
//           temperature^(4i/d) patches · 2π (EVA-02, arXiv:2303.11331; timm's eva.py; RoPE-ViT,
//           arXiv:2403.13298)
//   mixed   each pair turns with both, at learnt frequencies of each block and head (RoPE-ViT)
//   dinov3  as axial, but of places from -1 to 1 across the image whatever its size, at
//           wavelengths of temperature^(4i/d) (arXiv:2508.10104)
std::vector<Rotation> rotations(const Architecture& architecture, const Grid& grid,
                                const torch::Tensor& frequencies);

// The same of one block of Rotary::kMixed.
Rotation mixed_rotation(const Architecture& architecture, const Grid& grid,
                        const torch::Tensor& frequencies, std::int64_t block);

// [head width / 4]: temperature^(4i/d), the wavelengths of axial and dinov3 in their own units.
torch::Tensor periods(const Architecture& architecture);

// x [B, heads, tokens, head width] -> the same
torch::Tensor rotate(const torch::Tensor& x, const Rotation& rotation);

}  // namespace coldframe::vit
