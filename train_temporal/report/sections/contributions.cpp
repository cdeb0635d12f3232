// The section on what each frame of a few held-out exams added to the model's decision.
#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string one_exam(const FrameContributions& exam) {
  html::Chart chart{exam.title, exam.timed ? "seconds since the first frame" : "frame",
                    "added to " + exam.output_name};
  chart.series = {{concat(exam.output_name, " = ", fixed(exam.output, 2), ", of mean images ",
                          fixed(exam.baseline, 2)),
                   exam.at, exam.contribution},
                  {.name = "frames", .x = exam.at, .y = exam.contribution, .points = true}};
  chart.whole_x = !exam.timed;
  if (exam.at.size() > 1)
    chart.series.push_back(
        {.name = "no effect", .x = {exam.at.front(), exam.at.back()}, .y = {0, 0}, .dashed = true});
  chart.above = {exam.pictures, exam.maps};
  return html::line_chart(chart);
}

html::Body contributions_charts(const TargetReport& report) {
  html::Body body = html::paragraph(concat(
      report.examples.choice,
      ", by the models that did not see the exam. A frame above 0 raises the output, one below "
      "lowers it: integrated gradients from an exam whose frames are all the training part's "
      "mean; ",
      report.examples.note, "."));
  if (!report.examples.maps.empty()) body += html::paragraph(report.examples.maps);
  if (report.held_out.exams.empty()) body += report.picture_note;
  for (const FrameContributions& exam : report.examples.exams) body += one_exam(exam);
  return body;
}

}  // namespace

std::span<const Section> contribution_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Contributions over time of example exams",
       .applies = [](const TargetReport& report) { return !report.examples.exams.empty(); },
       .body = contributions_charts}};
  return kSections;
}

}  // namespace coldframe::temporal
