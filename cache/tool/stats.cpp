#include <algorithm>
#include <iostream>

#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/exams.h"
#include "cache/tool/overview.h"
#include "cache/tool/statistics.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMaxValuesListed = 20, kMaxGroupsPrinted = 10;

std::string quantile_text(const Json& quantiles) {
  if (quantiles.is_null()) return "none";
  std::vector<std::string> texts;
  for (const auto& [key, value] : quantiles.items())
    texts.push_back(concat(key, " ", fixed(value.get<double>(), 3)));
  return join(texts, ", ");
}

void add_values(const Json& values, TextRows& rows) {
  if (values.is_null()) return;
  const auto number = [&](const char* key) { return fixed(values[key].get<double>(), 3); };
  rows.push_back({"  values", concat("mean ", number("mean"), ", deviation ", number("deviation"),
                                     ", ", number("min"), " to ", number("max"))});
  rows.push_back({"  deviation of a dimension", quantile_text(values["deviation_of_dimensions"])});
}

void add_near_duplicates(const Json& near, TextRows& rows) {
  rows.push_back(
      {"  near-duplicates",
       concat(near["pairs"].dump(), near["pairs"] == 1 ? " pair" : " pairs",
              " of exams of different patients have mean features with a cosine of at least ",
              near["cosine_at_least"].dump(), " (", compared_exams(near), ")")});
  for (const Json& pair : near["closest"])
    rows.push_back(
        {"", concat(join(pair["exams"], ", "), "  ", fixed(pair["cosine"].get<double>(), 5))});
}

void print_view(const std::string& name, const Json& view) {
  std::cout << "view " << name << '\n';
  TextRows rows;
  for (const char* key :
       {"rows", "missing_rows", "nan_rows", "zero_rows", "duplicate_rows", "dead_dimensions"}) {
    std::string label = key;
    std::replace(label.begin(), label.end(), '_', ' ');
    rows.push_back({"  " + label, view[key].dump()});
  }
  rows.push_back({"  norms", quantile_text(view["norm"])});
  add_values(view["values"], rows);
  rows.push_back(
      {"  effective rank",
       concat(fixed(view["effective_rank"].get<double>(), 1), " (of ", view["sampled_rows"].dump(),
              " frames; exp of the entropy of the singular values, mean removed)")});
  const Json& identical = view["identical_exams"];
  for (std::size_t i = 0; i < std::min(identical.size(), kMaxGroupsPrinted); ++i)
    rows.push_back({"  identical exams", join(identical[i], ", ")});
  if (identical.size() > kMaxGroupsPrinted)
    rows.push_back({"", concat("… and ", identical.size() - kMaxGroupsPrinted, " groups more")});
  add_near_duplicates(view["near_duplicates"], rows);
  print_table(rows);
}

int run_stats(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::vector<std::string> where;
  po::options_description more;
  more.add_options()("where", po::value(&where)->composing()->value_name("CONDITION"), kWhereHelp);
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const CacheReader cache(options.path(), Detail::kWithoutSources);
  const std::vector<std::size_t> exams = select_exams(cache, where);
  Json stats = Json::object();
  stats["exams"] = exams.size();
  stats["views"] = Json::object();
  for (const std::string& view : cache.views())
    stats["views"][view] = gather_statistics(cache, view, exams).finish(cache);
  stats["columns"] = describe_columns(cache, exams, kMaxValuesListed);
  if (options.json) {
    print_json(stats);
    return 0;
  }
  for (const auto& [name, view] : stats["views"].items()) print_view(name, view);
  const TextRows columns = column_rows(stats["columns"]);
  if (!columns.empty()) std::cout << "\ncolumns\n";
  print_table(columns);
  return 0;
}

}  // namespace

extern const Verb kStatsCommand;
const Verb kStatsCommand{&kCache,
                         "stats",
                         "PATH",
                         "x.h5 --where label=covid",
                         "norms, NaN, dead dimensions, effective rank, duplicates, columns",
                         run_stats};

}  // namespace coldframe::cache::tool
