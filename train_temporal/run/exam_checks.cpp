#include "train_temporal/run/exam_checks.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::temporal {

std::size_t count_known(const std::filesystem::path& run, std::span<const cache::ExamInfo> exams,
                        const std::vector<std::string>& patients,
                        const std::vector<std::size_t>& used) {
  const CsvTable splits = read_csv(run / "splits.csv");
  const std::size_t exam = splits.require_column("exam");
  const auto patient = splits.column("patient"), part = splits.column("part");
  std::set<std::string> known_exams, known_patients;
  for (const auto& row : splits.rows) {
    if (part && row[*part] == "test") continue;  // in another fold it may be of another part
    known_exams.insert(row[exam]);
    if (patient && !row[*patient].empty()) known_patients.insert(plain_id(row[*patient]));
  }
  return static_cast<std::size_t>(std::ranges::count_if(used, [&](std::size_t i) {
    return known_exams.contains(exams[i].id) ||
           (!patients.empty() && known_patients.contains(plain_id(patients[i])));
  }));
}

std::string warn_of_same_ids(std::size_t known, const std::string& run,
                             const std::string& if_same_people) {
  return concat("the training of ", run, " had exams or patients with the ids of ",
                plural(known, "exam"), " of this cohort: if these are the same people, ",
                if_same_people, "; if they are other people, say so by --other-patients");
}

std::string warn_of_lengths(const ModelMetadata& card, std::span<const cache::ExamInfo> exams,
                            const std::vector<std::size_t>& used) {
  if (card.max_frames == 0) return {};
  std::size_t unlike = 0, least = SIZE_MAX, most = 0;
  for (std::size_t i : used) {
    const std::size_t frames = present_frames(exams[i]);
    unlike += frames > 2 * card.max_frames || 2 * frames < card.least_frames;
    least = std::min(least, frames);
    most = std::max(most, frames);
  }
  if (unlike == 0) return {};
  return concat(plural(unlike, "exam"), " of lengths far from those of the training (", least,
                " to ", most, " frames here, ", card.least_frames, " to ", card.max_frames,
                " there): nothing is known of how well the model does on these");
}

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
