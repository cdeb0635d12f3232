#include "common/cli/dispatch/find_libtorch.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtorch_cpu.so";
constexpr const char* kVariable = "COLDFRAME_LIBTORCH";
constexpr const char* kCompiledWith = COLDFRAME_TORCH_VERSION;  // "2.11"
constexpr const char* kProgram = "coldframe-train_temporal";

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

struct Programs {
  std::string version;  // of LibTorch: "2.11"
  fs::path folder;
};

// The program folders of an installation, the newest LibTorch first.
std::vector<Programs> installed_programs() {
  constexpr std::string_view kPrefix = "torch-";
  std::vector<Programs> found;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(own_folder().parent_path() / "lib/coldframe", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix) && fs::exists(entry.path() / kProgram, error))
      found.push_back({name.substr(kPrefix.size()), fs::weakly_canonical(entry.path(), error)});
  }
  std::ranges::sort(found, [](const Programs& a, const Programs& b) {
    return natural_less(b.version, a.version);
  });
  return found;
}

std::string text_of(const std::vector<Programs>& programs) {
  std::vector<std::string> versions;
  for (const Programs& one : programs) versions.push_back(one.version);
  std::ranges::reverse(versions);
  return join(versions, ", ");
}

fs::path cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  return (cache && *cache ? fs::path(cache) : fs::path(home ? home : "/") / ".cache") / "coldframe";
}

constexpr const char* kRemedy =
    "; run `coldframe setup`, which puts one that fits into a folder of its own, or name the "
    "folder of a torch package that fits in COLDFRAME_LIBTORCH";

LibTorch of_installation(const std::vector<Programs>& installed) {
  std::vector<fs::path> looked;
  if (const char* const name = std::getenv(kVariable); name && *name) {
    looked.push_back(named_by_user(name));
  } else {
    looked.push_back(found_by_loader());
    if (const char* const python = std::getenv("COLDFRAME_PYTHON_TORCH"))
      looked.emplace_back(python);
    for (const fs::path& setup :
         {own_folder().parent_path() / "lib/coldframe/libtorch", cache_folder()})
      for (const Programs& one : installed)
        looked.push_back(setup / ("torch-" + one.version) / "torch");
  }
  std::vector<std::string> others;
  std::error_code error;
  for (const fs::path& folder : looked) {
    if (folder.empty() || !fs::exists(folder / "lib" / kLibrary, error)) continue;
    const std::string version = version_of(folder);
    for (const Programs& one : installed)
      if (version.starts_with(one.version + ".")) return {folder, version, one.folder};
    const std::string other = concat("torch ", version.empty() ? "of unknown version" : version,
                                     " in '", fs::weakly_canonical(folder, error).string(), "'");
    if (std::ranges::find(others, other) == others.end()) others.push_back(other);
  }
  if (others.empty())
    throw SystemError(
        concat("there is no LibTorch; this Coldframe runs with ", text_of(installed), kRemedy));
  throw SystemError(concat("there is ", join(others, ", "), ", but this Coldframe runs with torch ",
                           text_of(installed), kRemedy));
}

// Programs beside `coldframe` find the LibTorch that they were linked with themselves.
LibTorch of_build_folder() {
  const fs::path found = found_by_loader();
  if (found.empty())
    throw SystemError(concat("there is no LibTorch ", kCompiledWith, "; run common/bootstrap"));
  const char* const name = std::getenv(kVariable);
  if (name && *name && named_by_user(name) != found)
    throw ConfigError(concat(kVariable, " names '", named_by_user(name).string(),
                             "', but this Coldframe takes the LibTorch in '", found.string(),
                             "'; unset ", kVariable));
  return {found, version_of(found), own_folder()};
}

void add_to_library_path(const std::string& folder) {
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  ::setenv("LD_LIBRARY_PATH", (before && *before ? concat(folder, ":", before) : folder).c_str(),
           1);
}

}  // namespace

fs::path own_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) throw SystemError(concat("cannot find my own program file: ", error.message()));
  return self.parent_path();
}

LibTorch find_libtorch() {
  const std::vector<Programs> installed = installed_programs();
  if (installed.empty()) return of_build_folder();
  LibTorch found = of_installation(installed);
  add_to_library_path((found.folder / "lib").string());
  return found;
}

}  // namespace coldframe
