// Values out of a config, with errors that name the key.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "common/files/json.h"

namespace coldframe::vit {

// Nothing where the key is missing or null. DataError: a value of another kind, or out of bounds.
std::optional<std::int64_t> whole_number(const Json& object, const char* key);
std::optional<double> number(const Json& object, const char* key);
// More than 0, and at most (or, for an epsilon, less than) 1.
std::optional<double> fraction(const Json& object, const char* key);
std::optional<double> epsilon(const Json& object, const char* key);
std::optional<bool> truth(const Json& object, const char* key);
std::optional<std::string> word(const Json& object, const char* key);
// True where the list under the key holds the word.
bool lists(const Json& object, const char* key, std::string_view word);
// One finite number for all channels, or three; deviations are more than 0.
std::optional<std::array<float, 3>> channels(const Json& object, const char* key);
std::optional<std::array<float, 3>> deviations(const Json& object, const char* key);
// A number, or a list of two equal ones: a side of square images or patches.
std::optional<std::int64_t> side(const Json& object, const char* key);
// The object under the key, an empty one where there is none.
Json inner(const Json& object, const char* key);

}  // namespace coldframe::vit
