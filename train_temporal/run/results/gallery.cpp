#include "train_temporal/run/results/gallery.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>

#include "common/text/text.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

HeldOutExams::Exam one_exam(const PredictionTable& table, std::size_t row, const std::string& id) {
  const Target& target = table.targets.front();
  const PredictionTable::OfTarget& of = table.of.front();
  const auto scores = table.scores(0, row);
  const double label = of.label[row];
  HeldOutExams::Exam exam{id, target.kind().label_text(target, label), "", table.rows[row].fold};
  if (target.has_classes()) {
    const auto decided = static_cast<std::size_t>(of.decision[row]);
    exam.decision = target.classes[decided];
    exam.output = scores[target.has_threshold() ? 1 : decided];
    exam.error = 1 - scores[static_cast<std::size_t>(label)];
  } else {
    exam.output = scores.front();
    exam.error = std::abs(scores.front() - label);
  }
  return exam;
}

// The largest errors first; of classes, every third exam is one that is decided rightly, drawn at
// even steps from the least sure to the surest.
std::vector<std::size_t> picture_order(const std::vector<HeldOutExams::Exam>& exams) {
  std::vector<std::size_t> order(exams.size()), right, others, mixed;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return exams[i].error; });
  for (const std::size_t i : order)
    (exams[i].decision == exams[i].truth ? right : others).push_back(i);
  const std::size_t step =
      std::max<std::size_t>(2 * right.size() / std::max<std::size_t>(others.size(), 1), 1);
  std::size_t drawn = 0;
  std::vector<bool> is_drawn(exams.size());
  for (std::size_t i = 0; i < others.size(); ++i) {
    mixed.push_back(others[i]);
    if (i % 2 == 0 || drawn >= right.size()) continue;
    mixed.push_back(right[drawn]);
    is_drawn[right[drawn]] = true;
    drawn += step;
  }
  std::ranges::copy_if(right, std::back_inserter(mixed),
                       [&](std::size_t i) { return !is_drawn[i]; });
  return mixed;
}

void add_pictures(HeldOutExams& held_out, const std::vector<std::size_t>& exams,
                  cache::Pictures& pictures) {
  if (!pictures.wanted()) return;
  for (const std::size_t i : picture_order(held_out.exams)) {
    held_out.exams[i].pictures = pictures.of(exams[i]);
    if (pictures.is_full()) break;
  }
}

HeldOutExams held_out_exams(const ModelPredictions& main, const Cohort& cohort,
                            cache::Pictures& pictures) {
  const PredictionTable& table = main.held_out;
  const Target& target = table.targets.front();
  HeldOutExams held_out;
  if (table.per_frame() || target.is_timed() || table.rows.empty()) return held_out;
  held_out.output_name = target.has_threshold() ? concat("P(", target.classes[1], ")")
                         : target.has_classes() ? "P(decision)"
                                                : "predicted";
  held_out.error_name = target.has_classes() ? "1 − P(truth)" : "error";
  std::vector<std::size_t> exams;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (table.rows[row].repeat != table.rows.front().repeat ||
        std::isnan(table.of.front().label[row]))
      continue;
    exams.push_back(table.rows[row].exam);
    held_out.exams.push_back(one_exam(table, row, cohort.exams()[exams.back()].id));
  }
  add_pictures(held_out, exams, pictures);
  return held_out;
}

}  // namespace

void show_held_out(const ModelPredictions& main, const Cohort& cohort, cache::Pictures& pictures,
                   TargetReport& report) {
  report.held_out = held_out_exams(main, cohort, pictures);
  report.picture_note = pictures.note(
      "those of example exams and of the largest errors, some right answers between,");
}

}  // namespace coldframe::temporal
