// One verb of coldframe-cache.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/cli/cli.h"
#include "common/files/json.h"
#include "common/text/table.h"

namespace coldframe::cache::tool {

struct Command {
  const char* name;
  const char* words;    // the bare words that it takes: "PATH", "A B", "OUT A…" (one A or more)
  const char* example;  // what may stand behind the verb
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments);  // returns the exit code
};

extern const Command kDiffCommand, kExportCommand, kFinishCommand, kImportCommand, kInfoCommand,
    kLsCommand, kMergeCommand, kPackCommand, kProgressCommand, kPruneCommand, kReportCommand,
    kShowCommand, kStatsCommand, kVerifyCommand;

// Every verb takes its bare words, and --json.
struct VerbOptions {
  std::vector<std::string> words;
  bool json = false;
  const std::string& path() const { return words.front(); }
};
// False when help was asked for and has been printed. `more`: the verb's own options.
bool parse_verb(const Command& command, const std::vector<std::string>& arguments,
                VerbOptions& options, const boost::program_options::options_description& more = {});

inline constexpr const char* kOverwriteHelp = "replace files that are there";

void print_json(const Json& json);

void print_table(const TextRows& rows);

// Minimum, quartiles and so on of values (which are sorted for it); null when there are none.
using Fractions = std::vector<std::pair<const char*, double>>;
Json quantiles(std::vector<double> values, const Fractions& at);
// "0.12 to 3.40 s, median 1.00 s" of quantiles that have min, median and max; "unknown" of null.
std::string range_text(const Json& spread, int digits, const char* unit);

}  // namespace coldframe::cache::tool
