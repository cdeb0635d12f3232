// The folder in which a run grows and the one as which it appears: everything is written to
// `OUT.unfinished` and renamed to OUT at the end, so OUT is always whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "common/json.h"

namespace coldframe::temporal {

// One fit of a run.
struct FitName {
  std::string model;
  std::size_t repeat = 0, fold = 0, seed = 0;

  std::string stem() const;  // "gru-repeat-0-fold-2-seed-1"
};

enum class ExistingRun { kRefuse, kResume, kOverwrite };

class RunFolder {
 public:
  // Looks and creates nothing. ConfigError when OUT or an unfinished run is there and `existing`
  // does not say what to do with it, or when OUT is a folder that is no run.
  RunFolder(std::filesystem::path out, ExistingRun existing);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  bool is_finished() const { return finished_; }  // only with kResume: nothing is left to do

  // Creates the unfinished folder with config.json, or, resuming, checks that the configuration is
  // the same (ConfigError lists the differences). Takes a lock: SystemError when another process
  // works on this run.
  void start(const Json& config);
  void publish();

  const std::filesystem::path& out() const { return out_; }
  std::filesystem::path file(const std::string& name) const { return working_ / name; }
  std::filesystem::path record(const FitName& fit) const;
  std::filesystem::path checkpoint(const FitName& fit) const;

 private:
  void lock();

  std::filesystem::path out_, working_;
  ExistingRun existing_;
  bool finished_ = false;
  int lock_ = -1;
};

// Names inside a finished run.
std::filesystem::path models_folder(const std::filesystem::path& run);
std::string model_file_name(std::size_t repeat, std::size_t fold, std::size_t seed,
                            std::size_t repeats);
// All model files of a run, sorted. ConfigError when it is not a finished run.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& run);

}  // namespace coldframe::temporal
