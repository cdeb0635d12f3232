#include "common/cli/option_rows.h"

namespace coldframe {

namespace po = boost::program_options;

static std::string plain(double value) {
  return value == std::floor(value) ? concat(static_cast<std::int64_t>(value)) : exact(value);
}

std::string NumberBounds::text() const {
  const bool has_least = std::isfinite(least), has_most = std::isfinite(most);
  const std::string low = plain(has_least ? least : 0), high = plain(has_most ? most : 0);
  std::string text = !has_least && !has_most ? "a number"
                     : above && below        ? concat("more than ", low, " and less than ", high)
                     : above    ? concat("more than ", low, has_most ? " and at most " + high : "")
                     : below    ? concat(low, " or more and less than ", high)
                     : has_most ? concat(low, " to ", high)
                                : low + " or more";
  if (or_zero) text = "0, or " + text;
  return *unit ? concat(text, " ", unit) : text;
}

void describe_option(const OptionRow& row, GivenWords& given,
                     po::options_description& description) {
  const std::string name = row.name;
  if (row.value_name == nullptr) {
    description.add_options()(row.name, po::bool_switch()->notifier([&given, name](bool on) {
      if (on) given[name] = "";
    }),
                              row.help.c_str());
    return;
  }
  auto* value = po::value<std::string>()->value_name(row.value_name);
  if (!row.word_alone.empty()) value->implicit_value(row.word_alone);
  if (!row.shown.empty()) value->default_value(row.shown);
  const bool takes_empty = row.set.refuses_empty;  // and refuses it by its name
  value->notifier([&given, name, takes_empty](const std::string& word) {
    if (!word.empty() || takes_empty) given[name] = word;
  });
  description.add_options()(row.name, value, row.help.c_str());
}

void describe_options(const std::vector<OptionRow>& rows, GivenWords& given,
                      po::options_description& description) {
  for (const OptionRow& row : rows) describe_option(row, given, description);
}

void set_options(const std::vector<OptionRow>& rows, const GivenWords& given) {
  for (const OptionRow& row : rows)
    if (const auto found = given.find(row.name); found != given.end())
      row.set(row.name, found->second);
}

std::string word_of(const GivenWords& given, std::string_view option) {
  const auto found = given.find(option);
  return found == given.end() ? "" : found->second;
}

std::optional<std::string> ini_line(const std::string& option, const std::string& word) {
  if (word.find_first_of("#\n") != std::string::npos || word != trim(word)) return std::nullopt;
  return concat(option, " = ", word, "\n");
}

std::optional<std::string> ini_text(const std::vector<OptionRow>& rows, const GivenWords& given) {
  std::string text;
  for (const OptionRow& row : rows) {
    const auto found = given.find(row.name);
    if (found == given.end() || row.set.is_local) continue;
    const auto line = ini_line(row.name, row.value_name ? found->second : "true");
    if (!line) return std::nullopt;
    text += *line;
  }
  return text;
}

std::string local_names(const std::vector<OptionRow>& rows, const GivenWords& given) {
  std::vector<std::string> names;
  for (const OptionRow& row : rows)
    if (row.set.is_local && given.contains(row.name)) names.push_back(concat("--", row.name));
  return join(names, ", ");
}

void refuse_number(const std::string& option, const std::string& word, const NumberBounds& bounds) {
  throw ConfigError(
      concat("--", option, " ", word.empty() ? "''" : word, ": expected ", bounds.text()));
}

}  // namespace coldframe
