#include "extract/vit/architecture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

const torch::Tensor* find(const StateDict& weights, const std::string& name, std::int64_t dims) {
  const auto found = weights.find(name);
  if (found == weights.end()) return nullptr;
  if (found->second.dim() != dims || found->second.numel() == 0)
    throw DataError(concat("tensor '", name, "' has shape ", shape_text(found->second.sizes()),
                           ", expected ", dims, " dimensions"));
  return &found->second;
}

const torch::Tensor& require(const StateDict& weights, const std::string& name, std::int64_t dims) {
  const torch::Tensor* tensor = find(weights, name, dims);
  if (tensor == nullptr)
    throw DataError(concat("tensor '", name,
                           "' is missing: this is no ViT with timm's names (the "
                           "first of its ",
                           weights.size(), " tensors is '",
                           weights.empty() ? "" : weights.begin()->first, "')"));
  return *tensor;
}

// The side of a square of `rows` patches, 0 if there is none.
std::int64_t square_side(std::int64_t rows) {
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(rows))));
  return rows > 0 && side * side == rows ? side : 0;
}

// [width, 3, patch, patch], or of clips [width, 3, tubelet, patch, patch].
void read_patches(const StateDict& weights, Architecture& architecture) {
  const bool clips = weights.contains("patch_embed.proj.weight") &&
                     weights.at("patch_embed.proj.weight").dim() == 5;
  const torch::Tensor& patches = require(weights, "patch_embed.proj.weight", clips ? 5 : 4);
  if (patches.size(1) != 3 || patches.size(-2) != patches.size(-1))
    throw DataError(concat("patch_embed.proj.weight has shape ", shape_text(patches.sizes()),
                           ", expected [width, 3, patch, patch], or of clips [width, 3, frames, ",
                           "patch, patch]"));
  architecture.width = patches.size(0);
  architecture.patch = patches.size(-1);
  if (clips) architecture.tubelet = patches.size(2);
}

// A volume's positions are of a cube of patches, behind those of the prefix tokens (3DINO).
void read_volume_positions(std::int64_t rows, Architecture& architecture) {
  const std::int64_t patches = rows - architecture.prefix_tokens();
  const std::int64_t side = std::llround(std::cbrt(static_cast<double>(patches)));
  if (side < 1 || side * side * side != patches)
    throw DataError(
        concat("pos_embed has ", rows, " rows, expected those of a cube of patches and ",
               plural(static_cast<std::size_t>(architecture.prefix_tokens()), "prefix token"),
               "; only such volumes are supported"));
  architecture.position_grid = architecture.position_steps = side;
  architecture.frames = side * architecture.tubelet;
}

// A clip's positions are of 16 frames, as all of VideoMAE's scripts train: the rows alone do not
// tell steps from patches.
void read_clip_positions(std::int64_t rows, Architecture& architecture) {
  constexpr std::int64_t kFrames = 16;
  architecture.frames = kFrames;
  architecture.position_steps = kFrames / architecture.tubelet;
  architecture.position_grid = architecture.position_steps > 0 && !architecture.class_token
                                   ? square_side(rows / architecture.position_steps)
                                   : 0;
  const std::int64_t side = architecture.position_grid;
  if (side == 0 || architecture.position_steps * side * side != rows)
    throw DataError(concat("pos_embed has ", rows, " rows, expected those of a clip of ", kFrames,
                           " frames and square images without a class token; only such are "
                           "supported"));
}

// pos_embed [1, rows, width]: a square of patches, or the prefix tokens and then the patches.
void read_positions(const StateDict& weights, Architecture& architecture) {
  if (!architecture.positions) {
    architecture.position_grid = 0;
    return;
  }
  const std::int64_t rows = require(weights, "pos_embed", 3).size(1);
  if (architecture.takes_volumes()) return read_volume_positions(rows, architecture);
  if (architecture.takes_clips()) return read_clip_positions(rows, architecture);
  const std::int64_t prefix = architecture.prefix_tokens();
  const std::int64_t alone = square_side(rows), behind = square_side(rows - prefix);
  // Where both fit, a model with registers is one of DINOv2's, whose positions are of patches only.
  architecture.prefix_positions = behind > 0 && (alone == 0 || architecture.registers == 0);
  architecture.position_grid = architecture.prefix_positions ? behind : alone;
  if (architecture.position_grid == 0)
    throw DataError(concat("pos_embed has ", rows, " rows, which is no square of patches, with ",
                           "or without ", plural(static_cast<std::size_t>(prefix), "prefix token"),
                           "; only square training images are supported"));
}

// Where a block of each kind has its first norm, attention, MLP and layer scale.
struct BlockNames {
  BlockKind kind;
  const char *norm, *attention, *mlp, *scale;
};
constexpr BlockNames kBlockNames[] = {
    {BlockKind::kParallelScaling, "in_norm.", "", "", "ls.gamma"},
    {BlockKind::kParallelThings, "attns.0.norm.", "attns.0.attn.", "ffns.0.mlp.",
     "attns.0.ls.gamma"},
    {BlockKind::kPreNorm, "norm1.", "attn.", "mlp.", "ls1.gamma"},
};

const BlockNames& block_names(const StateDict& weights) {
  for (const BlockNames& names : kBlockNames)
    if (weights.contains(concat("blocks.0.", names.norm, "weight"))) return names;
  return kBlockNames[std::size(kBlockNames) - 1];
}

std::int64_t count_blocks(const StateDict& weights, const std::string& norm) {
  // Counted, not taken from the highest number: a gap shows up as a missing tensor later.
  std::int64_t count = 0;
  for (const auto& [name, tensor] : weights)
    if (name.starts_with("blocks.") && name.ends_with(norm)) ++count;
  return count;
}

// in_proj gives the MLP's hidden layer and queries, keys and values at once.
void read_parallel_scaling(const StateDict& weights, Architecture& architecture) {
  architecture.mlp_hidden = require(weights, "blocks.0.mlp_out_proj.weight", 2).size(1);
  architecture.qkv_bias = weights.contains("blocks.0.in_proj.bias");
  architecture.projection_bias = weights.contains("blocks.0.attn_out_proj.bias");
}

void read_branches(const StateDict& weights, const BlockNames& names, Architecture& architecture) {
  const std::string attention = concat("blocks.0.", names.attention);
  const std::string mlp = concat("blocks.0.", names.mlp);
  const torch::Tensor& fc1 = require(weights, mlp + "fc1.weight", 2);
  const torch::Tensor& fc2 = require(weights, mlp + "fc2.weight", 2);
  architecture.gated_mlp = fc1.size(0) == 2 * fc2.size(1);
  architecture.mlp_hidden = architecture.gated_mlp ? fc2.size(1) : fc1.size(0);
  const torch::Tensor* table = find(weights, attention + "relative_position_bias_table", 2);
  if (table == nullptr || architecture.positions) return;
  // (2·grid - 1)² differences of places, and three rows of the class token.
  architecture.position_grid = (square_side(table->size(0) - 3) + 1) / 2;
}

// A plain ViT's tensor by the name that it has in blocks of this kind.
std::string name_in(const BlockNames& names, std::string_view plain) {
  for (const auto& [from, to] :
       {std::pair<std::string_view, const char*>{"attn.", names.attention}, {"mlp.", names.mlp}})
    if (const std::string place = concat("blocks.0.", from); plain.starts_with(place))
      return concat("blocks.0.", to, plain.substr(place.size()));
  return std::string(plain);
}

void read_signs(const StateDict& weights, const BlockNames& names, Architecture& architecture) {
  for (const Field& field : fields())
    if (!field.sign.empty())
      architecture.*std::get<bool Architecture::*>(field.member) =
          weights.contains(name_in(names, field.sign));
}

void read_blocks(const StateDict& weights, const BlockNames& names, Architecture& architecture) {
  const std::string first = concat("blocks.0.", names.norm);
  architecture.block = names.kind;
  architecture.depth = count_blocks(weights, concat(".", names.norm, "weight"));
  architecture.rms_norm = weights.contains(first + "weight") && !weights.contains(first + "bias");
  architecture.layer_scale = weights.contains(concat("blocks.0.", names.scale));
  if (names.kind == BlockKind::kParallelScaling) {
    read_parallel_scaling(weights, architecture);
    return;
  }
  read_branches(weights, names, architecture);
  while (names.kind == BlockKind::kParallelThings &&
         weights.contains(concat("blocks.0.attns.", architecture.parallel, ".norm.weight")))
    ++architecture.parallel;
}

}  // namespace

Architecture read_architecture(const StateDict& weights) {
  Architecture architecture;
  read_patches(weights, architecture);
  architecture.heads = 0;
  const BlockNames& names = block_names(weights);
  read_signs(weights, names, architecture);
  find(weights, "cls_token", 3);  // refuses one of other dimensions
  if (const torch::Tensor* registers = find(weights, "reg_token", 3))
    architecture.registers = registers->size(1);
  read_positions(weights, architecture);
  read_blocks(weights, names, architecture);
  if (weights.contains("rope.freqs")) architecture.rotary = Rotary::kMixed;
  if (architecture.attention_pool) {
    architecture.pool_hidden = require(weights, "attn_pool.mlp.fc1.weight", 2).size(0);
    while (weights.contains(concat("attn_pool.blocks.", architecture.pool_depth, ".norm1.weight")))
      ++architecture.pool_depth;
  }
  return architecture;
}

void require_same(const Architecture& weights, const Architecture& named, const std::string& name) {
  std::vector<std::string> differences;
  for (const Field& field : fields()) {
    const bool may_differ = field.key == "position_grid" || field.key == "position_steps" ||
                            field.key == "norm" || field.key == "fc_norm";
    if (field.shown && !may_differ && !field.same(weights, named))
      differences.push_back(
          concat(field.what, " ", field.text(weights), " instead of ", field.text(named)));
  }
  if ((weights.block == BlockKind::kParallelScaling) !=
      (named.block == BlockKind::kParallelScaling))
    differences.push_back(concat("blocks of the kind ", word_for(kBlockKinds, weights.block),
                                 " instead of ", word_for(kBlockKinds, named.block)));
  if (!differences.empty())
    throw DataError(concat("wrong weights for ", name, ": they have ", join(differences, ", "),
                           "; choose the preset or architecture that they were trained with"));
}

namespace {

// The keys that recipes have had from the start, whatever their values.
constexpr std::array<std::string_view, 11> kAlwaysWritten = {
    "patch",     "width",       "depth",    "heads",         "mlp_hidden",      "class_token",
    "registers", "layer_scale", "qkv_bias", "position_grid", "prefix_positions"};

template <class T>
const WordTable<T>& words();
template <>
const WordTable<Activation>& words() {
  return kActivations;
}
template <>
const WordTable<BlockKind>& words() {
  return kBlockKinds;
}
template <>
const WordTable<Rotary>& words() {
  return kRotaries;
}
template <>
const WordTable<Resampling>& words() {
  return kResamplings;
}

std::string text_of(std::int64_t value) {
  return std::to_string(value);
}
std::string text_of(bool value) {
  return value ? "1" : "0";
}
std::string text_of(double value) {
  return exact(value);
}
template <class T>
std::string text_of(T value) {
  return word_for(words<T>(), value);
}

bool parse(const std::string& text, std::int64_t& value) {
  return parse_int(text, value) && value >= 0;
}
bool parse(const std::string& text, bool& value) {
  value = text == "1";
  return text == "0" || text == "1";
}
bool parse(const std::string& text, double& value) {
  return parse_double(text, value);
}
template <class T>
bool parse(const std::string& text, T& value) {
  const auto found = value_for(words<T>(), text);
  if (found) value = *found;
  return found.has_value();
}

Json json_of(const Field& field, const Architecture& architecture) {
  return std::visit(
      [&](auto member) -> Json {
        const auto value = architecture.*member;
        if constexpr (std::is_arithmetic_v<decltype(value)>)
          return value;
        else
          return text_of(value);
      },
      field.member);
}

}  // namespace

std::string Field::text(const Architecture& architecture) const {
  return std::visit([&](auto at) { return text_of(architecture.*at); }, member);
}

void Field::set(Architecture& architecture, const std::string& text) const {
  if (!std::visit([&](auto at) { return parse(text, architecture.*at); }, member))
    throw DataError(concat("'", key, "=", text, "' is no value of this field"));
}

const Field* find_field(std::string_view key) {
  const auto found = std::ranges::find(fields(), key, &Field::key);
  return found == fields().end() ? nullptr : &*found;
}

Json to_json(const Architecture& architecture) {
  const Architecture usual;
  Json json;
  for (const std::string_view key : kAlwaysWritten)
    json[std::string(key)] = json_of(*find_field(key), architecture);
  json["norm"] = architecture.norm && architecture.fc_norm ? "norm+fc_norm"
                 : architecture.fc_norm                    ? "fc_norm"
                 : architecture.norm                       ? "norm"
                                                           : "none";
  for (const Field& field : fields()) {
    const std::string key(field.key);
    if (!json.contains(key) && key != "fc_norm" && !field.same(architecture, usual))
      json[key] = json_of(field, architecture);
  }
  return json;
}

Architecture architecture_from_json(const Json& json) {
  Architecture architecture;
  for (const auto& [key, value] : json.items()) {
    if (key == "norm") {
      const std::string norms = value.is_string() ? value.get<std::string>() : "";
      architecture.norm = norms.starts_with("norm");
      architecture.fc_norm = norms.ends_with("fc_norm");
      continue;
    }
    const Field* field = find_field(key);
    if (field == nullptr) throw DataError(concat("an architecture has no field '", key, "'"));
    field->set(architecture, value.is_boolean()  ? text_of(value.get<bool>())
                             : value.is_string() ? value.get<std::string>()
                                                 : value.dump());
  }
  return architecture;
}

std::string value_text(const Architecture& architecture, std::string_view key) {
  const Field& field = *find_field(key);
  return concat("its ", field.what, " (", key, " ", field.text(architecture), ")");
}

std::optional<std::string> beyond_engines(const Architecture& architecture) {
  const Architecture usual;
  for (const Field& field : fields())
    if (!field.engines && !field.same(architecture, usual))
      return value_text(architecture, field.key);
  return std::nullopt;
}

}  // namespace coldframe::vit
