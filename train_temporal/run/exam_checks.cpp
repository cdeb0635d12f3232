#include "train_temporal/run/exam_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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

constexpr const char* kModality = "modality";  // the column that extract makes of DICOM files

// Kinds of exams that are of no file, or of several.
bool is_known_kind(const std::string& kind) {
  return !kind.empty() && kind != "imported" && kind != "mixed";
}

bool is_new_kind(const ModelMetadata& card, const cache::ExamInfo& exam) {
  const auto& known = card.source_kinds;
  return is_known_kind(exam.source_kind) && std::ranges::all_of(known, is_known_kind) &&
         !known.empty() && std::ranges::find(known, exam.source_kind) == known.end();
}

bool is_new_modality(const ModelMetadata& card, const cache::ExamInfo& exam) {
  const std::string& modality = cache::column_value(exam, kModality);
  return !modality.empty() && !card.modalities.empty() &&
         std::ranges::find(card.modalities, modality) == card.modalities.end();
}

std::string kind_text(const ModelMetadata& card, const cache::ExamInfo& exam) {
  const std::string& modality = cache::column_value(exam, kModality);
  if (!is_new_modality(card, exam))
    return modality.empty() ? exam.source_kind : concat(exam.source_kind, ", ", modality);
  return modality;
}

// The first frame whose time is before that of an earlier one; 0: none.
std::size_t falling_frame(const cache::ExamInfo& exam) {
  double latest = -std::numeric_limits<double>::infinity();
  for (std::size_t t = 0; t < exam.time_s.size(); ++t) {
    if (exam.time_s[t] < latest) return t;
    if (std::isfinite(exam.time_s[t])) latest = exam.time_s[t];
  }
  return 0;
}

}  // namespace

bool is_of_other_kind(const ModelMetadata& card, const cache::ExamInfo& exam) {
  return is_new_kind(card, exam) || is_new_modality(card, exam);
}

std::string warn_of_kinds(const ModelMetadata& card, std::span<const cache::ExamInfo> exams,
                          const std::vector<std::size_t>& used) {
  std::map<std::string, std::size_t> kinds;
  std::size_t count = 0;
  for (const std::size_t i : used) {
    if (!is_of_other_kind(card, exams[i])) continue;
    ++kinds[kind_text(card, exams[i])];
    ++count;
  }
  if (count == 0) return {};
  std::vector<std::string> told;
  for (const auto& [kind, number] : kinds) told.push_back(concat(number, " ", kind));
  return concat(plural(count, "exam"), " of another kind than the training's (", join(told, "; "),
                "; trained on ", join(card.source_kinds, ", "),
                card.modalities.empty() ? "" : concat(": ", join(card.modalities, ", ")),
                "): nothing is known of how well the model does on these");
}

std::vector<std::string> modalities(std::span<const cache::ExamInfo> exams,
                                    const std::vector<std::size_t>& used) {
  std::set<std::string> found;
  for (const std::size_t i : used) found.insert(cache::column_value(exams[i], kModality));
  found.erase("");
  return {found.begin(), found.end()};
}

std::string warn_of_falling_times(const SequenceReader& cache,
                                  const std::vector<std::size_t>& used) {
  std::set<std::size_t> parts, falling;
  for (const std::size_t exam : used)
    for (const std::size_t part : cache.parts_of(exam)) parts.insert(part);
  for (const std::size_t part : parts)
    if (falling_frame(cache.alone(part)) > 0) falling.insert(part);
  if (falling.empty()) return {};
  const cache::ExamInfo& exam = cache.alone(*falling.begin());
  return concat("the times of frames fall within ", plural(falling.size(), "exam"), ", such as '",
                exam.id, "', frame ", falling_frame(exam),
                ": models see frames in the order stored, and a step back as no time at all; if "
                "the order is wrong, sort the frames (extract --sort time)");
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
