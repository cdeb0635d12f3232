#include <iostream>

#include "cache/read/reader.h"
#include "cache/tool/columns.h"
#include "cache/tool/command.h"
#include "cache/tool/figures/overview.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMostFailures = 10;  // in the text; JSON has them all

void print_info(const Json& info) {
  print_table(overview_rows(info));
  TextRows rows = column_rows(info["columns"]);
  if (!rows.empty()) std::cout << "\ncolumns\n";
  print_table(rows);
  rows.clear();
  for (const Json& failure : info["failures"])
    if (rows.size() < kMostFailures)
      rows.push_back(
          {"  " + failure["exam"].get<std::string>(), failure["reason"].get<std::string>()});
  if (!rows.empty()) std::cout << "\nfailures\n";
  print_table(rows);
  if (info["failures"].size() > rows.size())
    std::cout << "  … and " << info["failures"].size() - rows.size() << " more (--json has all)\n";
  std::cout << "\nrecipe\n";
  rows.clear();
  for (auto& [key, value] : recipe_rows(info["recipe"])) rows.push_back({"  " + key, value});
  rows.push_back({"  feature digest", info["feature_digest"].get<std::string>()});
  rows.push_back({"  cache digest", info["cache_digest"].get<std::string>()});
  print_table(rows);
}

int run_info(const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(kInfoCommand, arguments, options)) return 0;
  const CacheReader cache(options.path(), Detail::kWithoutSources);
  const Json info = describe_cache(cache, options.path());
  options.json ? print_json(info) : print_info(info);
  return 0;
}

}  // namespace

const Command kInfoCommand{
    "info", "PATH", "x.h5",
    "what the cache holds and how it was made: exams, times, columns, failures, recipe", run_info};

}  // namespace coldframe::cache::tool
