#include "cache/maintain/prune.h"

#include <algorithm>

#include "cache/tool/command.h"
#include "cache/tool/exams/exam_list.h"
#include "cache/tool/exams/filter.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMostUnknownNamed = 20;

std::unordered_set<std::string> chosen_ids(const std::string& path,
                                           const std::vector<std::string>& where,
                                           const std::string& list) {
  if (where.empty() == list.empty())
    throw ConfigError(
        "say which exams go: either --where COLUMN=VALUE, or --exams with a file that names them");
  if (!where.empty()) return select_ids(path, where);
  std::unordered_set<std::string> ids;
  for (const ListedExam& exam : read_exam_list(list).exams) ids.insert(exam.id);
  return ids;
}

void warn_of_unknown(const std::vector<std::string>& unknown) {
  if (unknown.empty()) return;
  const std::size_t shown = std::min(unknown.size(), kMostUnknownNamed);
  log_warning(
      concat("the cache does not have ", plural(unknown.size(), "exam"), " of the list: ",
             join({unknown.begin(), unknown.begin() + static_cast<std::ptrdiff_t>(shown)}, ", "),
             unknown.size() > shown ? ", …" : ""));
}

int run_prune(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::vector<std::string> where;
  std::string list;
  po::options_description more;
  more.add_options()("where", po::value(&where)->composing()->value_name("CONDITION"), kWhereHelp)(
      "exams", po::value(&list)->value_name("FILE"),
      "the exams of this file: ids, one a line, or a CSV with the column exam");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const PruneReport report = prune(locate(options.path()), chosen_ids(options.path(), where, list));
  warn_of_unknown(report.unknown);
  if (options.json)
    print_json(Json{{"path", options.path()},
                    {"exams", report.exams},
                    {"failures", report.failures},
                    {"left", report.left},
                    {"unknown", report.unknown}});
  log_info(concat(options.path(), ": ", plural(report.exams, "exam"), " and ",
                  plural(report.failures, "failure"), " taken out, ", plural(report.left, "exam"),
                  " left; take them out of the input too, or `coldframe extract` adds them again"));
  return 0;
}

}  // namespace

const Verb kPruneCommand{
    &kCache,
    "prune",
    "PATH",
    "x.h5 --where patient=P0042",
    "takes exams out of the cache itself, features, metadata and failures, for good",
    run_prune};

}  // namespace coldframe::cache::tool
