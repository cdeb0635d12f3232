#include "extract/vit/config/json_values.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

// nullptr where the key is missing or null.
const Json* find_value(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void refuse(const char* key, const Json& value, const char* expected) {
  throw DataError(concat("'", key, "' is ", value.dump().substr(0, 60), ", expected ", expected));
}

// In doubles, since numbers beyond 64 bits would wrap around.
bool is_whole(const Json& value) {
  return value.is_number_integer() && value.get<double>() >= 0 && value.get<double>() <= 1'000'000;
}

}  // namespace

std::optional<std::int64_t> whole_number(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!is_whole(*value)) refuse(key, *value, "a whole number from 0 to 1000000");
  return value->get<std::int64_t>();
}

std::optional<double> number(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key, *value, "a number");
  return value->get<double>();
}

std::optional<double> fraction(const Json& object, const char* key) {
  const auto value = number(object, key);
  if (value && !(*value > 0 && *value <= 1)) refuse(key, object[key], "more than 0 and at most 1");
  return value;
}

std::optional<double> epsilon(const Json& object, const char* key) {
  const auto value = number(object, key);
  if (value && !(*value > 0 && *value < 1)) refuse(key, object[key], "more than 0 and less than 1");
  return value;
}

std::optional<bool> truth(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> word(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, *value, "text");
  return value->get<std::string>();
}

bool lists(const Json& object, const char* key, std::string_view word) {
  const Json* value = find_value(object, key);
  return value != nullptr && value->is_array() &&
         std::ranges::find(*value, Json(word)) != value->end();
}

std::optional<std::array<float, 3>> channels(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() != 1 && list.size() != 3) refuse(key, *value, "one number or three");
  std::array<float, 3> result{};
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& channel = list[list.size() == 1 ? 0 : i];
    if (!channel.is_number()) refuse(key, *value, "one number or three");
    result[i] = static_cast<float>(channel.get<double>());
    if (!std::isfinite(result[i])) refuse(key, *value, "finite numbers");
  }
  return result;
}

std::optional<std::array<float, 3>> deviations(const Json& object, const char* key) {
  const auto values = channels(object, key);
  if (values && std::ranges::any_of(*values, [](float value) { return value <= 0; }))
    refuse(key, object[key], "numbers above 0");
  return values;
}

std::optional<std::int64_t> side(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr || !value->is_array()) return whole_number(object, key);
  if (value->size() != 2 || !is_whole((*value)[0]) || (*value)[0] != (*value)[1])
    refuse(key, *value,
           "a whole number from 0 to 1000000, or two equal ones: weights whose own positions or "
           "patches "
           "are oblong are not supported");
  return (*value)[0].get<std::int64_t>();
}

Json inner(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return Json::object();
  if (!value->is_object()) refuse(key, *value, "an object");
  return *value;
}

}  // namespace coldframe::vit
