#include "train_temporal/run/named_caches.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "cache/format/layout.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {

namespace {

namespace fs = std::filesystem;

bool is_there(const std::string& words) {
  std::error_code error;
  const cache::Location location = cache::locate(words);
  return fs::exists(location.path, error) || fs::exists(location.shard_folder(), error);
}

fs::path place_of(const fs::path& path) {
  std::error_code error;
  return fs::weakly_canonical(path, error);
}

}  // namespace

bool names_stream(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) || letter == '-' || letter == '_' || letter == '+';
  });
}

std::vector<NamedCache> named_caches(const std::string& words) {
  std::vector<NamedCache> caches;
  std::optional<std::string> unnamed;
  for (const std::string& word : split(words, ',')) {
    const std::size_t equals = word.find('=');
    const std::string name = equals == word.npos ? "" : trim(word.substr(0, equals));
    if (names_stream(name))
      caches.push_back({name, trim(word.substr(equals + 1))});
    else
      unnamed = word;
  }
  if (caches.empty() || is_there(words)) return {{"", words}};
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(concat("--cache ", words, ": ", why));
  };
  if (caches.size() == 1 && !unnamed)
    refuse(concat("there is no such cache, and as NAME=PATH it names one stream, ",
                  caches.front().name, "; expected two or more, or the path alone"));
  if (unnamed)
    refuse(concat("'", *unnamed,
                  "' has no name; expected NAME=PATH for every cache, where a path "
                  "has no comma, or one path alone"));
  for (std::size_t i = 0; i < caches.size(); ++i) {
    if (caches[i].path.empty()) refuse(concat("the stream ", caches[i].name, " has no path"));
    for (std::size_t j = 0; j < i; ++j) {
      if (caches[j].name == caches[i].name)
        refuse(concat("the stream ", caches[i].name, " is named twice"));
      if (place_of(caches[j].path) == place_of(caches[i].path))
        refuse(concat("the streams ", caches[j].name, " and ", caches[i].name,
                      " are one cache; give each its own"));
    }
  }
  std::ranges::sort(caches, {}, &NamedCache::name);
  return caches;
}

}  // namespace coldframe::temporal
