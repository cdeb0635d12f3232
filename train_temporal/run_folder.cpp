#include "train_temporal/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cache/recipe.h"
#include "common/atomic_file.h"
#include "common/error.h"
#include "common/text.h"

namespace coldframe::temporal {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kStateFolder = "state";

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

fs::path beside(const fs::path& path, const char* suffix) {
  fs::path result = path;
  result += suffix;
  return result;
}

bool is_run(const fs::path& path) {
  return fs::exists(path / kConfigFile);
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
  return concat(model, "-repeat-", repeat, "-fold-", fold, "-seed-", seed);
}

RunFolder::RunFolder(fs::path out, ExistingRun existing)
    : out_(without_trailing_slash(out)),
      working_(beside(out_, ".unfinished")),
      existing_(existing) {
  const std::string shown = out_.string();
  if (fs::exists(out_) && !is_run(out_)) {
    throw ConfigError(concat("--out '", shown, "' exists and is not a run; choose another name"));
  }
  if (fs::exists(out_) && existing == ExistingRun::kResume) finished_ = true;
  if (fs::exists(out_) && existing == ExistingRun::kRefuse) {
    throw ConfigError(concat("--out '", shown,
                             "' is a finished run; choose another name, or "
                             "--overwrite to replace it"));
  }
  if (fs::exists(working_) && existing == ExistingRun::kRefuse) {
    throw ConfigError(concat("an unfinished run lies in '", working_.string(),
                             "'; add --resume to continue it, or --overwrite to start again"));
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::lock() {
  const fs::path path = working_ / "lock";
  lock_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (lock_ < 0) {
    throw SystemError(concat("cannot create '", path.string(), "': ", std::strerror(errno)));
  }
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    throw SystemError(concat("another process is training '", out_.string(),
                             "'; wait for it or choose another --out"));
  }
}

void RunFolder::start(const Json& config) {
  const fs::path config_file = working_ / kConfigFile;
  const bool resuming = existing_ == ExistingRun::kResume && fs::exists(config_file);
  create_folders(working_);
  lock();
  if (resuming) {
    const auto changes = cache::differences(read_json_file(config_file), config);
    if (changes.empty()) return;
    throw ConfigError(concat("the unfinished run in '", working_.string(),
                             "' was started otherwise:\n  ", join(changes, "\n  "),
                             "\nuse the same options and data, or --overwrite to start again"));
  }
  fs::remove_all(working_ / kStateFolder);
  create_folders(working_ / kStateFolder);
  write_file_atomically(config_file, config.dump(2) + "\n");
}

void RunFolder::publish() {
  fs::remove_all(working_ / kStateFolder);
  fs::remove(working_ / "lock");
  const fs::path replaced = beside(out_, ".replaced");
  fs::remove_all(replaced);
  if (fs::exists(out_)) rename_durably(out_, replaced);
  rename_durably(working_, out_);
  fs::remove_all(replaced);
}

fs::path RunFolder::record(const FitName& fit) const {
  return working_ / kStateFolder / (fit.stem() + ".record");
}

fs::path RunFolder::checkpoint(const FitName& fit) const {
  return working_ / kStateFolder / (fit.stem() + ".checkpoint");
}

fs::path models_folder(const fs::path& run) {
  return run / "models";
}

std::string model_file_name(std::size_t repeat, std::size_t fold, std::size_t seed,
                            std::size_t repeats) {
  const std::string prefix = repeats > 1 ? concat("repeat-", repeat, "-") : std::string();
  return concat(prefix, "fold-", fold, "-seed-", seed, ".safetensors");
}

std::vector<fs::path> model_files(const fs::path& run) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(models_folder(run), error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  if (files.empty()) {
    throw ConfigError(concat("--run '", run.string(),
                             "' is not a finished run of `coldframe "
                             "train`: it has no models/*.safetensors"));
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  return files;
}

}  // namespace coldframe::temporal
