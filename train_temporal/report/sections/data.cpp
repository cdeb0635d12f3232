// The labels of the exams, and the parts of the split.
#include <algorithm>
#include <functional>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/scale_words.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string frames_chart(const TargetReport& report) {
  const auto& frames = report.data.frames_per_exam;
  if (std::ranges::adjacent_find(frames, std::not_equal_to{}) == frames.end()) return {};
  return html::histogram("Exams by number of frames", "frames", "exams",
                         {frames.begin(), frames.end()});
}

html::Body data_section(const TargetReport& report) {
  const DataOverview& data = report.data;
  KeyValues pairs = {{"target", report.target},
                     {"task", report.task + (report.per_frame ? ", per frame" : "")},
                     {"exams", concat(data.exams)},
                     {"patients", concat(data.patients)},
                     {"without a label or a readable frame", concat(data.unlabeled)}};
  if (!data.frames_per_exam.empty()) {
    std::vector<std::size_t> sorted = data.frames_per_exam;
    std::ranges::sort(sorted);
    pairs.emplace_back("frames per exam", concat(sorted.front(), " to ", sorted.back(), ", median ",
                                                 sorted[sorted.size() / 2]));
  }
  if (report.per_frame) pairs.emplace_back("frames without a label", concat(data.masked_frames));
  const bool times = report.scale == Scale::kTime;
  if (times) pairs.emplace_back(concat("with '", report.event, "'"), concat(data.events));
  if (times || report.scale == Scale::kNumber) {
    return html::key_values(pairs) +
           html::histogram(times ? "Times of events and of censoring" : "Labels", report.target,
                           labels_name(report), data.numbers) +
           frames_chart(report);
  }
  html::Rows rows;
  std::vector<html::Bar> bars;
  for (std::size_t c = 0; c < data.exams_per_class.size(); ++c) {
    const auto& [name, exams] = data.exams_per_class[c];
    const bool positive = report.classes.size() == 2 && name == report.classes[1];
    rows.push_back({name + (positive ? " (positive)" : ""), concat(exams),
                    c < data.patients_per_class.size() ? concat(data.patients_per_class[c]) : "–"});
    bars.push_back({name, static_cast<double>(exams)});
  }
  return html::key_values(pairs) + html::table({"class", labels_name(report), "patients"}, rows) +
         html::bar_chart(report.per_frame ? "Frames by class" : "Exams by class", bars, "") +
         frames_chart(report);
}

html::Body split_section(const TargetReport& report) {
  const Metric metric = main_metric(report.scale);
  const bool nominal = report.scale == Scale::kNominal;
  html::Rows rows;
  for (std::size_t f = 0; f < report.choices.size(); ++f) {
    const FoldChoice& choice = report.choices[f];
    const auto part = [](const FoldChoice::Part& one) {
      return concat(one.exams, " / ", one.patients);
    };
    rows.push_back({concat(choice.repeat), concat(choice.fold), part(choice.train),
                    part(choice.validation), part(choice.test),
                    nominal ? fixed(choice.temperature, 2) : "–",
                    nominal && report.classes.size() == 2 ? fixed(choice.threshold, 3) : "–"});
    const MetricSummary* figure = find_metric(report.models.front().summary, metric);
    const bool known = figure != nullptr && f < figure->per_fold.size();
    rows.back().push_back(known ? figure_text(figure->per_fold[f]) : "–");
  }
  return html::paragraph(concat(
             "Parts are disjoint by patient (", report.split, "). ", words_of(report.scale).choices,
             " the validation part only; the held-out part is used once, for the figures above.")) +
         html::table({"repeat", "fold", "training: exams / patients", "validation", "held out",
                      "temperature", "threshold", std::string(metric->title)},
                     rows);
}

}  // namespace

std::span<const Section> data_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Data", .body = data_section},
      {.heading = "Splits",
       .applies = [](const TargetReport& report) { return !report.choices.empty(); },
       .body = split_section}};
  return kSections;
}

}  // namespace coldframe::temporal
