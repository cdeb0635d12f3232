// `coldframe train --list RUNS…`: a line for each run, from what its folder says. No LibTorch.
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
  std::size_t folds = 0, seeds = 0;  // folds: of all repeats together
  std::string metric;                // the first that the run reports: "auroc"; empty: none yet
  double value = 0, low = 0, high = 0;
  double seconds = 0, peak_bytes = 0;  // NaN: not known
  std::string date;                    // of its end, or of its latest step: "2026-11-21 20:15", UTC
  std::string problem;                 // why it cannot be read; all but `folder` is empty then
};

// Each path gives the run that it is, or the runs in it, sorted by name; an unfinished one is its
// OUT.unfinished. ConfigError for a path without any.
std::vector<ListedRun> find_runs(const std::vector<std::filesystem::path>& paths);

std::string runs_table(const std::vector<ListedRun>& runs);
std::string runs_json(const std::vector<ListedRun>& runs);

// asks_for_list() sees --list; list_runs() returns exit code 1 when a run cannot be read.
bool asks_for_list(const std::vector<std::string>& arguments);
int list_runs(const std::vector<std::string>& arguments);

}  // namespace coldframe::temporal
