// coldframe-cache VERB PATH: looks into a cache. Links neither LibTorch nor OpenCV, so that it
// starts in milliseconds.
#include <iostream>

#include "cache/tool/command.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/suggestion.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

const Command* const kCommands[] = {
    &kLsCommand,       &kShowCommand,   &kInfoCommand,   &kStatsCommand, &kVerifyCommand,
    &kDiffCommand,     &kMergeCommand,  &kPackCommand,   &kPruneCommand, &kFinishCommand,
    &kProgressCommand, &kExportCommand, &kImportCommand, &kReportCommand};

void print_help() {
  std::cout << "Usage: coldframe cache VERB PATH … [options]\n\n"
               "Looks into a cache of features: a .h5 file, or a folder of shards.\n\nVerbs:\n";
  for (const Command* command : kCommands)
    std::cout << "  " << padded(command->name, 10) << command->summary << '\n';
  std::cout
      << "\n`coldframe cache VERB --help` says more.\n\nExample:\n  coldframe cache info x.h5\n";
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    print_help();
    return static_cast<int>(arguments.empty() ? ExitCode::kUsage : ExitCode::kDone);
  }
  std::vector<std::string> names;
  for (const Command* command : kCommands) {
    if (arguments[0] == command->name)
      return command->run({arguments.begin() + 1, arguments.end()});
    names.push_back(command->name);
  }
  throw ConfigError(
      concat("unknown verb '", arguments[0], "'; there are ", known_words(names, arguments[0])));
}

}  // namespace
}  // namespace coldframe::cache::tool

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, coldframe::cache::tool::run);
}
