// All held-out exams, the worst first, with their frames where the cache has thumbnails.
#include "common/charts/data_table.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

html::Body gallery(const TargetReport& report) {
  const HeldOutExams& held_out = report.held_out;
  std::vector<std::string> ids, truths, decisions, results;
  std::vector<double> outputs, errors, folds;
  const bool classes = !report.classes.empty();
  for (const HeldOutExams::Exam& exam : held_out.exams) {
    ids.push_back(exam.id);
    truths.push_back(exam.truth);
    decisions.push_back(exam.decision);
    results.emplace_back(exam.truth == exam.decision ? "right" : "wrong");
    outputs.push_back(exam.output);
    errors.push_back(exam.error);
    folds.push_back(static_cast<double>(exam.fold));
  }
  html::DataTable table("heldout", "exam", std::move(ids));
  table.add_numbers(held_out.error_name, std::move(errors), 3);
  table.add_text("truth", std::move(truths));
  if (classes) {
    table.add_text("decision", std::move(decisions));
    table.add_text("result", std::move(results));
  }
  table.add_numbers(held_out.output_name, std::move(outputs), 3);
  table.add_numbers("fold", std::move(folds), 0);
  for (std::size_t i = 0; i < held_out.exams.size(); ++i)
    if (!held_out.exams[i].pictures.empty()) table.pictures[i] = held_out.exams[i].pictures;
  if (!report.picture_note.empty())
    table.without_pictures = "This page has no pictures of this exam.";
  return html::paragraph(
             "Exams of all folds, each with the prediction of the models that did not see it, the "
             "largest errors first. A click on a name shows the exam.") +
         report.picture_note + table.html(held_out.error_name);
}

}  // namespace

std::span<const Section> gallery_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Held-out exams",
       .applies = [](const TargetReport& report) { return !report.held_out.exams.empty(); },
       .body = gallery}};
  return kSections;
}

}  // namespace coldframe::temporal
