#include "cache/tool/command.h"

#include <algorithm>
#include <iostream>

#include "common/numbers/quantile.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {

// Each verb stands next to what it does.
extern const Verb kDiffCommand, kExportCommand, kFinishCommand, kImportCommand, kInfoCommand,
    kLsCommand, kMergeCommand, kPackCommand, kProgressCommand, kPruneCommand, kReportCommand,
    kShowCommand, kStatsCommand, kVerifyCommand;

namespace {

const Verb* const kVerbs[] = {&kLsCommand,     &kShowCommand,   &kInfoCommand,     &kStatsCommand,
                              &kVerifyCommand, &kDiffCommand,   &kMergeCommand,    &kPackCommand,
                              &kPruneCommand,  &kFinishCommand, &kProgressCommand, &kExportCommand,
                              &kImportCommand, &kReportCommand};

}  // namespace

const Command kCache{
    "cache",
    "Usage: coldframe cache VERB PATH … [options]\n\n"
    "Looks into a cache of features: a .h5 file, or a folder of shards.",
    "`coldframe cache VERB --help` says more.\n\nExample:\n  coldframe cache info x.h5", kVerbs};

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
