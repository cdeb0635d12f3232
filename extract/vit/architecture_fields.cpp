#include <array>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/architecture.h"

namespace coldframe::vit {

namespace {

using A = Architecture;

constexpr std::array kFields = std::to_array<Field>({
    // key, what, shown by names and shapes, computed by the engines, member
    {"patch", "patch size", true, true, &A::patch},
    {"width", "width", true, true, &A::width},
    {"depth", "depth", true, true, &A::depth},
    {"heads", "heads", false, true, &A::heads},
    {"mlp_hidden", "MLP width", true, true, &A::mlp_hidden},
    {"class_token", "class tokens", true, true, &A::class_token},
    {"registers", "registers", true, true, &A::registers},
    {"layer_scale", "layer scale", true, true, &A::layer_scale},
    {"qkv_bias", "qkv bias", true, true, &A::qkv_bias},
    {"position_grid", "position grid", true, true, &A::position_grid},
    {"prefix_positions", "prefix positions", true, true, &A::prefix_positions},
    {"norm", "final norm", true, true, &A::norm},
    {"fc_norm", "norm behind averaging", true, true, &A::fc_norm},
    {"resampling", "resampling of positions", false, true, &A::resampling},
    {"parallel", "parallel branches", true, false, &A::parallel},
    {"pool_hidden", "width of the attention pooling's MLP", true, true, &A::pool_hidden},
    {"patch_bias", "bias of the patch embedding", true, true, &A::patch_bias},
    {"patch_norm", "norm of the patch embedding", true, true, &A::patch_norm},
    {"positions", "absolute positions", true, true, &A::positions},
    {"relative_positions", "relative positions", true, true, &A::relative_positions},
    {"norm_pre", "norm before the blocks", true, true, &A::norm_pre},
    {"projection_bias", "bias of the projections", true, true, &A::projection_bias},
    {"qk_norm", "normalised queries and keys", true, true, &A::qk_norm},
    {"attention_norm", "normalised attention output", true, true, &A::attention_norm},
    {"gated_mlp", "gated MLP", true, true, &A::gated_mlp},
    {"mlp_norm", "normalised MLP", true, true, &A::mlp_norm},
    {"rms_norm", "RMS norms", true, true, &A::rms_norm},
    {"attention_pool", "attention pooling", true, true, &A::attention_pool},
    {"activation", "activation", false, true, &A::activation},
    {"block", "kind of block", false, false, &A::block},
    {"norm_epsilon", "epsilon of the norms", false, true, &A::norm_epsilon},
    {"rotary", "rotary positions", false, true, &A::rotary},
    {"rotary_half", "layout of the rotary positions", false, true, &A::rotary_half},
    {"rotary_xy", "order of the rotary axes", false, true, &A::rotary_xy},
    {"rotary_temperature", "rotary temperature", false, true, &A::rotary_temperature},
    {"rotary_offset", "rotary offset", false, true, &A::rotary_offset},
    {"rotary_grid", "rotary grid", false, true, &A::rotary_grid},
    {"pool_heads", "heads of the attention pooling", false, true, &A::pool_heads},
    {"pool_activation", "activation of the attention pooling", false, true, &A::pool_activation},
    {"pool_prefix", "prefix tokens in the attention pooling", false, true, &A::pool_prefix},
});

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

std::span<const Field> fields() {
  return kFields;
}

const Field* find_field(std::string_view key) {
  const auto found = std::ranges::find(kFields, key, &Field::key);
  return found == kFields.end() ? nullptr : &*found;
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
  for (const Field& field : kFields) {
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

std::optional<std::string> beyond_engines(const Architecture& architecture) {
  const Architecture usual;
  for (const Field& field : kFields)
    if (!field.engines && !field.same(architecture, usual))
      return concat("its ", field.what, " (", field.key, " ", field.text(architecture), ")");
  return std::nullopt;
}

}  // namespace coldframe::vit
