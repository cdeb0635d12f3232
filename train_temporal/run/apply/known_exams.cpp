#include "train_temporal/run/apply/known_exams.h"

#include <algorithm>
#include <set>

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
  if (card.most_frames == 0) return {};
  std::size_t unlike = 0, least = SIZE_MAX, most = 0;
  for (std::size_t i : used) {
    const std::size_t frames = present_frames(exams[i]);
    unlike += frames > 2 * card.most_frames || 2 * frames < card.least_frames;
    least = std::min(least, frames);
    most = std::max(most, frames);
  }
  if (unlike == 0) return {};
  return concat(plural(unlike, "exam"), " of lengths far from those of the training (", least,
                " to ", most, " frames here, ", card.least_frames, " to ", card.most_frames,
                " there): nothing is known of how well the model does on these");
}

}  // namespace coldframe::temporal
