// train_epochs CACHE BATCH FRAMES HIDDEN THREADS [stream]: loads the cache, says how long that
// took, and then trains one epoch for every line of its standard input and prints its seconds and
// its loss. stream: features stay in the cache.
#include <chrono>
#include <iostream>
#include <numeric>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "train_temporal/fit/trainer.h"

namespace {

namespace temporal = coldframe::temporal;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

temporal::Targets labels_of(const temporal::SequenceReader& cache) {
  temporal::Labels labels;
  labels.name = "label";
  labels.classes = {"0", "1"};
  for (const auto& exam : cache.exams()) labels.value.push_back(exam.columns.front().value == "1");
  return labels;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5 && arguments.size() != 6) {
    throw coldframe::ConfigError("usage: train_epochs CACHE BATCH FRAMES HIDDEN THREADS [stream]");
  }
  const auto where = arguments.size() == 6 ? temporal::FeaturePlacement::kStream
                                           : temporal::FeaturePlacement::kDevice;
  at::set_num_threads(1);
  auto start = Clock::now();
  const temporal::SequenceReader cache(arguments[0]);
  std::vector<std::size_t> all(cache.exams().size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto dataset = temporal::load_dataset(
      cache, all, temporal::source_kinds(cache.exams(), all), torch::kCPU, {"clean"}, where);
  std::cout << seconds_since(start) << std::endl;

  const temporal::Targets labels = labels_of(cache);
  temporal::Split split;
  split.train = all;
  split.validation = split.test = {0, 1};
  temporal::ModelConfig config;
  config.dimension = cache.dimension();
  config.clock_width = static_cast<std::int64_t>(dataset.sequences.front().clock.size());
  config.hidden = std::stol(arguments[3]);
  config.pool = temporal::TemporalPool::kMean;  // the peers' model, not our defaults
  config.dropout = 0.3;
  temporal::FitOptions options;
  options.noise = 0;
  options.learning_rate = 1e-3;
  options.epochs = 1000;
  options.batch = std::stoul(arguments[1]);
  options.train_frames = std::stol(arguments[2]);
  options.schedule = temporal::Schedule::kConstant;
  options.warmup = 0;
  temporal::Trainer trainer({dataset, labels, split, config, options, 1, std::stoul(arguments[4])});
  for (std::string line; std::getline(std::cin, line);) {
    start = Clock::now();
    trainer.run_epoch();
    std::cout << seconds_since(start) << " " << trainer.state().history.back().train << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, run);
}
