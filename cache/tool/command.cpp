#include "cache/tool/command.h"

#include <algorithm>
#include <iostream>

#include "common/cli/error.h"
#include "common/numbers/quantile.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {

bool parse_verb(const Command& command, const std::vector<std::string>& arguments,
                VerbOptions& options, const boost::program_options::options_description& more) {
  namespace po = boost::program_options;
  const std::string verb = concat("coldframe cache ", command.name);
  const std::string usage = concat(verb, " ", command.words, " [options]");
  po::options_description description("Options");
  description.add(more);
  description.add_options()("words", po::value(&options.words)->value_name(command.words),
                            "the same as bare words")("json", po::bool_switch(&options.json),
                                                      "print JSON instead of text");
  if (!parse_command_line({usage, command.summary, concat(verb, " ", command.example)}, description,
                          arguments, "words"))
    return false;
  const std::string words = command.words;
  const std::size_t least = split(words, ' ').size();
  const bool open_end = words.ends_with("…");
  if (options.words.size() < least || (!open_end && options.words.size() > least))
    throw ConfigError(
        concat(plural(options.words.size(), "word"), " where ", open_end ? "at least " : "", least,
               least == 1 && !open_end ? " was" : " were", " expected. Usage: ", usage));
  return true;
}

void print_json(const Json& json) {
  std::cout << json.dump(2) << '\n';
}

void print_table(const TextRows& rows) {
  write_table(rows, std::cout);
}

Json quantiles(std::vector<double> values, const Fractions& at) {
  if (values.empty()) return nullptr;
  std::sort(values.begin(), values.end());
  Json json = Json::object();
  for (const auto& [name, fraction] : at) json[name] = quantile(values, fraction);
  return json;
}

std::string range_text(const Json& spread, int digits, const char* unit) {
  if (spread.is_null()) return "unknown";
  const auto value = [&](const char* name) { return fixed(spread[name].get<double>(), digits); };
  if (spread["min"] == spread["max"]) return value("min") + unit;
  return concat(value("min"), " to ", value("max"), unit, ", median ", value("median"), unit);
}

}  // namespace coldframe::cache::tool
