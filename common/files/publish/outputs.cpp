#include "common/files/publish/outputs.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/destination.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

fs::path real_place(const fs::path& path) {
  std::error_code error;
  const fs::path place = fs::weakly_canonical(fs::absolute(path), error);
  const fs::path& known = error ? path : place;
  return known.has_filename() ? known : known.parent_path();
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// One file or folder, by whatever names.
bool is_same(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return real_place(one) == real_place(other) || fs::equivalent(one, other, error);
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const fs::path inner = real_place(path), outer = real_place(folder);
  const auto [end, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end() && rest != inner.end();
}

std::string shown(const NamedOutput& output) {
  return concat(output.option, " '", output.path.string(), "'");
}

// `is_kept`: what is there stays, and is added to.
void check_inputs(const NamedOutput& output, const std::vector<NamedInput>& inputs, bool is_kept) {
  for (const NamedInput& input : inputs) {
    if (input.path.empty()) continue;
    const bool is_replaced = !output.may_stand && is_there(output.path);
    const char* const relation = is_same(output.path, input.path)                  ? " is "
                                 : !is_kept && lies_in(input.path, output.path)    ? " holds "
                                 : is_replaced && lies_in(output.path, input.path) ? " lies in "
                                                                                   : nullptr;
    if (relation == nullptr) continue;
    throw ConfigError(concat(shown(output), relation, input.option, " '", input.path.string(),
                             "', which this command reads; choose another name"));
  }
}

void check_folder(const NamedOutput& output) {
  const fs::path folder = output.path.parent_path();
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return;
  throw ConfigError(concat(shown(output), ": there is no folder '", folder.string(),
                           "'; make it, or choose another name"));
}

// What is added to a name while it is written, ".NAME.HOST-PROCESS-COUNTER.tmp" at the most.
constexpr std::size_t kAddedToNames = 48;

void check_name(const NamedOutput& output) {
  const fs::path target = folder_target(output.path);
  const long most = ::pathconf(target.parent_path().c_str(), _PC_NAME_MAX);
  const std::size_t longest =
      (most > 0 ? static_cast<std::size_t>(most) : NAME_MAX) - kAddedToNames;
  const std::size_t length = target.filename().string().size();
  if (length > longest)
    throw ConfigError(concat(shown(output), ": the name has ", length, " bytes, and ", longest,
                             " have room there, since names of temporary files are longer; choose "
                             "a shorter one"));
  if (target.string().size() + kAddedToNames >= PATH_MAX)
    throw ConfigError(concat(shown(output), ": the path is longer than the system allows"));
}

// True for a stream, which is written to without being replaced.
bool takes_text(const NamedOutput& output) {
  const bool stream = is_stream(link_target(output.path));  // /dev/stdout is a link
  const bool is_file = !output.may_stand && !output.is_folder;
  if (stream && is_file) return true;
  const std::string kind = stream ? "a device or a pipe" : unwritable_kind(output.path);
  if (kind.empty()) return false;
  throw ConfigError(
      concat(shown(output), " is ", kind, ", which cannot be written; choose another name"));
}

// What would be lost, or would fail, when it is replaced.
void check_replaceable(const NamedOutput& output, bool may_stand) {
  struct stat status = {}, above = {};
  const fs::path target = folder_target(output.path);
  if (::stat(target.c_str(), &status) != 0) return;
  if (!may_stand && S_ISREG(status.st_mode) && status.st_nlink > 1)
    throw ConfigError(concat(shown(output), " has ", status.st_nlink, " names (hard links), and ",
                             "the others would keep the old content; remove it first, or choose "
                             "another name"));
  if (S_ISDIR(status.st_mode) && !output.may_stand && !output.is_folder)
    throw ConfigError(concat(shown(output), " is a folder, and a file is to be written; choose ",
                             "another name"));
  const bool mounted = S_ISDIR(status.st_mode) &&
                       ::stat(target.parent_path().c_str(), &above) == 0 &&
                       status.st_dev != above.st_dev;
  if (mounted)
    throw ConfigError(concat(shown(output), " is a mounted file system, which cannot be replaced; ",
                             "name a folder in it"));
}

}  // namespace

void check_outputs(const std::vector<NamedOutput>& outputs, const std::vector<NamedInput>& inputs,
                   Overwrite overwrite) {
  for (const NamedOutput& output : outputs) {
    if (output.path.empty()) continue;
    put_back(output.path);
    const bool may_stand = output.may_stand && output.may_stand(output.path);
    check_inputs(output, inputs, may_stand && overwrite != Overwrite::kSaid);
    for (const NamedOutput& other : outputs)
      if (&other != &output && !other.path.empty() && is_same(output.path, other.path))
        throw ConfigError(
            concat(output.option, " and ", other.option, " name the same file; give each its own"));
    if (takes_text(output)) continue;
    if (!output.may_stand) check_folder(output);
    check_name(output);
    if (overwrite == Overwrite::kSaid) check_replaceable(output, may_stand);
    if (is_there(output.path) && !may_stand && overwrite != Overwrite::kSaid)
      throw ConfigError(
          concat(shown(output), " is there already; choose another name",
                 overwrite == Overwrite::kCannot ? "" : ", or say --overwrite to replace it"));
    remove_stale_temporaries(output.path);
  }
}

}  // namespace coldframe
