#include "train_temporal/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cache/format/recipe.h"
#include "common/cli/error.h"
#include "common/files/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kStateFolder = "state";
constexpr const char* kLockFile = "lock";
constexpr const char* kReplacedFolder = "replaced";
constexpr const char* kRecordSuffix = ".record";
constexpr const char* kCheckpointSuffix = ".checkpoint";
constexpr const char* kControlsFolder = "controls";

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

fs::path beside(const fs::path& path, const char* suffix) {
  fs::path result = path;
  result += suffix;
  return result;
}

bool is_run(const fs::path& path) {
  try {
    const Json config = read_json_file(path / kConfigFile);
    return config.is_object() && config.contains("coldframe") && config.contains("data_digest");
  } catch (const Error&) {
    return false;
  }
}

constexpr const char* kQuestions = "questions";

// Questions to the report change no fit; models keep the threshold alone.
Json without_questions(Json config) {
  if (!config.contains(kQuestions)) return config;
  const Json questions = config[kQuestions];
  config.erase(kQuestions);
  if (questions.contains("threshold")) config[kQuestions]["threshold"] = questions["threshold"];
  return config;
}

// True if a fit of the unfinished run is done, or has come so far that it was saved.
bool has_fits(const fs::path& working) {
  std::error_code error;
  fs::directory_iterator files(working / kStateFolder, error);
  return std::any_of(begin(files), end(files), [](const fs::directory_entry& file) {
    return file.path().extension() == kRecordSuffix || file.path().extension() == kCheckpointSuffix;
  });
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

void create_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  throw SystemError(concat("cannot create '", path.string(), "': ", error.message(),
                           "; choose a folder that you may write to"));
}

}  // namespace

std::string FitName::stem() const {
  return concat(model, "-", stem_of_model());
}

std::string FitName::stem_of_model() const {
  return concat("repeat-", repeat, "-fold-", fold, "-seed-", seed,
                setting > 0 ? concat("-setting-", setting) : "", frame.empty() ? "" : "-", frame);
}

RunFolder::RunFolder(fs::path out, ExistingRun existing)
    : out_(without_trailing_slash(out)), working_(beside(out_, kUnfinished)), existing_(existing) {
  const std::string shown = out_.string(), unfinished = working_.string();
  if (fs::exists(out_) && !is_run(out_)) {
    throw ConfigError(concat("--out '", shown, "' exists and is not a run; choose another name"));
  }
  if (fs::exists(working_) && !is_run(working_) && !fs::exists(working_ / kLockFile)) {
    throw ConfigError(concat("'", unfinished, "' exists and is no unfinished run, but '", shown,
                             "' would grow there; choose another name"));
  }
  if (existing.resume || existing.overwrite) return;
  if (fs::exists(out_)) {
    throw ConfigError(concat("--out '", shown,
                             "' is a finished run; choose another name, or "
                             "--overwrite to replace it"));
  }
  if (fs::exists(working_) && has_fits(working_)) {
    throw ConfigError(concat("an unfinished run lies in '", unfinished,
                             "'; add --resume to continue it, or --overwrite to start again"));
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::lock() {
  const fs::path path = working_ / kLockFile;
  lock_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (lock_ < 0) {
    throw SystemError(concat("cannot create '", path.string(), "': ", std::strerror(errno)));
  }
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    throw SystemError(concat("another process is training '", out_.string(),
                             "'; wait for it or choose another --out"));
  }
}

void RunFolder::require_same(const fs::path& run, const Json& config, const char* instead) const {
  const auto changes = cache::differences(without_questions(read_json_file(run / kConfigFile)),
                                          without_questions(config), {"the run has", "now"});
  if (changes.empty()) return;
  throw ConfigError(concat("the run in '", run.string(), "' was started otherwise:\n  ",
                           join(changes, "\n  "), "\nuse the same options and data, or ", instead));
}

void RunFolder::require_answered(const Json& config) const {
  const Json answered = read_json_file(out_ / kConfigFile).value(kQuestions, Json::object());
  const Json asked = config.value(kQuestions, Json::object());
  for (const auto& [question, value] : asked.items()) {
    if (answered.contains(question) && answered[question] == value) continue;
    throw ConfigError(concat(
        "the run in '", out_.string(), "' is finished, and its report does not answer '", question,
        "'; `coldframe evaluate --run RUN --against RUN` with this run twice takes --prevalence, "
        "--at-specificity, --at-sensitivity and --figures and trains nothing; for other questions "
        "train again with --overwrite"));
  }
}

void RunFolder::clear() const {
  // The configuration goes last: with it the folder is known as ours.
  for (const auto& entry : fs::directory_iterator(working_)) {
    const fs::path name = entry.path().filename();
    if (name != kLockFile && name != kConfigFile) fs::remove_all(entry.path());
  }
  fs::remove(working_ / kConfigFile);
}

bool RunFolder::finished() const {
  return existing_.resume && !existing_.overwrite && fs::exists(out_) && !fs::exists(working_);
}

bool RunFolder::start(const Json& config) {
  if (finished()) {
    require_same(out_, config, "--overwrite to replace the finished run");
    require_answered(config);
    remove_leftovers();
    return false;
  }
  create_folders(working_);
  lock();
  if (existing_.resume && !existing_.overwrite && fs::exists(working_ / kConfigFile) &&
      !is_run(working_)) {
    throw DataError(concat("'", (working_ / kConfigFile).string(),
                           "' is damaged, so that the run cannot be continued; --overwrite without "
                           "--resume starts again"));
  }
  if (existing_.resume && is_run(working_)) {
    require_same(working_, config, "--overwrite without --resume to start again");
  } else {
    clear();
  }
  write_file_atomically(working_ / kConfigFile, config.dump(2) + "\n");
  create_folders(working_ / kStateFolder);
  return true;
}

void RunFolder::publish() {
  publish_folder(working_, out_);
  remove_leftovers();
}

void RunFolder::remove_leftovers() const {
  for (const char* name : {kReplacedFolder, kStateFolder, kLockFile}) fs::remove_all(out_ / name);
}

void publish_folder(const fs::path& working, const fs::path& out) {
  if (fs::exists(out)) {
    fs::remove_all(working / kReplacedFolder);
    rename_durably(out, working / kReplacedFolder);
  }
  rename_durably(working, out);
  fs::remove_all(out / kReplacedFolder);
}

fs::path RunFolder::record(const FitName& fit) const {
  return working_ / kStateFolder / (fit.stem() + kRecordSuffix);
}

fs::path RunFolder::checkpoint(const FitName& fit) const {
  return working_ / kStateFolder / (fit.stem() + kCheckpointSuffix);
}

// TensorBoard reads files whose name holds "tfevents".
fs::path RunFolder::events(const FitName& fit) const {
  return working_ / "tensorboard" / fit.model / fit.stem_of_model() /
         "events.out.tfevents.coldframe";
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
