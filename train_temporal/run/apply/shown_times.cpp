#include "train_temporal/run/apply/shown_times.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

bool lacks_times(const cache::ExamInfo& exam, bool elapsed) {
  if (elapsed && !std::isfinite(exam.elapsed_start)) return true;
  if (present_frames(exam) < 2) return false;  // there is no interval
  return clock_descriptor(exam, {})[kClockUntimed] > 0;
}

}  // namespace

std::string check_times(Ensemble& ensemble, const SequenceReader& cache,
                        const std::vector<std::size_t>& exams, bool without_times) {
  if (!ensemble.sees_times() || exams.empty()) return {};
  const bool elapsed = ensemble.card().config.elapsed;
  const auto lacking = static_cast<std::size_t>(std::ranges::count_if(
      exams, [&](std::size_t exam) { return lacks_times(cache.exams()[exam], elapsed); }));
  if (lacking == 0) return {};
  const std::string what =
      concat("the models were shown the time of every frame",
             elapsed ? " since a zero that all exams share (an injection)" : "", ", and of ",
             lacking == exams.size() ? "none" : concat(exams.size() - lacking), " of these ",
             plural(exams.size(), "exam"), elapsed ? " is it known" : " are times known");
  if (lacking < exams.size() || without_times)
    return concat(what, ": nothing is known of how well they do on the other ", lacking,
                  "; extract these with the times of their frames");
  throw DataError(concat(what, ": they would do worse than their report says; extract these exams ",
                         "with the times of their frames, or say --without-times to go on all the ",
                         "same"));
}

}  // namespace coldframe::temporal
