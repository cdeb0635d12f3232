// The checks of `coldframe doctor`: the state of each subject in one line, and what to do about it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/system/job.h"

namespace coldframe {

struct Check {
  std::string subject;     // "memory"
  std::string found;       // "15.6 GiB, of which 12.1 GiB are available"
  std::string to_do = {};  // "": nothing
  bool stops = false;      // extract and train cannot run here before that is done
};

// {"subject", "found", "to_do", "stops"}; nlohmann's own conversion of lists finds it.
void to_json(Json& json, const Check& check);
Check check_of(const Json& json);

// "AMD EPYC 9654 96-Core Processor", as Linux names it.
std::string processor_name();

// `root`: of the file system (resources.h).
Check check_memory(const Environment& environment, const std::filesystem::path& root = "/");
Check check_processors(const Environment& environment, const std::filesystem::path& root = "/");

// A line for each GPU that the NVIDIA driver sees, or one that says why there is none.
std::vector<Check> check_gpus(const std::filesystem::path& root = "/");

// Makes a folder, and in it a lock, as a job would, and removes both.
Check check_folder(const std::string& subject, const std::filesystem::path& folder);

}  // namespace coldframe
