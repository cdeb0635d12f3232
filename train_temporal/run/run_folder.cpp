#include "train_temporal/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cache/format/recipe.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/publish.h"
#include "common/files/retry_policy.h"
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
constexpr const char* kReport = "report";  // the claim of who writes it

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

// True for an unfinished run, also one that another process has just begun to make.
bool is_ours(const fs::path& working) {
  if (is_run(working)) return true;
  std::error_code error;
  fs::directory_iterator entries(working, error);
  return std::all_of(begin(entries), end(entries),
                     [](const fs::directory_entry& entry) {
                       const fs::path name = entry.path().filename();
                       return name == kStateFolder || name == kLockFile;
                     }) ||
         fs::exists(working / kLockFile);
}

constexpr const char* kQuestions = "questions";

// Questions to the report change no fit; models keep the threshold alone.
void leave_out_questions(Json& config) {
  const Json questions = config.value(kQuestions, Json::object());
  config.erase(kQuestions);
  if (questions.contains("threshold")) config[kQuestions]["threshold"] = questions["threshold"];
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

enum class Compared { kFits, kAll };

// ConfigError, which lists the differences, where the run in this folder was started otherwise.
void require_alike(const fs::path& run, Json config, Compared what, const char* instead) {
  Json its = read_json_file(run / kConfigFile);
  for (Json* each : {&its, &config}) {
    each->erase(kThreadsPerFit);  // that of the run holds: threads_of_tuning()
    if (what == Compared::kFits) leave_out_questions(*each);
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
  return concat(model, "-", stem_of_model());
}

std::string FitName::stem_of_model() const {
  return concat("repeat-", repeat, "-fold-", fold, "-seed-", seed,
                setting > 0 ? concat("-setting-", setting) : "", frame.empty() ? "" : "-", frame);
}

RunFolder::RunFolder(fs::path out, ExistingRun existing)
    : out_(without_trailing_slash(out)), working_(beside(out_, kUnfinished)), existing_(existing) {
  const std::string shown = out_.string(), unfinished = working_.string();
  if (fs::exists(out_) && !is_run(out_))
    throw ConfigError(concat("--out '", shown, "' exists and is not a run; choose another name"));
  if (fs::exists(working_) && !is_ours(working_))
    throw ConfigError(concat("'", unfinished, "' exists and is no unfinished run, but '", shown,
                             "' would grow there; choose another name"));
  if (existing.resume || existing.overwrite || existing.shared) return;
  if (fs::exists(out_))
    throw ConfigError(concat("--out '", shown,
                             "' is a finished run; choose another name, or "
                             "--overwrite to replace it"));
  if (fs::exists(working_) && has_fits(working_))
    throw ConfigError(concat("an unfinished run lies in '", unfinished,
                             "'; add --resume to continue it, or --overwrite to start again"));
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
  if (::flock(lock_, (shared() ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) {
    throw SystemError(concat("another process is training '", out_.string(),
                             "'; wait for it, choose another --out, or start all with --shared"));
  }
  if (shared()) return;  // claims need no locks
  throw SystemError(concat("cannot lock '", path.string(), "': ", std::strerror(errno),
                           "; with --shared a run needs no locks"));
}

void RunFolder::join_others(const Json& config) {
  create_folders(working_ / kStateFolder);
  lock();
  AtomicFile file(working_ / kConfigFile);
  file.append(config.dump(2) + "\n");
  file.finish_if_new();
  // Any of the processes may write the report.
  require_alike(working_, config, Compared::kAll, "another --out, or remove it first");
  claims_ = std::make_unique<Claims>(working_ / kStateFolder);
  if (!is_run(out_) || has_fits(working_)) return;
  claims_.reset();
  fs::remove_all(working_);  // the run was published before we made this folder anew
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
  // The configuration goes last: with it the folder is known as ours.
  for (const auto& entry : fs::directory_iterator(working_)) {
    const fs::path name = entry.path().filename();
    if (name != kLockFile && name != kConfigFile) fs::remove_all(entry.path());
  }
  fs::remove(working_ / kConfigFile);
}

bool RunFolder::finished() const {
  if (shared()) return is_run(out_);
  return existing_.resume && !existing_.overwrite && fs::exists(out_) && !fs::exists(working_);
}

Json RunFolder::begun() const {
  for (const fs::path& run : {working_, out_})
    if ((existing_.resume || shared()) && is_run(run)) return read_json_file(run / kConfigFile);
  return Json::object();
}

bool RunFolder::start(const Json& config) {
  if (finished()) {
    require_alike(out_, config, Compared::kFits, "--overwrite to replace the finished run");
    require_answered(config);
    remove_leftovers();
    return false;
  }
  if (shared()) {
    try {
      join_others(config);
    } catch (const Error&) {  // the folder may have got its last name meanwhile
      if (!published_by_another()) throw;
    }
    return !finished() || start(config);
  }
  create_folders(working_);
  lock();
  if (fs::exists(out_) && !existing_.resume && !existing_.overwrite) {
    fs::remove(working_ / kLockFile);
    throw ConfigError(concat("--out '", out_.string(), "' appeared while this run was prepared; ",
                             "choose another name, or --overwrite to replace a run"));
  }
  if (existing_.resume && !existing_.overwrite && fs::exists(working_ / kConfigFile) &&
      !is_run(working_)) {
    throw DataError(concat("'", (working_ / kConfigFile).string(),
                           "' is damaged, so that the run cannot be continued; --overwrite without "
                           "--resume starts again"));
  }
  if (existing_.resume && is_run(working_)) {
    require_alike(working_, config, Compared::kFits, "--overwrite without --resume to start again");
  } else {
    clear();
  }
  write_file_atomically(working_ / kConfigFile, config.dump(2) + "\n");
  create_folders(working_ / kStateFolder);
  return true;
}

void RunFolder::publish() {
  const fs::path aside = working_ / kReplacedFolder;
  if (!shared() && (existing_.overwrite || existing_.resume) && is_run(out_)) {
    fs::remove_all(aside);
    rename_if_new(out_, aside);
  }
  if (!rename_if_new(working_, out_))
    throw SystemError(concat("'", out_.string(), "' appeared while this run trained, and is not ",
                             "replaced; move it away and run the same command with --resume: all ",
                             "that was trained is in '", working_.string(), "'"));
  claims_.reset();
  remove_leftovers();
}

void RunFolder::remove_remains() {
  claims_.reset();
  if (is_run(out_) && !is_run(working_) && is_ours(working_)) fs::remove_all(working_);
}

bool RunFolder::wait_to_report() const {
  for (Waiting waiting; !published_by_another(); waiting.pause()) {
    if (take(kReport)) return true;
    if (stop_requested())
      throw Interrupted("stopped while another process writes the report; all fits are done");
  }
  return false;
}

bool RunFolder::published_by_another() const {
  return shared() && !fs::exists(status_of(working_ / kConfigFile)) && fs::exists(status_of(out_));
}

bool RunFolder::take(const std::string& work) const {
  if (!claims_ || claims_->take(work)) return true;
  require_there();
  return false;
}

void RunFolder::require_there() const {
  if (fs::exists(status_of(working_ / kConfigFile))) return;
  throw SystemError(concat("'", working_.string(), "' is gone; start the run anew"));
}

void RunFolder::release(const std::string& work) const {
  if (claims_) claims_->release(work);
}

void RunFolder::remove_leftovers() const {
  std::error_code
      ignored;  // on NFS a file stays as long as a process that was overtaken has it open
  for (const char* name : {kReplacedFolder, kStateFolder, kLockFile})
    fs::remove_all(out_ / name, ignored);
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
