#include "train_temporal/run/options/rows.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

namespace po = boost::program_options;

// Hundredths, and two significant digits: settings are read by people.
double evenly(CounterRandom& random, double low, double high) {
  return std::round(100 * (low + (high - low) * random.uniform())) / 100;
}
double by_logarithm(CounterRandom& random, double low, double high) {
  const double value = low * std::pow(high / low, random.uniform());
  const double scale = std::pow(10, 1 - std::floor(std::log10(value)));  // a whole number: exact
  return std::round(value * scale) / scale;
}

}  // namespace

Json Draw::operator()(CounterRandom& random) const {
  if (!choices.empty()) return choices[random.below(choices.size())];
  return by_logarithm ? temporal::by_logarithm(random, low, high) : evenly(random, low, high);
}

ValueRow& OptionRows::parsed(const char* name, const char* placeholder, SetOption take,
                             const std::string& help) {
  ValueRow& row = rows_.emplace_back();
  row.name = name;
  row.value_name = placeholder;
  row.set = std::move(take);
  row.help = help;
  row.group = group_;
  return row;
}

ValueRow& OptionRows::toggle(const char* name, bool& place, const std::string& help) {
  return parsed(name, nullptr, flag(place), help).written([&place] { return Json(place); });
}

ValueRow& OptionRows::names(const char* name, std::vector<std::string>& value,
                            const std::string& help) {
  const auto take = [&value](const std::string& option, const std::string& word) {
    for (const std::string& one : split(word, ',')) {
      value.push_back(trim(one));
      if (value.back().empty())
        throw ConfigError(
            concat("--", option, ": expected names of columns with commas between them"));
    }
  };
  return parsed(name, "A,B", take, help).written([&value] { return Json(value); });
}

po::options_description OptionRows::description() {
  const auto those = [&](const std::string& caption, auto wanted) {
    po::options_description some(caption);
    for (const ValueRow& row : rows_)
      if (wanted(row)) describe_option(row, words_, some);
    return some;
  };
  std::vector<std::string> groups;
  for (const ValueRow& row : rows_)
    if (std::ranges::find(groups, row.group) == groups.end()) groups.push_back(row.group);
  if (groups.size() == 1) return those(groups.front(), [](auto&) { return true; });
  po::options_description all;
  all.add(those("Most used options", [](const ValueRow& row) { return row.used_most; }));
  for (const std::string& group : groups)
    all.add(those(group, [&](auto& row) { return row.group == group && !row.used_most; }));
  return all;
}

bool OptionRows::parse(const CommandHelp& help, const std::vector<std::string>& arguments) {
  if (!parse_command_line(help, description(), arguments, "", &given_)) return false;
  for (const ValueRow& row : rows_) {
    const auto found = words_.find(row.name);
    if (found == words_.end()) continue;
    if (!row.words.empty()) choice(row.name, found->second, row.words);
    row.set(row.name, found->second);
  }
  return true;
}

bool OptionRows::asks(const ValueRow& row) const {
  return !row.shown.empty() && row.value ? row.value() != row.standard : given(row.name);
}

void OptionRows::require(std::string_view name) const {
  const auto row = std::ranges::find(rows_, name, &ValueRow::name);
  if (row->value() == row->standard)
    throw ConfigError(concat("--", name, " is missing; see --help"));
}

void OptionRows::check_companions() const {
  for (const ValueRow& row : rows_) {
    if (row.companion == nullptr || given(row.companion) || !asks(row)) continue;
    throw ConfigError(concat("--", row.name, " is for --", row.companion, ' ', row.companion_value,
                             "; give both, or neither"));
  }
}

void OptionRows::refuse(const std::vector<std::string>& names, const std::string& why) const {
  for (const std::string& name : names)
    if (given(name)) throw ConfigError(concat("--", name, ' ', why, "; leave it out"));
}

void OptionRows::check_files(std::vector<NamedInput> inputs, bool overwrite) const {
  std::vector<NamedOutput> outputs;
  for (const ValueRow& row : rows_) {
    if (row.is_input) inputs.push_back({concat("--", row.name), row.value().get<std::string>()});
    if (!row.output) continue;
    outputs.push_back(*row.output);
    outputs.back().path = row.value().get<std::string>();
  }
  check_outputs(outputs, inputs, overwrite_said(overwrite));
}

std::optional<std::string> OptionRows::ini(const std::vector<std::string>& but) const {
  std::string text;
  for (const ValueRow& row : rows_) {
    if (!given(row.name) || std::ranges::find(but, row.group) != but.end()) continue;
    const Json value = row.value ? row.value() : Json("");
    const bool typed = value.is_number() || value.is_boolean();
    const auto line = ini_line(row.name, typed ? value.dump() : word_of(words_, row.name));
    if (!line) return std::nullopt;
    text += *line;
  }
  return text;
}

std::vector<const ValueRow*> OptionRows::searched() const {
  std::vector<const ValueRow*> drawn;
  for (const ValueRow& row : rows_)
    if (row.draw) drawn.push_back(&row);
  std::ranges::sort(drawn, {}, &ValueRow::draw_place);
  return drawn;
}

void OptionRows::write(const std::string& part, Json& json) const {
  const std::string prefix = part + ".";
  for (const ValueRow& row : rows_)
    if (row.key.starts_with(prefix)) json[row.key.substr(prefix.size())] = row.value();
}

}  // namespace coldframe::temporal
