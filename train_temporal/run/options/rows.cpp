#include "train_temporal/run/options/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/cli/error.h"
#include "common/cli/option_rows.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

namespace po = boost::program_options;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string plain(double value) {
  return value == std::floor(value) ? concat(static_cast<std::int64_t>(value)) : exact(value);
}

// Hundredths, and two significant digits: settings are read by people.
double evenly(CounterRandom& random, double low, double high) {
  return std::round(100 * (low + (high - low) * random.uniform())) / 100;
}
double by_logarithm(CounterRandom& random, double low, double high) {
  const double value = low * std::pow(high / low, random.uniform());
  const double scale = std::pow(10, 1 - std::floor(std::log10(value)));  // a whole number: exact
  return std::round(value * scale) / scale;
}

void add_to(po::options_description& description, const OptionRow& row) {
  description.add_options()(row.name.c_str(), row.semantic(row), row.help.c_str());
}

}  // namespace

Range between(double low, double high) {
  return {low, high, concat(plain(low), " to ", plain(high))};
}
Range at_least(double low) {
  return {low, kInfinity, concat(plain(low), " or more")};
}
Range more_than(double low) {
  return {std::nextafter(low, kInfinity), kInfinity, concat("more than ", plain(low))};
}
Range below_one() {
  return {0, std::nextafter(1, 0), "0 or more and less than 1"};
}
Range share(double margin) {
  if (margin > 0)
    return {margin, 1 - margin,
            concat("a number between 0 and 1, no nearer to them than ", plain(margin))};
  return {std::nextafter(0, 1), std::nextafter(1, 0), "a number between 0 and 1"};
}
Range or_zero(Range range) {
  range.or_zero = true;
  range.text = "0, or " + range.text;
  return range;
}

void require_in(const Range& range, const std::string& option, double value) {
  if (!range.has(value)) throw ConfigError(concat("--", option, ": expected ", range.text));
}

Json Draw::operator()(CounterRandom& random) const {
  if (!choices.empty()) return choices[random.below(choices.size())];
  return by_logarithm ? temporal::by_logarithm(random, low, high) : evenly(random, low, high);
}

OptionRow& OptionRows::add(const std::string& name, const std::string& help) {
  OptionRow& row = rows_.emplace_back();
  row.name = name;
  row.group = group_;
  row.help = help;
  return row;
}

OptionRow& OptionRows::number(const std::string& name, std::optional<double>& value,
                              const Range& range, const std::string& help) {
  OptionRow& row = add(name, help);
  row.semantic = [&value, range](const OptionRow& self) {
    return po::value<double>()->value_name("N")->notifier(
        [&value, range, name = self.name](double given) {
          require_in(range, name, given);
          value = given;
        });
  };
  row.value = [&value] { return value ? Json(*value) : Json(); };
  return row;
}

OptionRow& OptionRows::toggle(const std::string& name, bool& value, const std::string& help) {
  OptionRow& row = add(name, help);
  row.semantic = [&value](const OptionRow&) { return po::bool_switch(&value); };
  return row.written([&value] { return Json(value); });
}

OptionRow& OptionRows::parsed_toggle(const std::string& name, std::function<void()> take,
                                     const std::string& help) {
  OptionRow& row = add(name, help);
  row.semantic = [take = std::move(take)](const OptionRow&) {
    return po::bool_switch()->notifier([take](bool given) {
      if (given) take();
    });
  };
  return row;
}

OptionRow& OptionRows::parsed(const std::string& name, const char* placeholder,
                              std::function<void(const std::string&)> take,
                              const std::string& help) {
  OptionRow& row = add(name, help);
  row.semantic = [placeholder, take = std::move(take), &spelt = row.spelt](const OptionRow& self) {
    auto* typed = po::value<std::string>()->value_name(placeholder);
    typed->notifier([take, name = self.name, words = self.words, &spelt](const std::string& given) {
      if (!words.empty()) choice(name, given, words);
      take(given);
      spelt = given;
    });
    if (self.shown) typed->default_value(*self.shown);
    if (self.implied) typed->implicit_value(*self.implied);
    return typed;
  };
  return row;
}

OptionRow& OptionRows::text(const std::string& name, std::string& value, const char* placeholder,
                            const std::string& help) {
  OptionRow& row = parsed(
      name, placeholder, [&value](const std::string& given) { value = given; }, help);
  row.written([&value] { return Json(value); });
  return value.empty() ? row : row.show(value);
}

OptionRow& OptionRows::path(const std::string& name, std::filesystem::path& value,
                            const char* placeholder, const std::string& help) {
  OptionRow& row = parsed(
      name, placeholder, [&value](const std::string& given) { value = given; }, help);
  return row.written([&value] { return Json(value.string()); });
}

OptionRow& OptionRows::names(const std::string& name, std::vector<std::string>& value,
                             const std::string& help) {
  OptionRow& row = parsed(
      name, "A,B",
      [&value, name](const std::string& given) {
        for (const std::string& one : split(given, ',')) {
          value.push_back(trim(one));
          if (value.back().empty())
            throw ConfigError(
                concat("--", name, ": expected names of columns with commas between them"));
        }
      },
      help);
  return row.written([&value] { return Json(value); });
}

po::options_description OptionRows::description() const {
  const auto those = [&](const std::string& caption, auto wanted) {
    po::options_description some(caption);
    for (const OptionRow& row : rows_)
      if (wanted(row)) add_to(some, row);
    return some;
  };
  std::vector<std::string> groups;
  for (const OptionRow& row : rows_)
    if (std::ranges::find(groups, row.group) == groups.end()) groups.push_back(row.group);
  if (groups.size() == 1) return those(groups.front(), [](auto&) { return true; });
  po::options_description all;
  all.add(those("Most used options", [](const OptionRow& row) { return row.used_most; }));
  for (const std::string& group : groups)
    all.add(those(group, [&](auto& row) { return row.group == group && !row.used_most; }));
  return all;
}

bool OptionRows::parse(const CommandHelp& help, const std::vector<std::string>& arguments) {
  return parse_command_line(help, description(), arguments, "", &given_);
}

bool OptionRows::asks(const OptionRow& row) const {
  return row.shown && row.value ? row.value() != row.standard : given(row.name);
}

void OptionRows::require(const char* name) const {
  const auto row = std::ranges::find(rows_, name, &OptionRow::name);
  if (row->value() == row->standard)
    throw ConfigError(concat("--", name, " is missing; see --help"));
}

void OptionRows::check_companions() const {
  for (const OptionRow& row : rows_) {
    if (row.companion == nullptr || given(row.companion) || !asks(row)) continue;
    throw ConfigError(concat("--", row.name, " is for --", row.companion, ' ', row.companion_value,
                             "; give both, or neither"));
  }
}

void OptionRows::refuse(const std::vector<std::string>& names, const std::string& why) const {
  for (const std::string& name : names)
    if (given(name)) throw ConfigError(concat("--", name, ' ', why, "; leave it out"));
}

std::optional<std::string> OptionRows::ini(const std::vector<std::string>& but) const {
  std::string text;
  for (const OptionRow& row : rows_) {
    if (!given(row.name) || std::ranges::find(but, row.group) != but.end()) continue;
    const Json value = row.value ? row.value() : Json("");
    const bool typed = value.is_number() || value.is_boolean();
    const auto line = ini_line(row.name, typed ? value.dump() : row.spelt);
    if (!line) return std::nullopt;
    text += *line;
  }
  return text;
}

std::vector<const OptionRow*> OptionRows::searched() const {
  std::vector<const OptionRow*> drawn;
  for (const OptionRow& row : rows_)
    if (row.draw) drawn.push_back(&row);
  std::ranges::sort(drawn, {}, &OptionRow::draw_place);
  return drawn;
}

void OptionRows::write(const std::string& part, Json& json) const {
  const std::string prefix = part + ".";
  for (const OptionRow& row : rows_)
    if (row.key.starts_with(prefix)) json[row.key.substr(prefix.size())] = row.value();
}

}  // namespace coldframe::temporal
