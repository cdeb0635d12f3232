#include "extract/vit/published/published.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/published/models.h"

namespace coldframe::vit {

namespace {

struct Unsupported {
  const char* names;  // that begin or end so
  const char* design;
};
constexpr Unsupported kUnsupported[] = {
    {"_sapiens2", "grouped queries, and a layer scale of attention alone"},
    {"vit_dpwee_", "differential attention beside the MLP"},
};

void apply_pair(const std::string& pair, Published& model) {
  const std::size_t equals = pair.find('=');
  const std::string key = pair.substr(0, equals), value = pair.substr(equals + 1);
  if (key == "image") {
    parse_int(value, model.image);
  } else if (key == "pool") {
    model.pool = value;
  } else if (key == "gamma_names") {
    model.names.gamma_names = value == "1";
  } else if (key == "split_names") {
    model.names.split_names = value == "1";
  } else {
    find_field(key)->set(model.architecture, value);
  }
}

std::vector<Published> read_models() {
  constexpr std::size_t kBefore = 2;  // where the file comes from, and its columns
  std::vector<Published> models;
  std::map<std::string, Published> known{{"", {}}};
  const std::vector<std::string> lines = split(trim(kPublishedModels), '\n');
  for (std::size_t i = kBefore; i < lines.size(); ++i) {
    const std::vector<std::string> row = split(lines[i], ',');
    Published model = known.at(row[1]);
    model.name = row[0];
    std::istringstream pairs(row[2]);
    for (std::string pair; pairs >> pair;) apply_pair(pair, model);
    known[model.name] = model;
    models.push_back(std::move(model));
  }
  return models;
}

// The names that share the most of their beginning with `name`.
std::vector<std::string> names_like(const std::string& name) {
  constexpr std::size_t kShown = 12;
  std::size_t longest = 0;
  std::vector<std::string> names;
  for (const Published& model : published_models()) {
    const auto shared =
        static_cast<std::size_t>(std::ranges::mismatch(name, model.name).in1 - name.begin());
    if (shared > longest) names.clear();
    longest = std::max(longest, shared);
    if (shared == longest && names.size() < kShown) names.push_back(model.name);
  }
  return names;
}

}  // namespace

const std::vector<Published>& published_models() {
  static const std::vector<Published> models = read_models();
  return models;
}

const Published& find_published(const std::string& name) {
  const std::string bare = name.substr(0, name.find('.'));
  for (const Published& model : published_models())
    if (model.name == bare) return model;
  for (const Unsupported& unsupported : kUnsupported)
    if (bare.starts_with(unsupported.names) || bare.ends_with(unsupported.names))
      throw ConfigError(concat("architecture '", bare, "' has ", unsupported.design,
                               ", which is not supported; export the model to TorchScript and "
                               "pass it as --backbone"));
  throw ConfigError(concat("unknown architecture '", name, "'; known are timm's names of ViTs, ",
                           "such as ", join(names_like(bare), ", ")));
}

}  // namespace coldframe::vit
