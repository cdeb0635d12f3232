#include <iostream>

#include "cache/store/lock.h"
#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/overview.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMaxFailures = 10;  // in the text; JSON has them all

std::string at_work(const std::vector<std::string>& writers) {
  return concat("a job is at work (", join(writers, ", "), ")");
}

// A job in its first minute has a lock, but no file.
int tell_of_first_job(const std::string& path, const std::vector<std::string>& writers, bool json) {
  if (json)
    print_json(Json{{"path", path}, {"files", 0}, {"exams", 0}, {"writers", writers}});
  else
    print_table({{"cache", path + " (no file yet)"},
                 {"exams", "0; the first ones appear after about a minute"},
                 {"writers", at_work(writers)}});
  return 0;
}

void print_info(const Json& info) {
  TextRows overview = overview_rows(info);
  if (!info["writers"].empty())
    overview.push_back({"writers", at_work(info["writers"].get<std::vector<std::string>>())});
  print_table(overview);
  TextRows rows = column_rows(info["columns"]);
  if (!rows.empty()) std::cout << "\ncolumns\n";
  print_table(rows);
  rows.clear();
  for (const Json& failure : info["failures"])
    if (rows.size() < kMaxFailures)
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

// Prints lines for `extract --config`. The first ones name the options that they lack.
int print_options(const CacheReader& cache, const std::string& path, bool json) {
  const std::string options = cache.recipe().note("options"),
                    weights = cache.recipe().note("weights");
  if (options.empty())
    throw DataError(concat("'", path,
                           "' does not say with which options it was extracted: it was "
                           "imported, joined, or made with an option that no file for --config "
                           "can hold; see its recipe with `coldframe cache "
                           "info ",
                           shell_word(path), "`"));
  const std::string text =
      concat("# coldframe extract --config THIS",
             weights.empty() ? "" : ", with the weights " + weights, "\n", options);
  if (json)
    print_json({{"options", text}});
  else
    std::cout << text;
  return 0;
}

int run_info(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  bool as_options = false;
  boost::program_options::options_description more;
  more.add_options()("options", boost::program_options::bool_switch(&as_options),
                     "print the options of `extract` that it was made with, for --config");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const Location location = locate(options.path());
  const std::vector<std::string> writers = writers_at_work(location);
  if (!writers.empty() && location.files().empty())
    return tell_of_first_job(options.path(), writers, options.json);
  const CacheReader cache(options.path(), Detail::kWithoutSources);
  if (as_options) return print_options(cache, options.path(), options.json);
  Json info = describe_cache(cache, options.path());
  info["writers"] = writers;
  options.json ? print_json(info) : print_info(info);
  return 0;
}

}  // namespace

extern const Verb kInfoCommand;
const Verb kInfoCommand{
    &kCache,
    "info",
    "PATH",
    "x.h5",
    "what the cache holds and how it was made: exams, times, columns, failures, recipe",
    run_info};

}  // namespace coldframe::cache::tool
