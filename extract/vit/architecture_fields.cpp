#include <algorithm>
#include <array>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/architecture.h"

namespace coldframe::vit {

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
