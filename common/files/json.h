// JSON with the order of keys kept (nlohmann::ordered_json), and the few rules that we add to it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace coldframe {

using Json = nlohmann::ordered_json;

// Parses `text`; throws DataError naming `what`. Duplicate keys, comments and nesting deeper than
// 64 are refused.
Json parse_json(std::string_view text, std::string_view what);
Json read_json_file(const std::filesystem::path& path);
// For files of others that hold long tables: objects of up to 131072 keys (4096 in the others),
// which come out sorted by key.
Json read_sorted_json_file(const std::filesystem::path& path);

// One spelling for equal content: keys sorted, no white space. The input of every digest.
std::string canonical_json(const Json& value);

// A value as people read it: text without quotes, numbers with up to six significant digits. Files
// keep the exact ones.
std::string shown(const Json& value);

// A double that JSON can carry: NaN and infinities become null.
Json json_number(double value);

}  // namespace coldframe
