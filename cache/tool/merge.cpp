#include "cache/maintain/merge.h"

#include "cache/tool/command.h"
#include "cache/tool/exams/filter.h"
#include "common/cli/log.h"
#include "common/cli/option_rows.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

std::vector<OptionRow> leave_out_options(MergeOptions& how) {
  return {{"without-thumbnails", nullptr, flag(how.without_thumbnails),
           "leave out the frames' small JPEGs, for instance before the cache is given away"},
          {"without-cut", nullptr, flag(how.without_cut),
           "leave out what `extract --cut` stored: the features alone are some 200 times smaller"}};
}

Json report_json(const std::string& path, const MergeReport& report) {
  Json json{{"path", path},
            {"exams", report.exams},
            {"failures", report.failures},
            {"duplicates", report.duplicates},
            {"renumbered", report.renumbered},
            {"conflicts", Json::array()}};
  for (const MergeConflict& conflict : report.conflicts)
    json["conflicts"].push_back(Json{{"exam", conflict.exam},
                                     {"kept", conflict.kept.string()},
                                     {"other", conflict.other.string()},
                                     {"differences", conflict.differences}});
  return json;
}

int write_merged(const VerbOptions& options, const MergeOptions& how) {
  const std::vector<std::filesystem::path> inputs(options.words.begin() + 1, options.words.end());
  const MergeReport report = merge_caches(locate(options.path()), inputs, how);
  if (options.json) print_json(report_json(options.path(), report));
  for (const std::string& line : conflict_lines(report.conflicts))
    log_warning(concat("the first is kept: ", line));
  log_info(concat(
      options.path(), ": ", plural(report.exams, "exam"), ", ", plural(report.failures, "failure"),
      report.duplicates == 0 ? ""
                             : concat("; ", plural(report.duplicates, "exam"), " more than once"),
      report.renumbered ? "; places in the input collided and were numbered anew" : ""));
  return 0;
}

int run_merge(const Verb& verb, const std::vector<std::string>& arguments) {
  static const WordTable<Prefer> kPreferences = {{"first", Prefer::kFirst},
                                                 {"newest", Prefer::kNewest}};
  VerbOptions options;
  MergeOptions how;
  GivenWords given;
  boost::program_options::options_description more;
  const std::vector<OptionRow> rows = {
      {"prefer", "WHICH", one_of(how.prefer, kPreferences),
       "for exams that the caches have with different columns, times or features: first keeps what "
       "the cache that is named first has, newest the higher revision (else nothing is "
       "merged)"},
      {"prefix", "A,B",
       parsed(how.prefixes, [](const std::string& word) { return split(word, ','); }),
       "put these before the names of exams and patients, one for each cache in their order: "
       "site1-,site2-"}};
  const std::vector<OptionRow> left_out = leave_out_options(how);
  describe_options(rows, given, more);
  describe_options(left_out, given, more);
  if (!parse_verb(verb, arguments, options, more)) return 0;
  set_options(rows, given);
  set_options(left_out, given);
  return write_merged(options, how);
}

int run_pack(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  MergeOptions how;
  GivenWords given;
  std::vector<std::string> where;
  boost::program_options::options_description more;
  more.add_options()("where",
                     boost::program_options::value(&where)->composing()->value_name("CONDITION"),
                     kWhereHelp);
  const std::vector<OptionRow> left_out = leave_out_options(how);
  describe_options(left_out, given, more);
  if (!parse_verb(verb, arguments, options, more)) return 0;
  set_options(left_out, given);
  if (!where.empty()) how.only = select_ids(options.words[1], where);
  return write_merged(options, how);
}

}  // namespace

const Verb kMergeCommand{
    &kCache,
    "merge",
    "OUT A B…",
    "all.h5 site1.cache site2.h5 --prefix site1-,site2-",
    "caches of one recipe become one file; where they differ in an exam, it says how and asks",
    run_merge};
const Verb kPackCommand{
    &kCache,
    "pack",
    "OUT PATH",
    "x.h5 x.cache",
    "a folder of shards becomes one file, without superseded revisions; or a copy of some exams",
    run_pack};

}  // namespace coldframe::cache::tool
