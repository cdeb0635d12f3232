#include "common/system/library.h"

#include <filesystem>

namespace coldframe {

void* find_in_library(const char* library, const char* name, std::string& problem) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  problem = "this build has none";
  // Installed programs lie in bin, libraries in lib; test programs lie in build/tests, libraries in
  // build/bin.
  const auto above = folder.parent_path();
  for (const auto& path :
       {folder / library, above / "lib/coldframe" / library, above / "bin" / library}) {
    if (!std::filesystem::exists(path, error)) continue;
    void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (void* const found = opened ? dlsym(opened, name) : nullptr) return found;
    problem = dlerror();
  }
  return nullptr;
}

}  // namespace coldframe
