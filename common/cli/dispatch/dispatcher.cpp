// `coldframe COMMAND …` becomes the program of that command, which lies beside this one.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "common/cli/cli.h"
#include "common/cli/dispatch/commands.h"
#include "common/cli/dispatch/doctor.h"
#include "common/cli/dispatch/find_libtorch.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace {

using namespace coldframe;

void print_help(std::ostream& out) {
  out << "Usage: coldframe COMMAND [options]\n\n"
         "Turns sequences of medical images into predictions on a small GPU: a frozen ViT runs\n"
         "once over every frame, and a temporal model trains on the cached features.\n\n"
         "Commands:\n";
  for (const CommandRow& command : kCommands) {
    out << "  " << padded(command.name, 11) << command.summary << "\n";
  }
  out << "\n'coldframe COMMAND --help' lists the options of a command; --version shows the "
         "version.\n";
}

// OpenMP's library reads these as it is loaded. Threads of a team wait asleep unless somebody said
// otherwise: those that spin take the processor from decoders and from other programs. A team is as
// large as it was asked to be: oneDNN leaves out what missing threads would have computed.
void prepare_openmp() {
  ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  ::setenv("OMP_DYNAMIC", "false", /*overwrite=*/1);
}

[[noreturn]] void become(const CommandRow& command, const std::vector<std::string>& rest) {
  std::filesystem::path folder = own_folder();
  if (command.needs_libtorch) {
    folder = find_libtorch().programs;
    prepare_openmp();
  }
  const std::string program = folder / command.program;
  std::vector<std::string> words = {program};
  if (command.passes_name) words.emplace_back(command.name);
  words.insert(words.end(), rest.begin(), rest.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  hold_stop_signals();
  ::execv(program.c_str(), pointers.data());
  throw SystemError(concat("cannot run '", program, "': ", std::strerror(errno),
                           "; build all of Coldframe: its programs belong in one folder"));
}

const CommandRow& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const CommandRow& command : kCommands) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::string near = nearest(name, names);
  throw ConfigError(concat(
      "unknown command '", name, "'; ",
      near.empty() ? "the commands are: " + join(names, ", ") : "did you mean '" + near + "'?"));
}

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_help(std::cerr);
    return static_cast<int>(ExitCode::kUsage);
  }
  if (arguments[0] == "--help" || arguments[0] == "-h" ||
      (arguments[0] == "help" && arguments.size() == 1)) {
    print_help(std::cout);
    return static_cast<int>(ExitCode::kDone);
  }
  if (arguments[0] == "doctor") return doctor({arguments.begin() + 1, arguments.end()});
  if (arguments[0] == "help") become(find_command(arguments[1]), {"--help"});
  become(find_command(arguments[0]), {arguments.begin() + 1, arguments.end()});
}

}  // namespace

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, dispatch);
}
