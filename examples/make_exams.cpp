#include "examples/make_exams.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/exam_files.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "examples/vessels.h"
#include "extract/decode/image/still_formats.h"

namespace coldframe::examples {
namespace {

constexpr double kTurn = 2.0 * 3.14159265358979323846;

// A generator of its own for each thing that is drawn, so that adding exams changes no other.
// The mixing is SplitMix64's: cv::RNG's first numbers hardly differ between neighbouring seeds.
cv::RNG generator(std::uint64_t seed, std::uint64_t stream, std::uint64_t number) {
  std::uint64_t z = seed * 0x9E3779B97F4A7C15u + stream * 0xD1B54A32D192ED03u + number + 1;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return cv::RNG(z ^ (z >> 31));
}
enum Stream : std::uint64_t { kLabels, kAnatomies, kExams };

// Five exams to four patients: the fourth is seen twice.
int patient_of(int exam) {
  return exam / 5 * 4 + std::min(exam % 5, 3);
}

// Two neighbouring patients have the two labels, in an order left to chance.
int label_of(std::uint64_t seed, int patient) {
  return (patient + generator(seed, kLabels, patient / 2).uniform(0, 2)) % 2;
}

// Contrast in a compartment, 0…1, where it peaks at phase 0.
double concentration(double phase) {
  return std::exp(1.2 * (std::cos(phase) - 1.0));
}

struct Enhancement {
  double arteries, tissue, veins;
};

// The state of the bed is a function of the phase alone; the label only says which way the phase
// runs.
Enhancement enhancement_at(double phase) {
  return {concentration(phase), concentration(phase - 0.3 * kTurn),
          concentration(phase - 0.1 * kTurn)};
}

// An exam's acquisition is drawn alike for both labels.
struct Acquisition {
  double base, gain, noise;
  cv::Mat illumination;  // float32 [S, S] around 1
};

Acquisition draw_acquisition(cv::RNG& random, int size) {
  Acquisition acquisition;
  acquisition.base = random.uniform(0.24, 0.32);
  acquisition.gain = random.uniform(0.9, 1.1);
  acquisition.noise = random.uniform(0.02, 0.04);
  acquisition.illumination = 1.0 + 0.06 * smooth_noise(random, size, size / 2.0);
  return acquisition;
}

// The bed as a frame shows it: a little shifted and turned against the others.
cv::Mat moved(const cv::Mat& map, const cv::Mat& motion) {
  cv::Mat out;
  cv::warpAffine(map, out, motion, map.size(), cv::INTER_LINEAR, cv::BORDER_REFLECT_101);
  return out;
}

cv::Mat render(cv::RNG& random, const VascularBed& bed, const Acquisition& acquisition,
               const Enhancement& enhancement) {
  const int size = bed.tissue.cols;
  cv::Mat light = acquisition.base + 0.05 * bed.texture +
                  0.55 * enhancement.arteries * bed.arteries +
                  0.30 * enhancement.tissue * bed.tissue + 0.55 * enhancement.veins * bed.veins;
  cv::Mat motion =
      cv::getRotationMatrix2D({size / 2.0f, size / 2.0f}, random.gaussian(0.4), 1.0);  // degrees
  motion.at<double>(0, 2) += random.gaussian(size / 200.0);                            // pixels
  motion.at<double>(1, 2) += random.gaussian(size / 200.0);
  cv::Mat frame = moved(light, motion).mul(acquisition.illumination, acquisition.gain);
  cv::Mat noise(size, size, CV_32F), pixels;
  random.fill(noise, cv::RNG::NORMAL, 0.0, acquisition.noise);
  cv::Mat(frame + noise).convertTo(pixels, CV_8U, 255.0);
  return pixels;
}

void write_frame(const std::filesystem::path& path, const cv::Mat& frame) {
  cv::Mat rgb;
  cv::cvtColor(frame, rgb, cv::COLOR_GRAY2RGB);
  const auto count = static_cast<std::size_t>(3 * frame.cols * frame.rows);
  const std::string bytes =
      frames::encode_jpeg({frame.cols, frame.rows, {rgb.data, rgb.data + count}}, 95);
  write_exam_file(path, bytes);
}

std::string two_digits(std::size_t n) {
  return concat(n < 10 ? "0" : "", n);
}

}  // namespace

void validate(const MakeExamsOptions& options) {
  const auto refuse = [](const char* option, int value, int low, int high) {
    if (value < low || value > high)
      throw ConfigError(concat("--", option, " ", value, " is not between ", low, " and ", high));
  };
  refuse("exams", options.exams, 1, 10000);
  refuse("frames", options.frames, 2, 99);
  refuse("size", options.size, 64, 2048);
  if (options.out.empty()) throw ConfigError("--out is required: the folder for the exams");
}

SyntheticExam make_exam(const MakeExamsOptions& options, int number) {
  SyntheticExam exam;
  const int patient = patient_of(number);
  exam.id = concat("E", std::to_string(10000 + number).substr(1));
  exam.patient = concat("P", std::to_string(10000 + patient).substr(1));
  exam.label = label_of(options.seed, patient);

  cv::RNG anatomy = generator(options.seed, kAnatomies, patient);
  const VascularBed bed = draw_vascular_bed(anatomy, options.size);
  cv::RNG random = generator(options.seed, kExams, number);
  const Acquisition acquisition = draw_acquisition(random, options.size);

  // The kinetics run with the logarithm of time, as they slow down while the contrast dilutes.
  // Start, speed and the jitter of the times are symmetric under reversal of the order.
  const double start = random.uniform(0.0, kTurn), cycles = random.uniform(0.7, 1.0);
  const double direction = exam.label == 0 ? 1.0 : -1.0;
  for (int i = 0; i < options.frames; ++i) {
    const double moment = (i + random.uniform(-0.35, 0.35)) / (options.frames - 1);
    exam.time_s.push_back(3.0 * std::pow(200.0, moment));  // 3 s … 10 min
    const double phase = start + direction * cycles * kTurn * moment;
    exam.frames.push_back(render(random, bed, acquisition, enhancement_at(phase)));
  }
  return exam;
}

void write_exams(const MakeExamsOptions& options, const std::function<void()>& on_exam) {
  validate(options);
  std::string manifest = csv_row({"exam", "path", "time", "patient", "label"});
  for (int number = 0; number < options.exams; ++number) {
    const SyntheticExam exam = make_exam(options, number);
    const std::filesystem::path folder = std::filesystem::path("frames") / exam.id;
    std::filesystem::create_directories(options.out / folder);
    for (std::size_t i = 0; i < exam.frames.size(); ++i) {
      const std::filesystem::path path = folder / (two_digits(i) + ".jpg");
      write_frame(options.out / path, exam.frames[i]);
      manifest += csv_row({exam.id, path.string(), fixed(exam.time_s[i], 2), exam.patient,
                           std::to_string(exam.label)});
    }
    on_exam();
  }
  sync_tree(options.out);
  write_file_atomically(options.out / "exams.csv", manifest);
}

}  // namespace coldframe::examples
