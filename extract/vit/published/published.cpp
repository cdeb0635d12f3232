#include "extract/vit/published/published.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <sstream>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/vit/published/models.h"

namespace coldframe::vit {

namespace {

struct UnsupportedFamily {
  const char* names;  // that begin or end so
  const char* design;
};
constexpr UnsupportedFamily kUnsupportedFamilies[] = {
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
  } else if (key == "level_norms") {
    model.names.level_norms = value == "1";
  } else {
    find_field(key)->set(model.architecture, value);
  }
}

void read_rows(const char* text, std::vector<Published>& models) {
  constexpr std::size_t kBefore = 2;  // where the file comes from, and its columns
  std::map<std::string, Published> known{{"", {}}};
  const std::vector<std::string> lines = split(trim(text), '\n');
  for (std::size_t i = kBefore; i < lines.size(); ++i) {
    const std::vector<std::string> row = split(lines[i], ',');
    Published model = known.at(row[1]);
    model.name = row[0];
    std::istringstream pairs(row[2]);
    for (std::string pair; pairs >> pair;) apply_pair(pair, model);
    known[model.name] = model;
    models.push_back(std::move(model));
  }
}

std::vector<Published> read_models() {
  std::vector<Published> models;
  read_rows(kPublishedModels, models);
  read_rows(kPublishedClips, models);
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
  for (const UnsupportedFamily& unsupported : kUnsupportedFamilies)
    if (bare.starts_with(unsupported.names) || bare.ends_with(unsupported.names))
      throw ConfigError(concat("architecture '", bare, "' has ", unsupported.design,
                               ", which is not supported; export the model to TorchScript and "
                               "pass it as --backbone"));
  throw ConfigError(concat("unknown architecture '", name, "'; known are timm's names of ViTs, ",
                           "such as ", join(names_like(bare), ", ")));
}

namespace {

using Candidates = std::vector<const Published*>;

// Depth and the images' size do not tell models apart: both are often changed.
constexpr std::array<std::string_view, 3> kFree = {"depth", "position_grid", "position_steps"};
// Nor do these where no model has the same shapes.
constexpr std::array<std::string_view, 7> kSizes = {
    "width", "patch", "mlp_hidden", "registers", "pool_hidden", "norm", "fc_norm"};

bool is_one_of(std::span<const std::string_view> keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

bool is_parallel(const Architecture& architecture) {
  return architecture.block == BlockKind::kParallelScaling;
}

bool same_parts(const Architecture& a, const Architecture& b) {
  const auto normed = [](const Architecture& one) { return one.norm || one.fc_norm; };
  if (normed(a) != normed(b) || is_parallel(a) != is_parallel(b) ||
      (a.rotary == Rotary::kMixed) != (b.rotary == Rotary::kMixed))
    return false;
  return std::ranges::all_of(fields(), [&](const Field& field) {
    return !field.shown || is_one_of(kFree, field.key) || is_one_of(kSizes, field.key) ||
           field.same(a, b);
  });
}

bool same_sizes(const Architecture& a, const Architecture& b) {
  return std::ranges::all_of(kSizes,
                             [&](std::string_view key) { return find_field(key)->same(a, b); });
}

Candidates candidates(const StoredNames& names,
                      const std::function<bool(const Architecture&)>& fits) {
  Candidates found;
  for (const Published& model : published_models()) {
    // timm's models for its own tests say nothing about others.
    if (model.name.starts_with("test_")) continue;
    const bool other_names = (model.names.gamma_names && !names.gamma_names) ||
                             (model.names.split_names && !names.split_names);
    // Of ViTs of clips, VideoMAE alone keeps biases of queries and values apart.
    const bool other_family =
        model.architecture.takes_clips() && (model.names.split_names != names.split_names ||
                                             model.names.level_norms != names.level_norms);
    if (!other_names && !other_family && fits(model.architecture)) found.push_back(&model);
  }
  return found;
}

// Those that have what is stated, if any has.
Candidates as_stated(const Candidates& found, const StatedFields& stated) {
  Candidates kept;
  for (const Published* model : found)
    if (model->architecture.heads == stated.heads.value_or(model->architecture.heads) &&
        model->architecture.activation ==
            stated.activation.value_or(model->architecture.activation))
      kept.push_back(model);
  return kept.empty() ? found : kept;
}

// What candidates differ in, of the fields that nobody stated: for each set of values the first
// model that has them.
std::map<std::string, std::string> variants(const Candidates& found, const StatedFields& stated,
                                            bool with_heads) {
  std::vector<const Field*> differing;
  for (const Field& field : fields()) {
    const bool known = field.shown || (field.key == "heads" && (stated.heads || !with_heads)) ||
                       (field.key == "activation" && stated.activation);
    if (!known && std::ranges::any_of(found, [&](const Published* model) {
          return !field.same(model->architecture, found.front()->architecture);
        }))
      differing.push_back(&field);
  }
  std::map<std::string, std::string> names;
  for (const Published* model : found) {
    std::vector<std::string> values;
    for (const Field* field : differing)
      values.push_back(concat(field->what, " ", field->text(model->architecture)));
    names.emplace(join(values, ", "), model->name);
  }
  return names;
}

constexpr const char* kAsk =
    "name the model with --architecture NAME (timm's), or put its config.json next to the weights";

[[noreturn]] void ask_which(const std::map<std::string, std::string>& names) {
  std::vector<std::string> lines;
  for (const auto& [values, name] : names) lines.push_back(concat(name, " (", values, ")"));
  throw ConfigError(concat("the weights do not show which of these models they are of: ",
                           join(lines, ", "), "; ", kAsk));
}

// The parts in which the shown ones differ from a model's.
std::vector<std::string> differing_parts(const Architecture& shown, const Architecture& model) {
  std::vector<std::string> differences;
  for (const Field& field : fields()) {
    const bool is_norm = field.key == "norm" || field.key == "fc_norm";
    if (field.shown && !is_one_of(kFree, field.key) && !field.same(shown, model) &&
        (is_norm || !is_one_of(kSizes, field.key)))
      differences.push_back(
          concat(field.what, " ", field.text(shown), " instead of ", field.text(model)));
  }
  return differences;
}

[[noreturn]] void ask_about_unknown(const Architecture& shown) {
  std::string nearest;
  std::vector<std::string> least;
  for (const Published& model : published_models()) {
    if (model.architecture.takes_clips() != shown.takes_clips()) continue;
    const auto differences = differing_parts(shown, model.architecture);
    if (differences.empty() || (!nearest.empty() && differences.size() >= least.size())) continue;
    nearest = model.name;
    least = differences;
  }
  throw ConfigError(concat("no published ViT has the parts of these weights (the nearest, ",
                           nearest, ", differs in ", join(least, ", "), "): ", kAsk,
                           ", or give both --heads and --activation for a plain ViT"));
}

// Those that all models of this width have; 0 where they differ.
std::int64_t usual_heads(const Architecture& shown) {
  std::int64_t heads = 0;
  for (const Published& model : published_models()) {
    if (model.architecture.width != shown.width || model.name.starts_with("test_") ||
        model.architecture.takes_clips() != shown.takes_clips())
      continue;
    if (heads != 0 && heads != model.architecture.heads) return 0;
    heads = model.architecture.heads;
  }
  return heads;
}

void fill_in(const StatedFields& stated, Architecture& architecture) {
  if (stated.heads) architecture.heads = *stated.heads;
  if (stated.activation) architecture.activation = *stated.activation;
}

Architecture plain_as_stated(Architecture shown, const StatedFields& stated) {
  const bool placed = shown.positions || shown.relative_positions;
  if (!stated.heads || !stated.activation || !placed || shown.attention_pool)
    ask_about_unknown(shown);
  fill_in(stated, shown);
  shown.norm = shown.norm || !shown.fc_norm;
  return shown;
}

void set_usual_heads(Architecture& architecture) {
  architecture.heads = usual_heads(architecture);
  if (architecture.heads == 0)
    throw ConfigError(
        concat("the weights do not show the number of attention heads, and published "
               "ViTs of width ",
               architecture.width,
               " have none in common; give --heads N (the width "
               "divided by 64 is usual), or name the model with --architecture"));
}

}  // namespace

void fill_unobservable_fields(const Architecture& source, Architecture& architecture) {
  for (const Field& field : fields())
    if (!field.shown) field.set(architecture, field.text(source));
}

Architecture identify(Architecture shown, const StoredNames& names, const StatedFields& stated) {
  Candidates found = candidates(names, [&](const Architecture& each) {
    return same_parts(each, shown) && same_sizes(each, shown);
  });
  if (found.empty())
    found = candidates(names, [&](const Architecture& each) {
      return same_parts(each, shown) && each.width == shown.width;
    });
  const bool has_width = !found.empty();
  if (!has_width)
    found = candidates(names, [&](const Architecture& each) { return same_parts(each, shown); });
  if (found.empty()) return plain_as_stated(shown, stated);
  found = as_stated(found, stated);
  const auto differing = variants(found, stated, has_width);
  if (differing.size() > 1) ask_which(differing);
  fill_unobservable_fields(found.front()->architecture, shown);
  if (!has_width && !stated.heads) set_usual_heads(shown);
  fill_in(stated, shown);
  log_info(concat("weights: no config and no name; taken as ", has_width ? "" : "a ViT like ",
                  found.front()->name, " with ", shown.heads, " heads and activation ",
                  word_for(kActivations, shown.activation)));
  return shown;
}

}  // namespace coldframe::vit
