// `extract --benchmark`: how fast each stage of a job is on this machine and this input, alone and
// together, before a day is spent on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cache/format/recipe.h"
#include "common/files/json.h"
#include "extract/input/exam_list.h"
#include "extract/options.h"
#include "extract/pipeline/pipeline.h"

namespace coldframe::extract {

// A stage by itself; what it works on lies in memory already (except what "decode" reads and
// "write" writes). A frame is done when all of its views are.
struct StageRate {
  std::string name;
  double frames_per_second = 0;
  std::string note;  // "2 threads", "16 frames per forward pass (auto)"
};

struct BenchmarkReport {
  std::size_t sample_exams = 0, sample_frames = 0;  // of the input
  std::vector<StageRate> stages;                    // decode, preprocess, input, compute, write
  double overlapped = 0;                            // frames/s of the whole job
  double compute_busy = 0;                          // share of that time in forward passes, 0 … 1
  std::string bottleneck;
  std::size_t input_exams = 0;
  double input_frames = 0, input_seconds = 0;  // estimates from the sample's mean
  std::uint64_t peak_device_bytes = 0, peak_resident_bytes = 0;
};

std::string to_text(const BenchmarkReport& report);
Json to_json(const BenchmarkReport& report);

// Takes exams spread evenly over the input, and some seconds for each stage. What is written goes
// to a folder beside `options.out` (else the system's temporary folder) and is removed again.
// Only the first of several devices is measured. DataError when not one exam of the sample can be
// read.
BenchmarkReport run_benchmark(const frames::ExamList& input, const ExtractOptions& options,
                              const cache::Recipe& recipe,
                              const std::vector<ComputeDevice>& devices);

}  // namespace coldframe::extract
