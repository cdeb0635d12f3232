// coldframe-cache VERB PATH: looks into a cache. Links neither LibTorch nor OpenCV, so that it
// starts in milliseconds.
#include "cache/tool/command.h"

namespace coldframe::cache::tool {
namespace {

const Verb* const kVerbs[] = {&kLsCommand,     &kShowCommand,   &kInfoCommand,     &kStatsCommand,
                              &kVerifyCommand, &kDiffCommand,   &kMergeCommand,    &kPackCommand,
                              &kPruneCommand,  &kFinishCommand, &kProgressCommand, &kExportCommand,
                              &kImportCommand, &kReportCommand};

int run(const std::vector<std::string>& arguments) {
  return run_verb(kCache, arguments);
}

}  // namespace

const Command kCache{
    "cache",
    "Usage: coldframe cache VERB PATH … [options]\n\n"
    "Looks into a cache of features: a .h5 file, or a folder of shards.",
    "`coldframe cache VERB --help` says more.\n\nExample:\n  coldframe cache info x.h5", kVerbs};

}  // namespace coldframe::cache::tool

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, coldframe::cache::tool::run);
}
