// The models that timm 1.0 registers in vision_transformer.py, deit.py, eva.py and beit.py, those
// that model cards make with timm (uni2_h, virchow2, …), and which of them a checkpoint can be.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "extract/vit/architecture.h"
#include "extract/vit/published/published.h"

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

// Fills in what the weights of a ViT do not show, where all published models that they can be of
// agree.

// The user states these.
struct StatedFields {
  std::optional<std::int64_t> heads{};
  std::optional<Activation> activation{};
};

// `shown` with the other fields filled in. Those that all published models (published.h) of the
// same shapes have in common hold; failing such models, those of the same parts and width, and then
// of the same parts; heads are then those of all models of that width. What is stated goes before.
// `gamma_names` as in Published: other repositories (DeiT III's) use such names, too, so that
// weights with them can be of either kind. ConfigError asks for --architecture, --heads or
// --activation, with what the weights may be.
Architecture identify(Architecture shown, const StoredNames& names, const StatedFields& stated);

// Takes over the fields of `source` that names and shapes do not show.
void fill_unobservable_fields(const Architecture& source, Architecture& architecture);

}  // namespace coldframe::vit
