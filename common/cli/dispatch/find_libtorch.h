// Finds LibTorch before a program that needs it starts: what is wrong is then said in one sentence
// of ours instead of one of the dynamic loader.
#pragma once

#include <filesystem>
#include <string>

namespace coldframe {

// A program must run with the minor release of LibTorch that it was compiled with: inline functions
// and the layout of tensors change from one to the next. An installation holds programs for several
// (lib/coldframe/torch-2.11, …); a build folder has those of one beside `coldframe`.
struct LibTorch {
  std::filesystem::path folder;    // of the torch package, with lib/libtorch_cpu.so
  std::string version;             // "2.11.0+cu130"; empty where the package does not say
  std::filesystem::path programs;  // the folder of the program that was compiled with it
};

// The first LibTorch that this Coldframe has programs for, and lets them find it:
// the one that COLDFRAME_LIBTORCH names, no other; else that beside an installed Coldframe (or of a
// build folder); that which Python would import (COLDFRAME_PYTHON_TORCH, set by the Python
// package); those of `coldframe setup`, of all users (lib/coldframe/libtorch) and of this one
// ($XDG_CACHE_HOME/coldframe or ~/.cache/coldframe), the newest first.
// ConfigError for a named folder without LibTorch; SystemError where none is found, or none of a
// version that this Coldframe has programs for.
LibTorch find_libtorch();

// The folder in which this program lies. SystemError where the system does not tell.
std::filesystem::path own_folder();

}  // namespace coldframe
