#include "cache/tool/command.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "common/cli.h"
#include "common/error.h"
#include "common/text.h"

namespace coldframe::cache {
namespace {

// Continuation bytes of UTF-8 take no room on the terminal.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// What came from a file must not steer the terminal.
std::string printable(std::string text) {
  for (char& character : text)
    if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f) character = ' ';
  return text;
}

}  // namespace

bool parse_verb(const Command& command, const std::vector<std::string>& arguments,
                VerbOptions& options) {
  namespace po = boost::program_options;
  const std::string verb = concat("coldframe cache ", command.name);
  po::options_description description("Options");
  description.add_options()("cache", po::value(&options.path)->value_name("PATH"),
                            "the cache: a .h5 file or a folder of shards")(
      "json", po::bool_switch(&options.json), "print JSON instead of text");
  if (!parse_command_line({concat(verb, " PATH [--json]"), command.summary, concat(verb, " x.h5")},
                          description, arguments, "cache"))
    return false;
  if (options.path.empty())
    throw ConfigError(concat("which cache? Usage: ", verb, " PATH [--json]"));
  return true;
}

void print_json(const Json& json) {
  std::cout << json.dump(2) << '\n';
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width_of(printable(row[i])));
  }
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = printable(row[i]);
      line += cell + std::string(widths[i] - width_of(cell) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
  }
}

Json quantiles(std::vector<double> values, const std::vector<std::pair<const char*, double>>& at) {
  if (values.empty()) return nullptr;
  std::sort(values.begin(), values.end());
  Json json = Json::object();
  for (const auto& [name, fraction] : at) {  // linear between neighbours, as numpy's default
    const double position = fraction * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const double above = values[std::min(below + 1, values.size() - 1)];
    json[name] = values[below] + (position - std::floor(position)) * (above - values[below]);
  }
  return json;
}

}  // namespace coldframe::cache
