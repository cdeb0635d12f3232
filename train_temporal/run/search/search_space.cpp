#include "train_temporal/run/search/search_space.h"

#include <algorithm>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "train_temporal/run/options/train_rows.h"

namespace coldframe::temporal {
namespace {

constexpr std::uint64_t kSearchStream = 0x736561726368;  // "search": apart from the fits' keys

// The rows that --search draws, of a model and a fit that outlive it.
struct SearchedRows {
  SearchedRows(ModelConfig& config, FitOptions& fit) {
    add_model(rows_, config);
    add_fit(rows_, fit);
    for (const ValueRow* row : rows_.searched()) {
      std::string name = row->name;
      std::ranges::replace(name, '-', '_');
      all.emplace_back(std::move(name), row);
    }
  }
  std::vector<std::pair<std::string, const ValueRow*>> all;

 private:
  OptionRows rows_;
};

}  // namespace

void Setting::apply(ModelConfig& config, FitOptions& fit) const {
  for (const auto& [name, row] : SearchedRows(config, fit).all) row->assign(values.at(name));
}

Setting setting_of(ModelConfig config, FitOptions fit) {
  Setting setting;
  for (const auto& [name, row] : SearchedRows(config, fit).all) setting.values[name] = row->value();
  return setting;
}

std::vector<Setting> draw_settings(ModelConfig config, FitOptions fit, std::size_t count,
                                   std::uint64_t seed) {
  const Setting given = setting_of(config, fit), standard = setting_of({}, {});
  const SearchedRows rows(config, fit);
  std::vector<Setting> settings = {given};
  for (std::uint64_t number = 1; number < count; ++number) {
    CounterRandom random({seed, kSearchStream, number});
    Setting drawn;
    for (const auto& [name, row] : rows.all) {
      const Json value = (*row->draw)(random);
      const Json& own = given.values.at(name);
      const bool reads = row->reader == nullptr || config.architecture->*row->reader;
      drawn.values[name] = reads && own == standard.values.at(name) ? value : own;
    }
    if (std::ranges::find(settings, drawn) == settings.end()) settings.push_back(drawn);
  }
  if (settings.size() > 1 || count < 2) return settings;
  std::vector<std::string> names;
  for (const auto& [name, row] : rows.all) names.push_back(concat("--", row->name));
  throw ConfigError(
      concat("--search has nothing left to search: the options name all that it would draw; leave "
             "some of ",
             join(names, ", "), " out, or --search"));
}

}  // namespace coldframe::temporal
