// The folder in which a run grows and the one as which it appears: everything is written to
// `OUT.unfinished` and renamed to OUT at the end, so OUT is always whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/files/file_lock.h"
#include "common/files/json.h"
#include "common/system/job.h"

namespace coldframe::temporal {

// In the configuration: the threads of a tuned fit, whose number says the last bits of its sums.
// Parts of a run take the first one's.
inline constexpr const char* kThreadsPerFit = "threads_per_fit";

// Likewise: what steps of a tuned ViT take, as measured when the run began (tune/measured_costs.h).
// They say how steps are divided, and so the last bits of sums.
inline constexpr const char* kVitCosts = "vit_costs";

// Likewise: how the devices did among which the run chose as it began (devices.h).
inline constexpr const char* kDeviceSeconds = "device_seconds_per_step";

// Beside the report: what the run was asked for, as lines for --config (portable_options()).
inline constexpr const char* kRunOptions = "options.ini";

// One fit of a run.
struct FitName {
  std::string model;
  std::size_t repeat = 0, fold = 0, seed = 0;
  std::size_t setting = 0;  // of --search; 0: that of the options
  std::string frame = {};   // a candidate, where there is a choice: see candidates()

  std::string stem() const;  // "gru-repeat-0-fold-2-seed-1", "…-setting-3", "single-…-last"
};

// A run of the same name is continued if it is unfinished, or replaced if it is finished; an
// unfinished one of which no fit is done is in nobody's way. With both, an unfinished one is
// continued and then replaces the finished one. A `part` of a run is begun or continued beside the
// others.
struct ExistingRun {
  bool resume = false, overwrite = false;
  Part part = {};
};

class RunFolder {
 public:
  // Looks and creates nothing. ConfigError when OUT or an unfinished run is there and `existing`
  // does not say what to do with it, or when one of the two folders is no run, or would be removed
  // with something in it that no run writes.
  RunFolder(std::filesystem::path out, ExistingRun existing);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  bool finished() const;  // and to be resumed: start() will find nothing left to do
  const Part& part() const { return existing_.part; }
  Json begun() const;  // the configuration of a run that is gone on with; {}: it is a new one

  // Creates the unfinished folder with config.json and nothing else, or checks that what is there
  // has the same configuration (ConfigError lists the differences). Takes a lock: SystemError when
  // another process works on this run, or on this part of it. False when the run is finished:
  // nothing is left to do.
  bool start(const Json& config);
  // A run that it replaces changes places with this one, and the state goes last: whoever dies on
  // the way leaves both, and can be resumed. SystemError, and nothing is changed, when something
  // else than a run to be replaced is there.
  void publish();
  void require_there() const;  // SystemError when the run's folder is gone

  const std::filesystem::path& out() const { return out_; }
  std::filesystem::path file(const std::string& name) const { return working_ / name; }
  std::filesystem::path record(const FitName& fit) const;
  std::filesystem::path checkpoint(const FitName& fit) const;

 private:
  void lock();
  // ConfigError where a question is not among those that the finished run was asked.
  void require_answered(const Json& config) const;
  void clear() const;
  void remove_leftovers() const;
  void remove_replaced() const;

  std::filesystem::path out_, working_;
  ExistingRun existing_;
  std::unique_ptr<FileLock> lock_;       // of the run: alone, or beside other parts
  std::unique_ptr<FileLock> part_lock_;  // of the part
};

// Ends the name of the folder in which a run grows.
inline constexpr const char* kUnfinished = ".unfinished";

// Names inside a finished run.
std::filesystem::path models_folder(const std::filesystem::path& run);
std::filesystem::path control_folder(const std::filesystem::path& run, const std::string& control);
std::string model_file_name(std::size_t repeat, std::size_t fold, std::size_t seed, bool repeated);
// All files of the main model of a run, sorted. ConfigError when it is not a finished run.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& run);
// The files of each control, by name; empty for a run without controls, or one that kept none.
std::map<std::string, std::vector<std::filesystem::path>> control_files(
    const std::filesystem::path& run);

}  // namespace coldframe::temporal
