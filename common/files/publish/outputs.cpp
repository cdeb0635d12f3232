#include "common/files/publish/outputs.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <vector>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/files/file.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/file_calls.h"
#include "common/files/publish/publish.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;            // Linux's own limit (path_resolution(7))
constexpr int kBetweenLooksMs = 50;      // for a reader, or a stop request
constexpr std::size_t kBlock = 1 << 16;  // bytes

// An entry of /proc/PID/fd reads like a link to a file, but is the open file itself.
bool is_descriptor(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(file_calls::folder_of(path), error);
  return !error && folder.filename() == "fd" && folder.string().starts_with("/proc/");
}

mode_t kind_of(const fs::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & S_IFMT : 0;
}

// A name of this process's own descriptor shares its place in the file.
int own_descriptor(const fs::path& path) {
  std::int64_t number = 0;
  std::error_code error;
  const bool own =
      is_descriptor(path) && fs::equivalent(path.parent_path(), "/proc/self/fd", error);
  return own && parse_int(path.filename().string(), number) ? static_cast<int>(number) : -1;
}

int open_stream(const fs::path& path) {
  if (const int own = own_descriptor(path); own >= 0) return ::fcntl(own, F_DUPFD_CLOEXEC, 0);
  for (;;) {
    const int stream = ::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
    if (stream >= 0 || (errno != ENXIO && errno != EINTR)) return stream;
    if (stop_requested())
      throw Interrupted(concat("stopped while nobody read from '", path.string(), "'"));
    ::poll(nullptr, 0, kBetweenLooksMs);
  }
}

}  // namespace

fs::path link_target(fs::path path) {
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(path, error)); ++links) {
    if (is_descriptor(path)) return path;
    const fs::path target = fs::read_symlink(path, error);
    if (error || links == kMaxLinks)
      file_calls::refuse("follow", path, error ? error.value() : ELOOP);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

fs::path folder_target(const fs::path& typed) {
  return link_target(without_trailing_slash(fs::absolute(typed)));
}

bool is_stream(const fs::path& path) {
  const mode_t kind = kind_of(path);
  return kind == S_IFCHR || kind == S_IFIFO || (kind != 0 && is_descriptor(path));
}

std::string unwritable_kind(const fs::path& path) {
  const mode_t kind = kind_of(path);
  return kind == S_IFSOCK ? "a socket" : kind == S_IFBLK ? "a block device" : "";
}

void copy_to_stream(int from, std::uint64_t size, const fs::path& stream) {
  const int to = open_stream(stream);
  int error = to < 0 ? errno : 0;
  std::vector<char> block(kBlock);
  for (std::uint64_t done = 0; error == 0 && done < size;) {
    const ssize_t count = ::pread(from, block.data(), block.size(), static_cast<off_t>(done));
    if (count <= 0 || !write_all(to, block.data(), static_cast<std::size_t>(count)))
      error = count == 0 ? EIO : errno;
    done += static_cast<std::uint64_t>(std::max<ssize_t>(count, 0));
  }
  if (to >= 0) ::close(to);
  if (error != 0) file_calls::refuse("write to", stream, error);
}

// The owner first: that takes the set-user-ID bit away.
void keep_owner_and_mode(const fs::path& replaced, int descriptor) {
  struct stat old = {};
  if (::stat(replaced.c_str(), &old) != 0) return;
  constexpr uid_t kAsItIs = static_cast<uid_t>(-1);
  [[maybe_unused]] const bool kept = ::fchown(descriptor, old.st_uid, old.st_gid) == 0 ||
                                     ::fchown(descriptor, kAsItIs, old.st_gid) == 0;
  ::fchmod(descriptor, old.st_mode & 07777);
}

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
