// Fills in what the weights of a ViT do not show, where all published models that they can be of
// agree.
#pragma once

#include <optional>

#include "extract/vit/architecture.h"
#include "extract/vit/published/published.h"

namespace coldframe::vit {

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
