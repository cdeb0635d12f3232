#include "train_temporal/run/search_space.h"

#include <algorithm>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/run/options.h"

namespace coldframe::temporal {

namespace {

constexpr std::uint64_t kSearchStream = 0x736561726368;  // "search": apart from the fits' keys

// The rows that --search draws, of a choice that outlives it.
struct SearchedRows {
  explicit SearchedRows(ModelChoice& choice) {
    add_kind(rows_, choice);
    add_model(rows_, choice.architecture);
    add_fit(rows_, choice.fit);
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

bool may_draw(const ValueRow& row, const ModelConfig& model, const GivenOptions& stay) {
  if (stay.contains(row.name)) return false;
  if (row.name == std::string("model")) return model.architecture->ordered;
  // Streams may each lack a frame, so that they have no differences.
  if (row.name == std::string("inputs")) return model.can_show_change() && model.streams.empty();
  if (row.name == std::string("temporal-pool") && model.per_frame()) return false;
  return row.reader == nullptr || model.architecture->*row.reader;
}

// The kind that was drawn may lack what other options ask for, or be that of a control.
bool is_possible(const Setting& drawn, ModelChoice choice) {
  drawn.apply(choice);
  set_model(choice.architecture, choice.model);
  if (std::ranges::find(choice.compare, choice.model) != choice.compare.end()) return false;
  return impossible(choice.architecture).empty();
}

}  // namespace

void Setting::apply(ModelChoice& choice) const {
  for (const auto& [name, row] : SearchedRows(choice).all) row->assign(values.at(name));
}

std::vector<Setting> draw_settings(ModelChoice given, const GivenOptions& stay, std::size_t count,
                                   std::uint64_t seed) {
  if (given.model == kAutoModel) given.model = kGru.name;
  const SearchedRows rows(given);
  ModelConfig model = given.architecture;
  set_model(model, given.model);
  std::vector<Setting> settings(1);
  for (const auto& [name, row] : rows.all) settings[0].values[name] = row->value();
  for (std::uint64_t number = 1; number < count; ++number) {
    CounterRandom random({seed, kSearchStream, number});
    Setting drawn = settings[0];
    for (const auto& [name, row] : rows.all) {
      const Json value = (*row->draw)(random);
      if (may_draw(*row, model, stay)) drawn.values[name] = value;
    }
    if (!is_possible(drawn, given)) drawn.values["model"] = given.model;
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
