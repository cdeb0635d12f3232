// The architectures of the models that timm 1.0 registers, and that model cards make with it.
// The rows are made from timm's own models by tests/extract/vit/timm_rows.py;
// tests/extract/vit/parity.py compares features with timm's.
#pragma once

#include <vector>

namespace coldframe::vit {

struct PublishedRow {
  const char* name;
  // An earlier name, "" for Architecture's defaults, and what differs from it: KEY=VALUE, separated
  // by spaces. Keys are those of Architecture's fields, and image, pool, gamma_names and
  // split_names of Published.
  const char* like;
  const char* differences;
};

// In the order of `like`.
const std::vector<PublishedRow>& vision_transformer_rows();
const std::vector<PublishedRow>& deit_rows();
const std::vector<PublishedRow>& eva_rows();
const std::vector<PublishedRow>& beit_rows();
const std::vector<PublishedRow>& card_rows();  // made by timm with the arguments of a model card

}  // namespace coldframe::vit
