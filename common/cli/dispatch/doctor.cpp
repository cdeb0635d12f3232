#include "common/cli/dispatch/doctor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "common/cli/cli.h"
#include "common/cli/dispatch/find_libtorch.h"
#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/system/checks.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;

std::string origin_of(const LibTorch& libtorch) {
  std::error_code error;
  if (const char* const name = std::getenv("COLDFRAME_LIBTORCH"); name && *name)
    return "COLDFRAME_LIBTORCH names it";
  if (libtorch.folder == fs::weakly_canonical(own_folder() / "../../torch", error))
    return "beside Coldframe";
  if (const char* const python = std::getenv("COLDFRAME_PYTHON_TORCH");
      python && libtorch.folder == python)
    return "that of this Python";
  if (libtorch.programs != own_folder()) return "of `coldframe setup`";
  return "of the build folder";
}

// Nothing if no LibTorch fits; `check` then says why.
std::optional<LibTorch> look_for_libtorch(Check& check) {
  try {
    LibTorch found = find_libtorch();
    check.found = concat(found.version.empty() ? "of unknown version" : found.version, " in ",
                         found.folder.string(), ", ", origin_of(found));
    return found;
  } catch (const Error& error) {
    check = {check.subject, "none that Coldframe can use", error.what(), /*stops=*/true};
    return {};
  }
}

// The output of `PROGRAM extract doctor`, standard error included; "" if it cannot be started.
std::string ask(const fs::path& program) {
  ::setenv("COLDFRAME_ASKED", program.c_str(), 1);  // the shell takes a variable's value as it is
  FILE* const pipe = ::popen("\"$COLDFRAME_ASKED\" extract doctor 2>&1", "r");
  if (!pipe) return "";
  std::string text;
  for (int letter; (letter = std::fgetc(pipe)) != EOF;) text += static_cast<char>(letter);
  ::pclose(pipe);
  return trim(text);
}

// Its last line is the answer; what stands before it is talk.
std::vector<Check> checks_in(const std::string& text) {
  std::vector<Check> checks;
  for (const Json& each : parse_json(text.substr(text.rfind('\n') + 1), "its answer"))
    checks.push_back(check_of(each));
  return checks;
}

std::vector<Check> unknown_until(const std::string& reason) {
  std::vector<Check> checks;
  for (const char* subject : {"CPU engine", "HDF5", "FFmpeg", "OpenCV"})
    checks.push_back({subject, concat("unknown until ", reason)});
  return checks;
}

std::vector<Check> check_programs(const std::optional<LibTorch>& libtorch) {
  if (!libtorch) return unknown_until("LibTorch is there");
  const fs::path program = libtorch->programs / "coldframe-train_temporal";
  const std::string text = ask(program);
  try {
    return checks_in(text);
  } catch (const std::exception&) {
    std::vector<Check> checks = unknown_until("that program starts");
    checks.insert(checks.begin(),
                  {"programs", concat(program.string(), " does not start"),
                   concat(text.empty() ? "it says nothing" : text.substr(0, text.find('\n')),
                          "; install what is missing there, as common/bootstrap does, take the "
                          "wheel, which has it, or raise the limit that is in the way (ulimit -v)"),
                   /*stops=*/true});
    return checks;
  }
}

std::vector<Check> check_all() {
  std::error_code error;
  std::vector<Check> checks = {
      {"Coldframe", concat(kVersion, " in ", own_folder().string())},
      {"processor", processor_name()},
      check_processors(from_environment),
      check_memory(from_environment),
  };
  const auto add = [&](const std::vector<Check>& more) {
    checks.insert(checks.end(), more.begin(), more.end());
  };
  add(check_gpus());
  Check libtorch{"LibTorch", ""};
  const std::optional<LibTorch> found = look_for_libtorch(libtorch);
  add({libtorch});
  add(check_programs(found));
  const char* const named = std::getenv("TMPDIR");
  add({check_folder("temporary folder", named && *named ? named : "/tmp"),
       check_folder("this folder", fs::current_path(error))});
  return checks;
}

void print_text(const std::vector<Check>& checks) {
  TextRows rows;
  std::vector<std::string> stopping;
  for (const Check& check : checks) {
    rows.push_back({check.subject, check.found});
    if (!check.to_do.empty()) rows.push_back({"", concat("-> ", check.to_do)});
    if (check.stops) stopping.push_back(check.subject);
  }
  write_table(rows, std::cout);
  std::cout << (stopping.empty()
                    ? "Coldframe can extract and train here.\n"
                    : concat("Coldframe cannot extract and train here before this is done: ",
                             join(stopping, ", "), ".\n"));
}

}  // namespace

int doctor(const std::vector<std::string>& arguments) {
  bool json = false;
  boost::program_options::options_description options("Options");
  options.add_options()("json", boost::program_options::bool_switch(&json),
                        "print JSON instead of text");
  const CommandHelp help{"coldframe doctor [options]",
                         "Says whether Coldframe will run here, a line for each subject, and what "
                         "to do where something is missing or slow. Exit code 1 where extract or "
                         "train cannot run yet.",
                         "coldframe doctor"};
  if (!parse_command_line(help, options, arguments)) return static_cast<int>(ExitCode::kDone);
  const std::vector<Check> checks = check_all();
  const bool ready = std::ranges::none_of(checks, &Check::stops);
  if (json)
    std::cout << Json{{"ready", ready}, {"checks", checks}}.dump(2) << '\n';
  else
    print_text(checks);
  return static_cast<int>(ready ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

}  // namespace coldframe
