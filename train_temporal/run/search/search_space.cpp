#include "train_temporal/run/search/search_space.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/cli/error.h"
#include "common/threads/counter_random.h"

namespace coldframe::temporal {
namespace {

constexpr std::uint64_t kSearchStream = 0x736561726368;  // "search": apart from the fits' keys
constexpr std::array<std::int64_t, 3> kHidden = {32, 64, 128};
constexpr std::array kPools = {TemporalPool::kMean, TemporalPool::kAttention, TemporalPool::kLast};

// Hundredths, and two significant digits: settings are read by people.
double between(CounterRandom& random, double low, double high) {
  return std::round(100 * (low + (high - low) * random.uniform())) / 100;
}
double by_logarithm(CounterRandom& random, double low, double high) {
  const double value = low * std::pow(high / low, random.uniform());
  const double scale = std::pow(10, 1 - std::floor(std::log10(value)));  // a whole number: exact
  return std::round(value * scale) / scale;
}

Setting draw(CounterRandom random) {
  Setting setting;
  setting.hidden = kHidden[random.below(kHidden.size())];
  setting.pool = kPools[random.below(kPools.size())];
  setting.dropout = between(random, 0, 0.6);
  setting.noise = between(random, 0, 1);
  setting.learning_rate = by_logarithm(random, 5e-4, 5e-3);
  setting.weight_decay = by_logarithm(random, 1e-3, 0.1);
  return setting;
}

// visit(name in files, member of Setting, its place in a model's and a fit's options) of each
// member.
template <typename Visit>
void for_members(Visit visit) {
  visit(
      "hidden", &Setting::hidden, [](auto& config, auto&) -> auto& { return config.hidden; });
  visit(
      "temporal_pool", &Setting::pool, [](auto& config, auto&) -> auto& { return config.pool; });
  visit(
      "dropout", &Setting::dropout, [](auto& config, auto&) -> auto& { return config.dropout; });
  visit(
      "noise", &Setting::noise, [](auto&, auto& fit) -> auto& { return fit.noise; });
  visit(
      "lr", &Setting::learning_rate, [](auto&, auto& fit) -> auto& { return fit.learning_rate; });
  visit(
      "weight_decay", &Setting::weight_decay,
      [](auto&, auto& fit) -> auto& { return fit.weight_decay; });
}

Json json_of(TemporalPool pool) {
  return word_of(pool);
}
template <typename Number>
Json json_of(Number number) {
  return number;
}

}  // namespace

void Setting::apply(ModelConfig& config, FitOptions& fit) const {
  for_members([&](auto, auto member, auto place) { place(config, fit) = this->*member; });
}

Setting setting_of(const ModelConfig& config, const FitOptions& fit) {
  Setting setting;
  for_members([&](auto, auto member, auto place) { setting.*member = place(config, fit); });
  return setting;
}

Json to_json(const Setting& setting) {
  Json json;
  for_members([&](auto name, auto member, auto) { json[name] = json_of(setting.*member); });
  return json;
}

std::vector<Setting> draw_settings(const ModelConfig& config, const FitOptions& fit,
                                   std::size_t count, std::uint64_t seed) {
  const Setting given = setting_of(config, fit), standard = setting_of({}, {});
  std::vector<Setting> settings = {given};
  for (std::uint64_t number = 1; number < count; ++number) {
    Setting drawn = draw(CounterRandom({seed, kSearchStream, number}));
    for_members([&](auto, auto member, auto) {
      if (given.*member != standard.*member) drawn.*member = given.*member;
    });
    if (!config.architecture->ordered) drawn.pool = given.pool;
    if (std::ranges::find(settings, drawn) == settings.end()) settings.push_back(drawn);
  }
  if (settings.size() > 1 || count < 2) return settings;
  throw ConfigError(
      "--search has nothing left to search: the options name all that it would draw; leave some of "
      "--hidden, --temporal-pool, --dropout, --noise, --lr and --weight-decay out, or --search");
}

}  // namespace coldframe::temporal
