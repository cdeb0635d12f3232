#include "train_temporal/run/apply/prediction_table.h"

#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/run/predictions.h"

namespace coldframe::temporal {

std::vector<std::size_t> exams_with_frames(const cache::CacheReader& cache) {
  std::vector<std::size_t> exams;
  for (std::size_t i = 0; i < cache.exams().size(); ++i) {
    if (present_frames(cache.exams()[i]) > 0) exams.push_back(i);
  }
  return exams;
}

std::vector<std::vector<int>> decisions(const Ensemble& ensemble,
                                        const std::vector<std::vector<double>>& scores) {
  std::vector<std::vector<int>> decision;
  for (std::size_t t = 0; t < ensemble.targets().size(); ++t) {
    decision.push_back(decide(ensemble.targets()[t], scores[t], ensemble.threshold(t)));
  }
  return decision;
}

std::string prediction_table(const cache::CacheReader& cache, const std::vector<std::size_t>& exams,
                             const Ensemble& ensemble,
                             const std::vector<std::vector<double>>& scores,
                             const std::vector<OodScore>& unlike) {
  const std::vector<Target>& targets = ensemble.targets();
  const auto decision = decisions(ensemble, scores);
  std::vector<std::string> header = {"exam", "patient"};
  if (ensemble.per_frame()) header.push_back("frame");
  add_header(header, targets, WithLabels::kNo);
  if (!unlike.empty()) header.insert(header.end(), {"unlike_training", "unlike_rank"});
  std::string csv = csv_row(header);
  std::size_t next = 0;
  for (std::size_t n = 0; n < exams.size(); ++n) {
    const cache::ExamInfo& exam = cache.exams()[exams[n]];
    const std::vector<std::size_t> slots = present_slots(exam);
    for (std::size_t i = 0; i < (ensemble.per_frame() ? slots.size() : 1); ++i, ++next) {
      std::vector<std::string> row = {exam.id, exam.patient};
      if (ensemble.per_frame()) row.push_back(concat(slots[i]));
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const std::size_t width = targets[t].scores();
        add_prediction(row, targets[t], std::span(scores[t]).subspan(next * width, width),
                       decision[t][next]);
      }
      if (!unlike.empty())
        row.insert(row.end(), {exact(unlike[n].distance), exact(unlike[n].rank)});
      csv += csv_row(row);
    }
  }
  return csv;
}

}  // namespace coldframe::temporal
