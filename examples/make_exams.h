// Synthetic angiography: contrast passes a vascular bed, frame after frame.
//
// An exam's label is the direction in which the contrast passes: 0, antegrade (arteries, veins,
// then tissue); 1, retrograde (the other way round). The passage is a cycle that every exam enters
// at a random point, so that any one frame, and the frames of an exam shuffled, are distributed
// alike under both labels: only their order tells.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace coldframe::examples {

struct MakeExamsOptions {
  std::filesystem::path out;  // gets exams.csv and frames/<exam>/NN.jpg
  int exams = 160;
  int frames = 12;  // per exam
  int size = 256;   // pixels of a side
  std::uint64_t seed = 1;
};

struct SyntheticExam {
  std::string id, patient;
  int label = 0;
  std::vector<double> time_s;   // [T] since the injection, uneven: dense early, sparse late
  std::vector<cv::Mat> frames;  // [T] of uint8 [S, S]
};

// ConfigError for options out of range.
void validate(const MakeExamsOptions& options);

// A function of the seed and the number alone: exam 7 of 20 is exam 7 of 200.
SyntheticExam make_exam(const MakeExamsOptions& options, int number);

// Makes all exams and the manifest, which appears last. `on_exam` is called after each.
// SystemError when a file cannot be written.
void write_exams(const MakeExamsOptions& options, const std::function<void()>& on_exam);

}  // namespace coldframe::examples
