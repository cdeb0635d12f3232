// One function per stage of extraction that runs it alone for some seconds. Internal to
// extract/inspect/benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "extract/frames/frame.h"
#include "extract/inspect/benchmark/benchmark.h"
#include "extract/plan/resume/resume.h"

namespace coldframe::extract::benchmark {

struct DecodedSample {
  frames::Frame frame;
  std::optional<frames::Rect> crop;
};

struct Sample {
  frames::ExamList exams;
  std::vector<DecodedSample> frames;              // a few
  std::vector<std::vector<std::uint8_t>> inputs;  // the first of each, as the backbone sees it
  double inputs_per_frame = 1;                    // tiles and views
};

StageRate measure_decode(const ExtractOptions& options, Sample& sample);  // fills `frames`
// Fills the inputs, and leaves frames out that cannot be prepared.
StageRate measure_preprocess(const ExtractOptions& options, Sample& sample);
StageRate measure_input(const ExtractOptions& options, const Sample& sample,
                        const torch::Device& device);
StageRate measure_compute(const ExtractOptions& options, const Sample& sample,
                          vit::Backbone& backbone, const torch::Device& device);
StageRate measure_write(const ExtractOptions& options, const cache::Location& location,
                        const cache::Recipe& recipe, std::int64_t dimension);

}  // namespace coldframe::extract::benchmark
