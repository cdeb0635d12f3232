// Exams that are odd by the number and the times of their frames.
#include <algorithm>
#include <cmath>

#include "cache/tool/figures/times.h"
#include "cache/tool/odd/finder.h"
#include "common/charts/svg.h"
#include "common/numbers/quantile.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

std::string duration(double seconds) {
  const TimeUnit unit = time_unit(std::abs(seconds));
  return concat(html::number_text(seconds / unit.seconds), unit.sign);
}

// What each exam's number of frames and times are.
struct Sequences {
  std::vector<double> frames, spans, typical_steps, gaps, starts;
};

void find_odd_times(const ExamInfo& exam, std::size_t index, OddityFinder& finder) {
  std::vector<std::size_t> unknown, falling, equal;
  for (std::size_t t = 0; t < exam.frames(); ++t) {
    if (!std::isfinite(exam.time_s[t])) {
      unknown.push_back(t);
    } else if (t > 0 && exam.time_s[t] < exam.time_s[t - 1]) {
      falling.push_back(t);
    } else if (t > 0 && exam.time_s[t] == exam.time_s[t - 1]) {
      equal.push_back(t);
    }
  }
  if (!falling.empty())
    finder.note("falling times", index, name_frames(falling) + " earlier than the one before");
  if (!equal.empty())
    finder.note("equal times", index, name_frames(equal) + " at the time of the one before");
  if (!unknown.empty())
    finder.note("unknown times", index,
                unknown.size() == exam.frames() ? "times unknown"
                                                : "time unknown of " + name_frames(unknown));
}

void find_odd_frames(const ExamInfo& exam, std::size_t index, OddityFinder& finder) {
  if (exam.frames() == 1) finder.note("single frames", index, "a single frame");
  if (const std::size_t missing = missing_frames(exam); missing > 0)
    finder.note("missing frames", index, concat(missing, " of ", exam.frames(), " frames missing"));
}

void take(const ExamInfo& exam, Sequences& sequences) {
  const std::vector<double> steps = intervals(exam);
  sequences.frames.push_back(static_cast<double>(exam.frames()));
  sequences.spans.push_back(time_span(exam));
  sequences.starts.push_back(exam.start_time);
  sequences.typical_steps.push_back(steps.empty() ? std::nan("") : median(steps));
  sequences.gaps.push_back(steps.size() < 3
                               ? std::nan("")
                               : *std::ranges::max_element(steps) / sequences.typical_steps.back());
}

}  // namespace

void find_odd_sequences(const Examined& examined, OddityFinder& finder) {
  Sequences sequences;
  const std::vector<ExamInfo>& exams = examined.cache.exams();
  for (std::size_t i = 0; i < exams.size(); ++i) {
    find_odd_frames(exams[i], i, finder);
    find_odd_times(exams[i], i, finder);
    take(exams[i], sequences);
  }
  const auto plain = [](const char* what) {
    return [what](std::size_t, double value, double usual) {
      return concat(what, " ", html::number_text(value), ", usually ", html::number_text(usual));
    };
  };
  const auto of_time = [](const char* what) {
    return [what](std::size_t, double value, double usual) {
      return concat(what, " ", duration(value), ", usually ", duration(usual));
    };
  };
  finder.measure({"number of frames", true, 1.5}, sequences.frames, plain("number of frames"));
  finder.measure({"time span", true, 1.5}, sequences.spans, of_time("time span"));
  finder.measure({"interval", true, 1.5}, sequences.typical_steps,
                 of_time("typical interval between frames"));
  finder.measure({"gap between frames", true, 3, true}, sequences.gaps,
                 [](std::size_t, double value, double) {
                   return concat("one interval is ", html::number_text(value),
                                 " times as long as the typical one");
                 });
  finder.measure({"date", false}, sequences.starts, [](std::size_t, double value, double usual) {
    return concat("begins ", duration(std::abs(value - usual)),
                  value < usual ? " before" : " after", " the median exam");
  });
}

}  // namespace coldframe::cache::tool
