#include "train_temporal/run/own_run.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/files/locks/file_lock.h"
#include "common/text/text.h"
#include "train_temporal/report/report_files.h"
#include "train_temporal/run/apply/unlike_training.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFilesOfRuns = {
    kConfigFile,  kSummaryFile, kRunOptions,   kUnlikeFile,   kPredictions,   "METHODS.md",
    "splits.csv", "search.csv", "metrics.csv", "report.html", "against.html", "validation.csv"};
constexpr std::array kFoldersOfRuns = {"models", kControlsFolder, kStateFolder, kFiguresFolder};
// Of what lies in these folders.
constexpr std::array<std::string_view, 9> kEndings = {
    ".safetensors", ".json",           ".ini",         ".csv", ".svg", ".tex",
    kRecordSuffix,  kCheckpointSuffix, kPartLockSuffix};

// What a killed process was writing, and what NFS keeps of a file that was removed while open.
bool is_remainder(const std::string& name) {
  return (name.starts_with('.') && name.ends_with(".tmp")) || name.starts_with(".nfs");
}

bool is_known_file(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == kLockFile) return is_lock_file(path);
  return is_remainder(name) || std::ranges::count(kFilesOfRuns, name) > 0 ||
         (name.starts_with("predictions-") && name.ends_with(".csv"));
}

// The first thing in `folder` that no run writes there; empty: there is none. What vanishes under
// the look is another part's.
fs::path stranger_in(const fs::path& folder) {
  std::error_code gone;
  fs::recursive_directory_iterator entry(folder, gone), end;
  for (; !gone && entry != end; entry.increment(gone)) {
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored) && !entry->is_symlink(ignored);
    bool known = is_folder || is_remainder(name) ||
                 std::ranges::any_of(kEndings, [&](auto ending) { return name.ends_with(ending); });
    if (entry.depth() == 0)
      known = is_folder ? std::ranges::count(kFoldersOfRuns, name) > 0 : is_known_file(path);
    if (!known && fs::exists(entry->symlink_status(ignored))) return path;
  }
  return {};
}

bool holds_locks_alone(const fs::path& folder) {
  std::error_code gone;
  fs::directory_iterator entries(folder, gone);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().extension() == kPartLockSuffix;
  });
}

// As a process leaves it that was killed before it wrote the configuration.
bool is_bare(const fs::path& folder) {
  std::error_code gone;
  fs::directory_iterator entries(folder, gone);
  return std::all_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name == kLockFile || is_remainder(name) ||
           (name == kStateFolder && holds_locks_alone(entry.path()));
  });
}

}  // namespace

bool is_run(const fs::path& folder) {
  try {
    const Json config = read_json_file(folder / kConfigFile);
    return config.is_object() && config.contains("coldframe") && config.contains("data_digest");
  } catch (const Error&) {
    return false;
  }
}

bool has_fits(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator files(folder / kStateFolder, error);
  return std::any_of(begin(files), end(files), [](const fs::directory_entry& file) {
    return file.path().extension() == kRecordSuffix || file.path().extension() == kCheckpointSuffix;
  });
}

// An unfinished one has its state until it has got its last name.
bool is_replaced_run(const fs::path& folder) {
  return is_run(folder) && fs::exists(folder / kSummaryFile) && !fs::exists(folder / kStateFolder);
}

void require_own_run(const fs::path& folder, const char* what) {
  if (!is_run(folder))
    throw ConfigError(
        concat(what, "'", folder.string(), "' exists and is not a run; choose another name"));
  if (const fs::path stranger = stranger_in(folder); !stranger.empty())
    throw ConfigError(concat(what, "'", folder.string(), "' would be replaced with '",
                             stranger.string(),
                             "' in it, which is no file of a run; move that "
                             "away, or choose another name"));
}

void require_own_unfinished(const fs::path& folder, const fs::path& out) {
  const std::string named = concat("'", folder.string(), "' exists and ");
  const std::string advice = concat("but '", out.string(), "' would grow there; ");
  const bool is_own = is_run(folder) || has_fits(folder) || is_bare(folder);
  if (fs::exists(folder) && !(is_own && fs::is_directory(folder)))
    throw ConfigError(concat(named, "is no unfinished run, ", advice, "choose another name"));
  if (const fs::path stranger = stranger_in(folder); !stranger.empty())
    throw ConfigError(concat(named, "holds '", stranger.string(), "', which is no file of a run, ",
                             advice, "move that away, or choose another name"));
}

}  // namespace coldframe::temporal
