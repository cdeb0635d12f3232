#include "common/cli/option_rows.h"

namespace coldframe {

namespace po = boost::program_options;

std::string Bounds::text() const {
  const bool has_least = std::isfinite(least), has_most = std::isfinite(most);
  std::string text =
      !has_least && !has_most ? "a number"
      : above    ? concat("more than ", least, has_most ? concat(" and at most ", most) : "")
      : has_most ? concat(least, " to ", most)
                 : concat(least, " or more");
  return *unit ? concat(text, " ", unit) : text;
}

void describe_options(const std::vector<OptionRow>& rows, GivenWords& given,
                      po::options_description& description) {
  for (const OptionRow& row : rows) {
    const std::string name = row.name;
    if (row.value_name == nullptr) {
      description.add_options()(row.name, po::bool_switch()->notifier([&given, name](bool on) {
        if (on) given[name] = "";
      }),
                                row.help.c_str());
      continue;
    }
    auto* value = po::value<std::string>()->value_name(row.value_name);
    if (!row.word_alone.empty()) value->implicit_value(row.word_alone);
    const bool takes_empty = row.set.refuses_empty;  // and refuses it by its name
    value->notifier([&given, name, takes_empty](const std::string& word) {
      if (!word.empty() || takes_empty) given[name] = word;
    });
    description.add_options()(row.name, value, row.help.c_str());
  }
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

void refuse_number(const std::string& option, const std::string& word, const Bounds& bounds) {
  throw ConfigError(
      concat("--", option, " ", word.empty() ? "''" : word, ": expected ", bounds.text()));
}

}  // namespace coldframe
