// `extract --benchmark`: measures the throughput of each stage on this machine and input, alone and
// together, before a long job.
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

// Throughput of a stage alone, with its data in memory (except what "decode" reads and "write"
// writes). A frame counts once all of its views are done.
struct StageRate {
  std::string name;
  double frames_per_second = 0;
  std::string note;  // "2 threads", "16 frames per forward pass (auto)"
};

struct BenchmarkReport {
  std::size_t sample_exams = 0, sample_frames = 0;  // of the input
  std::vector<StageRate> stages;                    // decode, preprocess, input, compute, write
  double overlapped = 0;                            // frames/s of the whole job
  double compute_busy = 0;                          // fraction of that time in forward passes
  std::string bottleneck;
  std::size_t input_exams = 0;
  double input_frames = 0, input_seconds = 0;  // estimates from the sample's mean
  std::uint64_t peak_device_bytes = 0, peak_resident_bytes = 0;
};

std::string to_text(const BenchmarkReport& report);
Json to_json(const BenchmarkReport& report);

// Samples exams evenly from the input and runs each stage for some seconds. Writes to a folder next
// to `options.out` (else the system's temporary folder) and removes it afterwards. Measures only
// the first of several devices. DataError if no exam of the sample is readable.
BenchmarkReport run_benchmark(const frames::ExamList& input, const ExtractOptions& options,
                              const cache::Recipe& recipe,
                              const std::vector<ComputeDevice>& devices);

}  // namespace coldframe::extract
