#include "train_temporal/commands/list/differing_options.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "train_temporal/commands/flat_config.h"

namespace coldframe::temporal {
namespace {

constexpr std::array kLeftOut = {"coldframe",
                                 "torch",
                                 "recipe",
                                 "targets",
                                 "target",
                                 "name",
                                 "folds",
                                 "seeds",
                                 "data_digest",
                                 "cache_digest",
                                 "feature_digest",
                                 "threads_per_fit",
                                 "device_seconds_per_step"};

constexpr std::array kFollowing = {"architecture", "clock_width"};  // of the model

KeyValues options_of(Json config) {
  if (!config.is_object()) return {};
  for (const char* key : kLeftOut) config.erase(key);
  if (const auto model = config.find("model"); model != config.end() && model->is_object())
    for (const char* key : kFollowing) model->erase(key);
  return flat_config(std::move(config));
}

}  // namespace

DifferingOptions differing_options(const std::vector<Json>& configs) {
  DifferingOptions found;
  std::map<std::string, std::vector<std::string>> values;  // by run
  std::vector<std::string> names;
  for (std::size_t run = 0; run < configs.size(); ++run) {
    for (const auto& [name, value] : options_of(configs[run])) {
      const auto [entry, is_new] = values.try_emplace(name, configs.size());
      if (is_new) names.push_back(name);
      entry->second[run] = value;
    }
  }
  found.values.resize(configs.size());
  for (const std::string& name : names) {
    const std::vector<std::string>& by_run = values.at(name);
    if (std::ranges::count(by_run, by_run.front()) == std::ssize(by_run)) continue;
    found.names.push_back(name);
    for (std::size_t run = 0; run < by_run.size(); ++run) found.values[run].push_back(by_run[run]);
  }
  return found;
}

}  // namespace coldframe::temporal
