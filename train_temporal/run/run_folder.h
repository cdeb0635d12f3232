// The working folder and the final folder of a run: everything is written to `OUT.unfinished`,
// which is renamed to OUT at the end, so that OUT is always complete.
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

// Configuration key: number of threads of a tuned fit, which affects the last bits of its sums. All
// parts of a run use that of the first one.
inline constexpr const char* kThreadsPerFit = "threads_per_fit";

// Likewise: costs of the steps of a tuned ViT, measured when the run began
// (fit/tune/measured_costs.h). They determine how steps are divided, and so the last bits of sums.
inline constexpr const char* kVitCosts = "vit_costs";

// Likewise: TuneFit::model_rate.
inline constexpr const char* kTunedModelRate = "tuned_model_rate";

// Likewise: measurements of the devices among which the run chose when it began (devices.h).
inline constexpr const char* kDeviceSeconds = "device_seconds_per_step";

// File next to the report: the run's options, as lines for --config (portable_options()).
inline constexpr const char* kRunOptions = "options.ini";

// One fit of a run.
struct FitName {
  std::string model;
  std::size_t repeat = 0, fold = 0, seed = 0;
  std::size_t setting = 0;  // of --search; 0: the given options
  std::string frame = {};   // one of candidates() if there is a choice

  std::string stem() const;  // "gru-repeat-0-fold-2-seed-1", "…-setting-3", "single-…-last"
};

// What to do with an existing run of the same name: `resume` continues an unfinished one,
// `overwrite` replaces a finished one; an unfinished run without finished fits needs neither. With
// both, the unfinished run is continued and then replaces the finished one. A `part` of a run is
// begun or continued in parallel with the others.
struct ExistingRun {
  bool resume = false, overwrite = false;
  Part part = {};
};

class RunFolder {
 public:
  // Checks only, creates nothing. ConfigError if OUT or an unfinished run exists and `existing`
  // does not state what to do with it, if one of the two folders is not a run, or if it would be
  // removed although it contains something that no run writes.
  RunFolder(std::filesystem::path out, ExistingRun existing);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  bool finished() const;  // and resumed: nothing is left for start() to do
  const Part& part() const { return existing_.part; }
  Json begun() const;  // the configuration of the run to continue; {}: a new run

  // Creates the unfinished folder with only config.json in it, or checks that the existing one has
  // the same configuration (ConfigError lists the differences). Takes a lock: SystemError if
  // another process works on this run, or on this part of it. False if the run is finished: nothing
  // is left to do.
  bool start(const Json& config);
  // Exchanges this run with the one to replace, and removes the state last: after a crash in
  // between, both exist and the run can be resumed. SystemError, without any change, if OUT is not
  // a run to be replaced.
  void publish();
  void require_there() const;  // SystemError if the run's folder no longer exists

  const std::filesystem::path& out() const { return out_; }
  std::filesystem::path file(const std::string& name) const { return working_ / name; }
  std::filesystem::path record(const FitName& fit) const;
  std::filesystem::path checkpoint(const FitName& fit) const;

 private:
  void lock();
  // ConfigError if the finished run was not asked one of the questions.
  void require_answered(const Json& config) const;
  void clear() const;
  void remove_leftovers() const;
  void remove_replaced() const;

  std::filesystem::path out_, working_;
  ExistingRun existing_;
  std::unique_ptr<FileLock> lock_;       // of the run: exclusive, or shared with other parts
  std::unique_ptr<FileLock> part_lock_;  // of the part
};

// Folder next to the report: maps of its example exams (--maps), with a page of them.
inline constexpr const char* kMapsFolder = "maps";

// Suffix of the name of the folder of an unfinished run.
inline constexpr const char* kUnfinished = ".unfinished";

// Names inside a finished run.
std::filesystem::path models_folder(const std::filesystem::path& run);
std::filesystem::path control_folder(const std::filesystem::path& run, const std::string& control);
std::string model_file_name(std::size_t repeat, std::size_t fold, std::size_t seed, bool repeated);
// All files of the main model of a run, sorted. ConfigError if it is not a finished run.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& run);
// The files of each control, by name; empty for a run without (kept) controls.
std::map<std::string, std::vector<std::filesystem::path>> control_files(
    const std::filesystem::path& run);

}  // namespace coldframe::temporal
