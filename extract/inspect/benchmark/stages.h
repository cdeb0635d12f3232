// One function per stage of extraction that runs it alone for some seconds. Internal to
// extract/inspect/benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "extract/frames/frame.h"
#include "extract/inspect/benchmark/benchmark.h"
#include "extract/plan/resume.h"

namespace coldframe::extract::benchmark {

struct Sample {
  std::vector<ExamTask> tasks;
  std::vector<frames::Image> images;              // as decoded, a few
  std::vector<std::vector<std::uint8_t>> inputs;  // the same, as the backbone sees them
};

StageRate measure_decode(const ExtractOptions& options, Sample& sample);      // fills `images`
StageRate measure_preprocess(const ExtractOptions& options, Sample& sample);  // fills `inputs`
StageRate measure_input(const ExtractOptions& options, const Sample& sample,
                        const torch::Device& device);
StageRate measure_compute(const ExtractOptions& options, const Sample& sample,
                          vit::Backbone& backbone, const torch::Device& device);
StageRate measure_write(const ExtractOptions& options, const cache::Location& location,
                        const cache::Recipe& recipe, std::int64_t dimension);

}  // namespace coldframe::extract::benchmark
