#include "cache/maintain/merge.h"

#include "cache/tool/command.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

// merge and pack differ in how many caches they take.
int run(const Command& command, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  bool without_thumbnails = false;
  po::options_description more;
  more.add_options()("without-thumbnails", po::bool_switch(&without_thumbnails),
                     "leave out the frames' small JPEGs, for instance before the cache is given "
                     "away");
  if (!parse_verb(command, arguments, options, more)) return 0;
  const std::vector<std::filesystem::path> inputs(options.words.begin() + 1, options.words.end());
  const MergeReport report = merge_caches(locate(options.path()), inputs, without_thumbnails);
  if (options.json)
    print_json(Json{{"path", options.path()},
                    {"exams", report.exams},
                    {"failures", report.failures},
                    {"duplicates", report.duplicates},
                    {"renumbered", report.renumbered}});
  log_info(concat(
      options.path(), ": ", plural(report.exams, "exam"), ", ", plural(report.failures, "failure"),
      report.duplicates == 0 ? ""
                             : concat("; ", plural(report.duplicates, "exam"), " more than once"),
      report.renumbered ? "; places in the input collided and were numbered anew" : ""));
  return 0;
}

int run_merge(const std::vector<std::string>& arguments) {
  return run(kMergeCommand, arguments);
}
int run_pack(const std::vector<std::string>& arguments) {
  return run(kPackCommand, arguments);
}

}  // namespace

const Command kMergeCommand{"merge", "OUT A B…", "all.h5 site1.cache site2.h5",
                            "caches of one recipe become one file", run_merge};
const Command kPackCommand{"pack", "OUT PATH", "x.h5 x.cache",
                           "a folder of shards becomes one file, without superseded revisions",
                           run_pack};

}  // namespace coldframe::cache::tool
