// The models that timm 1.0 registers in vision_transformer.py, deit.py, eva.py and beit.py, those
// that model cards make with timm (uni2_h, virchow2, …), and which of them a checkpoint can be.
#pragma once

#include <string>
#include <vector>

#include "extract/vit/architecture.h"

namespace coldframe::vit {

// How timm's checkpoints of a model call what others call otherwise.
struct StoredNames {
  bool gamma_names = false;  // layer scales are gamma_1 and gamma_2 (EVA, BEiT), not ls1.gamma
  bool split_names = false;  // q_bias and v_bias, or q_proj, k_proj and v_proj, not qkv.bias
};

struct Published {
  std::string name;
  Architecture architecture{};
  std::int64_t image = 224;  // pixels along the side of the images that it is for
  std::string pool = "cls";  // what timm's model of this name does by itself
  StoredNames names{};
};

const std::vector<Published>& published_models();

// Takes a timm model name, with or without a tag behind a dot (vit_small_patch16_224.dino).
// ConfigError for a name that is not known, with those that are like it, and for a model that is
// not supported, with the reason.
const Published& find_published(const std::string& name);

}  // namespace coldframe::vit
