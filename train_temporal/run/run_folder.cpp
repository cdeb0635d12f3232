#include "train_temporal/run/run_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "cache/format/recipe.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/file_lock.h"
#include "common/files/json.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/files/publish/publish.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "train_temporal/report/report_files.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/unlike_training.h"

namespace coldframe::temporal {

// Tells by its content whether a folder is a run's: what the program did not make is never removed.

// What lies in a run, beside what it is for.
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kSummaryFile = "summary.json";
inline constexpr const char* kStateFolder = "state";  // of an unfinished one
inline constexpr const char* kLockFile = "lock";      // likewise
inline constexpr const char* kRecordSuffix = ".record";
inline constexpr const char* kPartLockSuffix = ".lock";  // of who is at a part of the run
inline constexpr const char* kCheckpointSuffix = ".checkpoint";
inline constexpr const char* kControlsFolder = "controls";

// Its configuration is a run's, finished or not.
bool is_run(const std::filesystem::path& folder);

// True if a fit of the unfinished run is done, or has come so far that it was saved.
bool has_fits(const std::filesystem::path& folder);

// A finished run under the name of an unfinished one: it was replaced, and is to be removed.
bool is_replaced_run(const std::filesystem::path& folder);

// ConfigError unless the folder is a run's and holds nothing that no run writes. `what` names it in
// the message.
void require_own_run(const std::filesystem::path& folder, const char* what);
// The same for the folder of an unfinished run, also if it has just been created.
void require_own_unfinished(const std::filesystem::path& folder, const std::filesystem::path& out);

namespace {

namespace fs = std::filesystem;

constexpr std::array kFilesOfRuns = {
    kConfigFile,  kSummaryFile, kRunOptions,   kUnlikeFile,   kPredictions,   "METHODS.md",
    "splits.csv", "search.csv", "metrics.csv", "report.html", "against.html", "validation.csv"};
constexpr std::array kFoldersOfRuns = {"models", kControlsFolder, kStateFolder, kFiguresFolder,
                                       kMapsFolder};
// Of what lies in these folders.
constexpr std::array<std::string_view, 9> kEndings = {
    ".safetensors", ".json",           ".ini",         ".csv", ".svg", ".tex",
    kRecordSuffix,  kCheckpointSuffix, kPartLockSuffix};
constexpr std::array<std::string_view, 2> kEndingsOfMaps = {".png", ".html"};

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
    const auto ends_with = [&](std::string_view ending) { return name.ends_with(ending); };
    const bool of_maps = *path.lexically_relative(folder).begin() == kMapsFolder;
    bool known = is_folder || is_remainder(name) || std::ranges::any_of(kEndings, ends_with) ||
                 (of_maps && std::ranges::any_of(kEndingsOfMaps, ends_with));
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

namespace fs = std::filesystem;
namespace {

fs::path beside(const fs::path& path, const char* suffix) {
  fs::path result = path;
  result += suffix;
  return result;
}

constexpr const char* kQuestions = "questions";

// Questions to the report change no fit; models keep the threshold alone.
void leave_out_questions(Json& config) {
  const Json questions = config.value(kQuestions, Json::object());
  config.erase(kQuestions);
  if (questions.contains("threshold")) config[kQuestions]["threshold"] = questions["threshold"];
}

std::vector<fs::path> models_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  return files;
}

// ConfigError, which lists the differences, where the run in this folder was started otherwise.
void require_alike(const fs::path& run, Json config, const char* instead) {
  Json its = read_json_file(run / kConfigFile);
  for (Json* each : {&its, &config}) {
    each->erase(kThreadsPerFit);  // that of the run holds: threads_of_tuning()
    each->erase(kVitCosts);
    each->erase(kTunedModelRate);
    each->erase(kDeviceSeconds);
    leave_out_questions(*each);
  }
  const auto changes = cache::differences(its, config, {"the run has", "now"});
  if (changes.empty()) return;
  throw ConfigError(concat("the run in '", run.string(), "' was started otherwise:\n  ",
                           join(changes, "\n  "), "\nuse the same options and data, or ", instead));
}

void create_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  throw SystemError(concat("cannot create '", path.string(), "': ", error.message(),
                           "; choose a folder that you may write to"));
}

}  // namespace

std::string FitName::stem() const {
  return concat(model, "-repeat-", repeat, "-fold-", fold, "-seed-", seed,
                setting > 0 ? concat("-setting-", setting) : "", frame.empty() ? "" : "-", frame);
}

// A link's target is replaced, so the unfinished run is next to that.
RunFolder::RunFolder(fs::path out, ExistingRun existing)
    : out_(link_target(without_trailing_slash(out))),
      working_(beside(out_, kUnfinished)),
      existing_(existing) {
  const std::string shown = out_.string(), unfinished = working_.string();
  if (fs::exists(out_) && !is_run(out_))
    throw ConfigError(concat("--out '", shown, "' exists and is not a run; choose another name"));
  const bool replaces = existing.overwrite || (existing.resume && fs::exists(working_));
  if (fs::exists(out_) && replaces) require_own_run(out_, "--out ");
  if (fs::exists(working_)) require_own_unfinished(working_, out_);
  existing_.resume |= part().shared();
  if (existing_.resume || existing.overwrite) return;
  if (fs::exists(out_))
    throw ConfigError(concat("--out '", shown,
                             "' is a finished run; choose another name, or "
                             "--overwrite to replace it"));
  if (fs::exists(working_) && has_fits(working_))
    throw ConfigError(concat("an unfinished run lies in '", unfinished,
                             "'; add --resume to continue it, or --overwrite to start again"));
}

RunFolder::~RunFolder() = default;

// Parts share the run's lock, and each has a lock of its own; the writer of the report holds the
// run's lock exclusively. On file systems without locks parts run unlocked: a fit done twice gives
// the same result.
void RunFolder::lock() {
  LockOptions options{
      part().shared(), !part().shared(), {}, "; parts of a run (--part) need no locks"};
  options.refuse = [this](const std::string& holder) {
    throw SystemError(concat("another process is training '", out_.string(), "' (", holder,
                             "); wait for it, or choose another --out"));
  };
  lock_ = std::make_unique<FileLock>(working_ / kLockFile, options);
  if (!part().shared()) return;
  LockOptions own{false, false, {}, {}};
  own.refuse = [this](const std::string& holder) {
    throw SystemError(concat("another process is at ", part().text(), " of '", out_.string(), "' (",
                             holder, "); wait for it"));
  };
  const std::string name = concat("part-", part().index, "-of-", part().count, kPartLockSuffix);
  part_lock_ = std::make_unique<FileLock>(working_ / kStateFolder / name, own);
}

void RunFolder::require_answered(const Json& config) const {
  const Json answered = read_json_file(out_ / kConfigFile).value(kQuestions, Json::object());
  const Json asked = config.value(kQuestions, Json::object());
  for (const auto& [question, value] : asked.items()) {
    if (answered.contains(question) && answered[question] == value) continue;
    throw ConfigError(concat(
        "the run in '", out_.string(), "' is finished, and its report does not answer '", question,
        "'; without training, `coldframe evaluate --run RUN --against RUN` with this run twice "
        "answers what its predictions tell, as --prevalence and --figures, and `coldframe predict "
        "--run RUN --maps FOLDER` maps exams; else train again with --overwrite"));
  }
}

void RunFolder::clear() const {
  // The configuration is written last: it identifies the folder as ours.
  for (const auto& entry : fs::directory_iterator(working_)) {
    const fs::path name = entry.path().filename();
    if (name != kLockFile && name != kConfigFile) fs::remove_all(entry.path());
  }
  fs::remove(working_ / kConfigFile);
}

bool RunFolder::finished() const {
  return existing_.resume && !existing_.overwrite && fs::exists(out_) &&
         (!fs::exists(working_) || is_replaced_run(working_));
}

Json RunFolder::begun() const {
  for (const fs::path& run : {working_, out_})
    if (existing_.resume && is_run(run) && !(run == working_ && is_replaced_run(run)) &&
        !(run == out_ && existing_.overwrite))
      return read_json_file(run / kConfigFile);
  return Json::object();
}

bool RunFolder::start(const Json& config) {
  if (finished()) {
    require_alike(out_, config, "--overwrite to replace the finished run");
    require_answered(config);
    remove_leftovers();
    remove_replaced();
    return false;
  }
  create_folders(working_);
  lock();
  if (fs::exists(out_) && !existing_.resume && !existing_.overwrite) {
    lock_.reset();
    throw ConfigError(concat("--out '", out_.string(), "' appeared while this run was prepared; ",
                             "choose another name, or --overwrite to replace a run"));
  }
  if (existing_.resume && !existing_.overwrite && fs::exists(working_ / kConfigFile) &&
      !is_run(working_)) {
    throw DataError(concat("'", (working_ / kConfigFile).string(),
                           "' is damaged, so that the run cannot be continued; --overwrite without "
                           "--resume starts again"));
  }
  if (part().shared()) {  // the first of the parts writes it, all others compare
    AtomicFile file(working_ / kConfigFile);
    file.append(config.dump(2) + "\n");
    file.finish_if_new();
    require_alike(working_, config, "another --out, or remove it first");
    return true;
  }
  if (existing_.resume && is_run(working_) && !is_replaced_run(working_)) {
    require_alike(working_, config, "--overwrite without --resume to start again");
  } else {
    require_own_unfinished(working_, out_);
    clear();
  }
  write_file_atomically(working_ / kConfigFile, config.dump(2) + "\n");
  create_folders(working_ / kStateFolder);
  return true;
}

void RunFolder::publish() {
  const bool replaces = existing_.overwrite || existing_.resume;
  if (replaces) remove_leftovers();  // of the old one
  coldframe::publish(working_, out_, Existing::kReplace, [&](const fs::path& there) {
    if (!replaces || !is_run(there))
      throw SystemError(concat("'", out_.string(), "' appeared while this run trained, and is not ",
                               "replaced; move it away and run the same command with --resume: ",
                               "all that was trained is in '", working_.string(), "'"));
    require_own_run(there, "");
  });
  remove_leftovers();
  remove_replaced();
}

// Under its lock: another process may begin a run there.
void RunFolder::remove_replaced() const {
  if (!is_replaced_run(working_)) return;
  LockOptions options;
  options.required = false;
  options.refuse = [](const std::string& holder) { throw SystemError(holder); };
  try {
    const FileLock lock(working_ / kLockFile, options);
    if (is_replaced_run(working_)) fs::remove_all(working_);
  } catch (const std::exception& error) {
    log_warning(concat("the replaced run in '", working_.string(),
                       "' could not be removed: ", error.what()));
  }
}

void RunFolder::require_there() const {
  if (fs::exists(status_of(working_ / kConfigFile))) return;
  throw SystemError(concat("'", working_.string(), "' is gone; start the run anew"));
}

void RunFolder::remove_leftovers() const {
  std::error_code ignored;  // on NFS a file stays as long as a process has it open
  for (const char* name : {kStateFolder, kLockFile}) fs::remove_all(out_ / name, ignored);
}

fs::path RunFolder::record(const FitName& fit) const {
  return working_ / kStateFolder / (fit.stem() + kRecordSuffix);
}

fs::path RunFolder::checkpoint(const FitName& fit) const {
  return working_ / kStateFolder / (fit.stem() + kCheckpointSuffix);
}

fs::path models_folder(const fs::path& run) {
  return run / "models";
}

std::string model_file_name(std::size_t repeat, std::size_t fold, std::size_t seed, bool repeated) {
  const std::string prefix = repeated ? concat("repeat-", repeat, "-") : std::string();
  return concat(prefix, "fold-", fold, "-seed-", seed, ".safetensors");
}

fs::path control_folder(const fs::path& run, const std::string& control) {
  return run / kControlsFolder / control;
}

std::vector<fs::path> model_files(const fs::path& run) {
  std::vector<fs::path> files = models_in(models_folder(run));
  if (!files.empty()) return files;
  if (!fs::exists(run))
    throw ConfigError(concat("the run '", run.string(),
                             "' does not exist; expected the folder of a finished run of "
                             "`coldframe train`"));
  throw ConfigError(concat("--run '", run.string(),
                           "' is not a finished run of `coldframe "
                           "train`: it has no models/*.safetensors"));
}

std::map<std::string, std::vector<fs::path>> control_files(const fs::path& run) {
  std::map<std::string, std::vector<fs::path>> controls;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / kControlsFolder, error)) {
    auto files = models_in(entry.path());
    if (!files.empty()) controls[entry.path().filename().string()] = std::move(files);
  }
  return controls;
}

}  // namespace coldframe::temporal
