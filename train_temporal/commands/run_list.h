// `coldframe train --list RUNS…`: one line per run, from the files in its folder. Does not use
// LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace coldframe::temporal {

struct ListedRun {
  std::filesystem::path folder;
  bool finished = false;
  std::size_t fits_done = 0, fits = 0;
  std::string target, model, backbone;
  std::size_t folds = 0, seeds = 0;   // folds: total over repeats
  std::size_t folds_with_figure = 0;  // of which `value` is the mean; 0: it is none over folds
  std::string metric;                 // the first that the run reports: "auroc"; empty: none yet
  double value = 0, low = 0, high = 0;
  double seconds = 0, peak_bytes = 0;  // NaN: not known
  std::string date;                    // of its end or latest step: "2026-11-21 20:15", UTC
  std::string problem;                 // why it cannot be read; then all but `folder` is empty
};

// Each path is a run or a folder of runs, sorted by name; an unfinished run is its OUT.unfinished.
// ConfigError for a path without runs.
std::vector<ListedRun> find_runs(const std::vector<std::filesystem::path>& paths);

std::string runs_table(const std::vector<ListedRun>& runs);
std::string runs_json(const std::vector<ListedRun>& runs);

// asks_for_list() detects --list; list_runs() returns exit code 1 if a run cannot be read.
bool asks_for_list(const std::vector<std::string>& arguments);
int list_runs(const std::vector<std::string>& arguments);

}  // namespace coldframe::temporal
