// The metrics of classes per frame as the phases of surgery are judged by, each computed of one
// exam's frames and then averaged over exams. Frames without a label are left out.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/text/text.h"
#include "train_temporal/metrics/metric_input.h"
#include "train_temporal/metrics/metric_table.h"

namespace coldframe::temporal {
namespace {

using Classes = std::vector<int>;  // of frames, or of segments

// Of a class in one exam; NaN where no label is of it.
double jaccard_of_class(const FrameSequence& frames, int c) {
  double both = 0, labelled = 0, either = 0;
  for (std::size_t i = 0; i < frames.label.size(); ++i) {
    const bool is = frames.label[i] == c, decided = frames.decision[i] == c;
    labelled += is;
    either += is || decided;
    both += is && decided;
  }
  return labelled > 0 ? both / either : std::nan("");
}

// The mean over classes of the mean over the exams that have the class in their labels.
MetricValue jaccard(const MetricInput& in) {
  if (std::string why = in.missing_class(); !why.empty()) return MetricValue::none(why);
  std::vector<double> sum(in.exams.label_count(), 0.0), exams(in.exams.label_count(), 0.0);
  for (const FrameSequence& frames : in.sequences()) {
    for (std::size_t c = 0; c < sum.size(); ++c) {
      const double share = jaccard_of_class(frames, static_cast<int>(c));
      if (std::isnan(share)) continue;
      sum[c] += share;
      exams[c] += 1;
    }
  }
  double mean = 0;
  for (std::size_t c = 0; c < sum.size(); ++c) {
    if (exams[c] == 0)
      return MetricValue::none(concat("class number ", c, " is never decided for"));
    mean += sum[c] / exams[c];
  }
  return MetricValue::of(mean / static_cast<double>(sum.size()));
}

// Frames of one class that follow each other.
struct Segment {
  int of_class = 0;
  double first = 0, behind = 0;  // frames
};

std::vector<Segment> segments_of(const Classes& frames) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (segments.empty() || segments.back().of_class != frames[i])
      segments.push_back({frames[i], static_cast<double>(i), 0});
    segments.back().behind = static_cast<double>(i + 1);
  }
  return segments;
}

double intersection_over_union(const Segment& a, const Segment& b) {
  if (a.of_class != b.of_class) return 0;
  const double both = std::min(a.behind, b.behind) - std::max(a.first, b.first);
  return both / (std::max(a.behind, b.behind) - std::min(a.first, b.first));
}

// A predicted segment is right where the true one of its class that it overlaps most is overlapped
// by so much, and by no earlier one.
double segment_f1(const FrameSequence& frames, double least_overlap) {
  const std::vector<Segment> truth = segments_of(frames.label);
  const std::vector<Segment> predicted = segments_of(frames.decision);
  std::vector<bool> found(truth.size(), false);
  for (const Segment& segment : predicted) {
    std::vector<double> overlap;
    for (const Segment& each : truth) overlap.push_back(intersection_over_union(segment, each));
    const auto most = std::ranges::max_element(overlap);
    if (*most >= least_overlap) found[static_cast<std::size_t>(most - overlap.begin())] = true;
  }
  const auto right = static_cast<double>(std::ranges::count(found, true));
  return 2 * right / static_cast<double>(truth.size() + predicted.size());
}

Classes classes_of(const std::vector<Segment>& segments) {
  Classes classes;
  for (const Segment& segment : segments) classes.push_back(segment.of_class);
  return classes;
}

// Insertions, deletions and substitutions that make one of the other (Levenshtein).
std::size_t edit_distance(const Classes& a, const Classes& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, changed});
    }
  }
  return row.back();
}

double edit_score(const FrameSequence& frames) {
  const Classes truth = classes_of(segments_of(frames.label));
  const Classes predicted = classes_of(segments_of(frames.decision));
  return 1 - static_cast<double>(edit_distance(truth, predicted)) /
                 static_cast<double>(std::max(truth.size(), predicted.size()));
}

template <typename Score>
MetricValue mean_over_exams(const MetricInput& in, const Score& score) {
  double sum = 0;
  for (const FrameSequence& frames : in.sequences()) sum += score(frames);
  return MetricValue::of(sum / static_cast<double>(in.sequences().size()));
}

template <int kPercent>
MetricValue segment_f1_at(const MetricInput& in) {
  return mean_over_exams(
      in, [](const FrameSequence& frames) { return segment_f1(frames, kPercent / 100.0); });
}

constexpr MetricRow segment_row(std::string_view key, std::string_view title,
                                MetricValue (*compute)(const MetricInput&)) {
  return {.key = key,
          .title = title,
          .labels = kAllClasses,
          .compute = compute,
          .shape = Shape::kShare,
          .units = Units::kPatients,
          .frames_only = true};
}

// F1 of segments and the edit score: Lea et al. 2017, Temporal convolutional networks for action
// segmentation and detection.
constexpr MetricRow kFrameMetrics[] = {
    {.key = "jaccard",  // mean over classes
     .title = "Jaccard",
     .labels = kAllClasses,
     .compute = jaccard,
     .shape = Shape::kShare,
     .frames_only = true},
    segment_row("segment_f1_10", "Segment F1@10", segment_f1_at<10>),
    segment_row("segment_f1_25", "Segment F1@25", segment_f1_at<25>),
    segment_row("segment_f1_50", "Segment F1@50", segment_f1_at<50>),
    segment_row("edit_score", "Edit score",
                [](const MetricInput& in) { return mean_over_exams(in, edit_score); }),
};

}  // namespace

std::span<const MetricRow> frame_metrics() {
  return kFrameMetrics;
}

}  // namespace coldframe::temporal
