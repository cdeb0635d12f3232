// A learnt bias of each head for each difference of two patches' places (BEiT, Bao et al. 2021,
// arXiv:2106.08254; timm's beit.py).
#pragma once

#include "common/torch/tensor.h"

namespace coldframe::vit {

// table [(2·grid - 1)² + 3, heads] -> [heads, 1 + grid², 1 + grid²], what is added to the product
// of query and key; the table's last rows are for class token to patch, patch to class token, and
// class token to itself.
torch::Tensor relative_bias(const torch::Tensor& table, std::int64_t grid);

}  // namespace coldframe::vit
