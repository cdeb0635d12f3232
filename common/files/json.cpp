#include "common/files/json.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

constexpr std::size_t kMaxDepth = 64;
// ordered_json looks every key up by going through them all; more would take hostile text minutes.
constexpr std::size_t kMaxKeys = 4096;
constexpr std::size_t kMaxSortedKeys = 131072;
constexpr std::uint64_t kMaxJsonBytes = 64ull << 20;

// Walks the text once and only looks: nesting and duplicate keys, which the parser itself would let
// through (the last of two equal keys wins silently).
class Inspector : public nlohmann::json_sax<Json> {
 public:
  Inspector(std::string_view what, std::size_t max_keys) : what_(what), max_keys_(max_keys) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    enter();
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return leave();
  }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      throw DataError(concat(what_, ": the key '", name, "' occurs twice in one object"));
    }
    if (keys_.back().size() > max_keys_) {
      throw DataError(concat(what_, ": an object with more than ", max_keys_, " keys"));
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string why = error.what();  // it repeats the text
    throw DataError(concat(what_, " is not valid JSON at byte ", position, ": ",
                           is_valid_utf8(why) ? why : "bytes that are not UTF-8"));
  }

 private:
  bool enter() {
    if (++depth_ > kMaxDepth) {
      throw DataError(concat(what_, ": JSON is nested deeper than ", kMaxDepth, " levels"));
    }
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  std::string_view what_;
  std::size_t max_keys_;
  std::size_t depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

nlohmann::json sorted(const Json& value) {
  if (value.is_object()) {
    nlohmann::json object = nlohmann::json::object();  // a std::map, hence sorted by key
    for (const auto& [key, item] : value.items()) object[key] = sorted(item);
    return object;
  }
  if (value.is_array()) {
    nlohmann::json array = nlohmann::json::array();
    for (const Json& item : value) array.push_back(sorted(item));
    return array;
  }
  return nlohmann::json(value);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  Inspector inspector(what, kMaxKeys);
  Json::sax_parse(text.begin(), text.end(), &inspector);
  return Json::parse(text.begin(), text.end());
}

Json read_json_file(const std::filesystem::path& path) {
  return parse_json(read_text_file(path, kMaxJsonBytes), path.string());
}

Json read_sorted_json_file(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, kMaxJsonBytes), what = path.string();
  Inspector inspector(what, kMaxSortedKeys);
  Json::sax_parse(text.begin(), text.end(), &inspector);
  // A std::map looks keys up quickly, and is copied as a whole.
  return Json(nlohmann::json::parse(text.begin(), text.end()));
}

std::string canonical_json(const Json& value) {
  return sorted(value).dump();
}

std::string shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return concat(value.get<double>());
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(shown(part));
  return concat("[", join(parts, ", "), "]");
}

Json json_number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

}  // namespace coldframe
