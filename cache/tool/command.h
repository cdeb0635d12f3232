// One verb of coldframe-cache.
#pragma once

#include <string>
#include <vector>

#include "common/json.h"

namespace coldframe::cache {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments);  // returns the exit code
};

extern const Command kInfoCommand, kLsCommand, kStatsCommand, kVerifyCommand;

// What every verb takes: the path of a cache, and --json.
struct VerbOptions {
  std::string path;
  bool json = false;
};
// False when help was asked for and has been printed.
bool parse_verb(const Command& command, const std::vector<std::string>& arguments,
                VerbOptions& options);

void print_json(const Json& json);

// Rows of text with their columns aligned, two spaces apart.
void print_table(const std::vector<std::vector<std::string>>& rows);

// Minimum, quartiles and so on of values (which are sorted for it); null when there are none.
Json quantiles(std::vector<double> values, const std::vector<std::pair<const char*, double>>& at);

}  // namespace coldframe::cache
