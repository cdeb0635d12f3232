// The models that timm 1.0 registers in vision_transformer.py, deit.py, eva.py and beit.py, those
// that model cards build with timm (uni2_h, virchow2, …), ViTs of clips (VideoMAE, V-JEPA) and of
// volumes (3DINO), and the candidates for a checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "extract/vit/architecture.h"
#include "extract/vit/published/published.h"

namespace coldframe::vit {

// Naming variants in checkpoints of a model.
struct StoredNames {
  bool gamma_names = false;  // layer scales are gamma_1 and gamma_2 (EVA, BEiT), not ls1.gamma
  bool split_names = false;  // q_bias and v_bias, or q_proj, k_proj and v_proj, not qkv.bias
  bool level_norms = false;  // norms_block.N, for the outputs of several blocks (V-JEPA 2.1)
};

struct Published {
  std::string name;
  Architecture architecture{};
  std::int64_t image = 224;  // side of its images in pixels
  std::string pool = "cls";  // default of timm's model of this name
  StoredNames names{};
};

const std::vector<Published>& published_models();

// Takes a timm model name, with or without a tag after a dot (vit_small_patch16_224.dino), or one
// of clips.csv. ConfigError for an unknown name, with similar ones, and for an unsupported model,
// with the reason.
const Published& find_published(const std::string& name);

// Fills in what a ViT's weights do not determine, if all candidate published models agree.

// Stated by the user.
struct StatedFields {
  std::optional<std::int64_t> heads{};
  std::optional<Activation> activation{};
};

// `shown` with the other fields filled in from what all published models with the same shapes agree
// on; if there are none, falls back to the same modules and width, then to the same modules; heads
// are then those of all models of that width. Stated fields take precedence. `gamma_names` as in
// Published: other repositories (DeiT III's) also use such names, so weights with them may be of
// either kind. ConfigError asks for --architecture, --heads or --activation and lists the
// candidates.
Architecture identify(Architecture shown, const StoredNames& names, const StatedFields& stated);

// Copies the fields of `source` that names and shapes do not determine.
void fill_unobservable_fields(const Architecture& source, Architecture& architecture);

}  // namespace coldframe::vit
