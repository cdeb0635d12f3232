#include "common/cli/dispatch/find_libtorch.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtorch_cpu.so";
constexpr const char* kVariable = "COLDFRAME_TORCH";
constexpr const char* kWanted = COLDFRAME_TORCH_VERSION;  // "2.11", of the LibTorch compiled with

// The folders in which the loader looks for this program's libraries. The programs beside it have
// the same rpath (common/cmake/Install.cmake).
std::vector<fs::path> loader_folders() {
  void* const self = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (!self || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  std::vector<std::max_align_t> storage(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const found = reinterpret_cast<Dl_serinfo*>(storage.data());
  *found = size;
  if (::dlinfo(self, RTLD_DI_SERINFO, found) != 0) return {};
  std::vector<fs::path> folders;
  for (unsigned i = 0; i < found->dls_cnt; ++i)
    folders.emplace_back(found->dls_serpath[i].dls_name);
  return folders;
}

// The folder of the torch package that the loader finds; empty if there is none.
fs::path found_by_loader() {
  std::error_code error;
  for (const fs::path& folder : loader_folders()) {
    if (fs::exists(folder / kLibrary, error))
      return fs::weakly_canonical(folder, error).parent_path();
  }
  return {};
}

fs::path named_by_user(const char* name) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(name, error);
  if (fs::exists(folder / "lib" / kLibrary, error)) return folder;
  throw ConfigError(concat(kVariable, " names '", name, "', which holds no lib/", kLibrary,
                           "; name the folder of a torch package, such as site-packages/torch"));
}

// "2.11.0+cu130", as the wheel's version.py or the archive's build-version has it; "" if neither is
// there.
std::string version_of(const fs::path& torch) {
  constexpr std::uint64_t kLimit = 1 << 16;
  constexpr std::string_view kKey = "__version__ = '";
  std::error_code error;
  if (fs::exists(torch / "version.py", error)) {
    const std::string text = read_text_file(torch / "version.py", kLimit);
    const std::size_t at = text.find(kKey);
    if (at == std::string::npos) return "";
    return text.substr(at + kKey.size(), text.find('\'', at + kKey.size()) - at - kKey.size());
  }
  if (!fs::exists(torch / "build-version", error)) return "";
  return trim(read_text_file(torch / "build-version", kLimit));
}

void require_wanted_version(const fs::path& torch) {
  const std::string version = version_of(torch);
  if (version.empty() || version.starts_with(concat(kWanted, "."))) return;
  throw SystemError(concat("torch ", version, " lies in '", torch.string(),
                           "', but this Coldframe needs torch ", kWanted,
                           ": pip install 'torch==", kWanted, ".*'"));
}

void add_to_library_path(const std::string& folder) {
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  ::setenv("LD_LIBRARY_PATH", (before && *before ? concat(folder, ":", before) : folder).c_str(),
           1);
}

}  // namespace

void find_libtorch() {
  const fs::path found = found_by_loader();
  const char* const name = std::getenv(kVariable);
  if (!name || !*name) {
    if (!found.empty()) return require_wanted_version(found);
    throw SystemError(concat("there is no LibTorch: pip install 'torch==", kWanted,
                             ".*' where Coldframe is, or name the folder of a torch package in ",
                             kVariable));
  }
  const fs::path named = named_by_user(name);
  if (!found.empty() && found != named) {
    throw ConfigError(concat(kVariable, " names '", named.string(),
                             "', but this Coldframe takes the LibTorch in '", found.string(),
                             "'; unset ", kVariable));
  }
  require_wanted_version(named);
  add_to_library_path((named / "lib").string());
}

}  // namespace coldframe
