// The exams of a report, and what became of those that were left out.
#include <algorithm>
#include <functional>
#include <iterator>
#include <span>

#include "common/charts/data_table.h"
#include "common/charts/html.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

namespace {

// The steps at which exams are lost, as files and as the page name them.
struct FlowStep {
  const char *key, *said;
  std::size_t ExamFlow::*exams;
};
constexpr FlowStep kFlowSteps[] = {
    {"found", "", &ExamFlow::found},
    {"failed", "could not be read", &ExamFlow::failed},
    {"without_frame", "without a readable frame", &ExamFlow::without_frame},
    {"without_label", "without a label", &ExamFlow::without_label},
    {"in_no_part", "in no part of the split", &ExamFlow::in_no_part},
    {"used", "", &ExamFlow::used}};
constexpr std::span<const FlowStep> kWaysOut(kFlowSteps + 1, std::size(kFlowSteps) - 2);

// "38–41 exams" over the folds, "40 exams" where all have as many.
std::string range_of(const std::vector<FoldChoice>& folds, FoldChoice::Part FoldChoice::*part,
                     std::size_t FoldChoice::Part::*count, const std::string& what) {
  std::vector<std::size_t> counts;
  for (const FoldChoice& fold : folds) counts.push_back(fold.*part.*count);
  const auto [least, most] = std::ranges::minmax(counts);
  return concat(least == most ? "" : concat(least, "–"), plural(most, what));
}

// The parts of the split, where they are of the exams used: those of a fold are of all targets.
void add_arms(html::FlowChart& flow, const TargetReport& report) {
  const std::vector<FoldChoice>& folds = report.choices;
  const auto beyond = [&](const FoldChoice& fold) {
    return fold.train.exams + fold.validation.exams + fold.test.exams > report.data.flow.used;
  };
  if (folds.empty() || std::ranges::any_of(folds, beyond)) return;
  const std::size_t repeats = folds.back().repeat + 1;
  if (folds.size() > 1)
    flow.division = concat("in each of ", folds.size() / repeats, " folds",
                           repeats > 1 ? concat(", ", repeats, " times") : "");
  const auto add = [&](const char* name, FoldChoice::Part FoldChoice::*part) {
    flow.arms.push_back({name, range_of(folds, part, &FoldChoice::Part::exams, "exam"),
                         "of " + range_of(folds, part, &FoldChoice::Part::patients, "patient")});
  };
  add("training", &FoldChoice::train);
  add("validation", &FoldChoice::validation);
  add("held out", &FoldChoice::test);
}

std::string flow_chart(const TargetReport& report) {
  const ExamFlow& exams = report.data.flow;
  html::FlowChart flow{
      "Flow of exams",
      {plural(exams.found, "exam") + " found"},
      {plural(exams.found - exams.used, "exam") + " left out"},
      {plural(exams.used, "exam") + " used", "of " + plural(report.data.patients, "patient")}};
  for (const FlowStep& step : kWaysOut)
    flow.left_out.push_back(concat(exams.*step.exams, " ", step.said));
  add_arms(flow, report);
  return html::flow_chart(flow);
}

html::Body flow_section(const TargetReport& report) {
  const ExamFlow& flow = report.data.flow;
  html::Rows rows = {{"found", concat(flow.found)}};
  for (const FlowStep& step : kWaysOut)
    rows.push_back({concat("− ", step.said), concat(flow.*step.exams)});
  rows.push_back({concat("used, of ", plural(report.data.patients, "patient")), concat(flow.used)});
  return flow_chart(report) + html::table({"", "exams"}, rows);
}

void add_flow(Json& summary, const TargetReport& report) {
  for (const FlowStep& step : kFlowSteps) summary["flow"][step.key] = report.data.flow.*step.exams;
}

std::string flow_csv(const TargetReport& report) {
  std::string csv = csv_row({"step", "exams"});
  for (const FlowStep& step : kFlowSteps)
    csv += csv_row({step.key, concat(report.data.flow.*step.exams)});
  return csv;
}

// Table 1, with a header that begins with these two columns.
html::Rows characteristic_rows(const TargetReport& report, const std::string& first,
                               const std::string& second) {
  html::Rows rows = {{first, second}};
  if (report.characteristics.front().cells.size() > 1)
    rows[0].insert(rows[0].end(), report.groups.begin(), report.groups.end());
  rows[0].emplace_back("all");
  for (const Characteristic& one : report.characteristics) {
    rows.push_back({one.column, one.row});
    rows.back().insert(rows.back().end(), one.cells.begin(), one.cells.end());
  }
  return rows;
}

html::Body characteristics_section(const TargetReport& report) {
  auto rows = characteristic_rows(report, "", "");
  const std::vector<std::string> header = rows.front();
  rows.erase(rows.begin());
  return html::table(header, rows) +
         html::paragraph("Of the exams used; fractions are of the exams that have a value.");
}

std::string characteristics_csv(const TargetReport& report) {
  std::string csv;
  for (const auto& row : characteristic_rows(report, "column", "row")) csv += csv_row(row);
  return csv;
}

void add_characteristics(Json& summary, const TargetReport& report) {
  Json& json = summary["characteristics"] = Json::array();
  for (const Characteristic& one : report.characteristics)
    json.push_back({{"column", one.column}, {"row", one.row}, {"cells", one.cells}});
}

// Columns are named in backticks, properties of the files in words.
std::string name_text(const std::string& name, bool of_file) {
  return of_file ? name : concat("`", name, "`");
}

// The figure of a column, or of a property of the files, without any image.
std::string alone_text(const TargetReport& report, const Confound& one) {
  return concat(name_text(one.name, one.of_file), " alone reaches ", report.confounds.metric->title,
                " ", interval_text(one.figure), " on '", report.target, "'");
}

// What to do about a column that predicts the labels.
std::string remedy_text(const TargetReport& report, const Confound& one) {
  if (one.name == report.held_out_by) return "each of its groups is held out here";
  const std::string name = shell_word(one.name), compare = concat("--covariates ", name);
  if (one.of_file) return "part of the result may come from how the exams were acquired";
  if (one.numeric) return concat("see what the images add to it (", compare, ")");
  return concat("if it says where exams come from, hold that out (--folds groups --group ", name,
                "); if it is known of patients beforehand, see what the images add to it (",
                compare, ")");
}

std::string advice_text(const TargetReport& report, const Confound& one) {
  if (!one.may_be_label || one.name == report.held_out_by) return remedy_text(report, one);
  return "it may be the outcome in other words, so leave it out of --covariates";
}

std::string one_class_text(const TargetReport& report, const Confound& one) {
  const OneClassValue& value = one.one_class;
  if (value.exams == 0) return {};
  return concat(value.exams, " of the ", plural(value.exams_of_class, "exam"), " of class '",
                report.classes[static_cast<std::size_t>(value.of_class)], "' have ",
                name_text(one.name, one.of_file), " '", value.value,
                "', which no exam of another class has");
}

// Columns that tell the class of every exam.
std::string tells_class_text(const TargetReport& report) {
  std::vector<std::string> names;
  for (const Confound& one : report.confounds.found)
    if (one.tells_class) names.push_back(name_text(one.name, one.of_file));
  if (names.empty()) return {};
  return concat(join(names, ", "), names.size() > 1 ? " each tell" : " tells", " '", report.target,
                "' of every exam: either that is the label in other words, or exams of one class "
                "come from elsewhere than those of another, which no split can tell apart");
}

// How many were looked at, and what counts as found.
std::string looked_at_text(const Confounds& confounds) {
  return concat(plural(confounds.columns, "column"), " and ", confounds.properties,
                confounds.properties == 1 ? " property" : " properties",
                " of the files, each by itself");
}

// The advice, and what some of its values tell.
std::string what_to_know(const TargetReport& report, const Confound& one) {
  const std::string values = one_class_text(report, one);
  return concat(advice_text(report, one), ".", values.empty() ? "" : concat(" ", values, "."));
}

// Those that may be the label in other words come last: whatever predicts it besides is hidden
// behind them.
std::vector<const Confound*> in_order_of_interest(const Confounds& confounds) {
  std::vector<const Confound*> order;
  for (const bool may_be_label : {false, true})
    for (const Confound& one : confounds.found)
      if (one.may_be_label == may_be_label) order.push_back(&one);
  return order;
}

std::string not_found_text(const Confounds& confounds) {
  std::vector<std::string> names;
  for (const TraitName& one : confounds.not_found)
    names.push_back(name_text(one.name, one.of_file));
  return names.empty() ? "" : concat("Looked at and not found: ", join(names, ", "), ".");
}

html::Body confounds_section(const TargetReport& report) {
  const Confounds& confounds = report.confounds;
  html::Rows rows;
  for (const Confound* one : in_order_of_interest(confounds))
    rows.push_back({one->name,
                    one->of_file   ? "file"
                    : one->numeric ? "number"
                                   : "category",
                    interval_text(one->figure), what_to_know(report, *one)});
  html::Body body = html::paragraph(
      concat("Looked at: ", looked_at_text(confounds), ", for patients held out in turn. ",
             rows.empty() ? "None predicts the label better than other patients' values do"
                          : "These predict the label without any image, better than other "
                            "patients' values do",
             " (p ≤ 0.05 / ", confounds.looked_at(), ")."));
  if (!rows.empty())
    body += html::table({"", "taken as", concat(confounds.metric->title, " alone"), ""}, rows);
  if (rows.size() > kBoundedConfounds)
    body += html::paragraph(concat("Intervals are of the first ", kBoundedConfounds, "."));
  if (const std::string all = tells_class_text(report); !all.empty())
    body += html::paragraph(all + ".");
  if (const std::string others = not_found_text(confounds); !others.empty())
    body += html::paragraph(others);
  return body;
}

void add_confounds(Json& summary, const TargetReport& report) {
  const Confounds& confounds = report.confounds;
  Json& json = summary["confounds"] = {{"columns", confounds.columns},
                                       {"properties_of_files", confounds.properties},
                                       {"p_limit", confounds.p_limit},
                                       {"metric", confounds.metric->key},
                                       {"found", Json::array()}};
  for (const Confound& one : confounds.found) {
    json["found"].push_back({{"name", one.name},
                             {"of_file", one.of_file},
                             {"tells_class", one.tells_class},
                             {"may_be_label", one.may_be_label},
                             {"figure", to_json(one.figure)},
                             {"p", one.p}});
    if (const std::string said = one_class_text(report, one); !said.empty())
      json["found"].back()["one_class"] = said;
  }
  json["not_found"] = Json::array();
  for (const TraitName& one : confounds.not_found) json["not_found"].push_back(one.name);
  if (const std::string said = confound_sentence(report); !said.empty()) json["said"] = said;
}

// What tells the class of every exam, the strongest others, and what was looked at besides.
std::string confounds_text(const TargetReport& report) {
  constexpr std::size_t kTold = 5;
  const std::string of_all = tells_class_text(report);
  std::string text = of_all.empty() ? "" : of_all + ".\n";
  std::size_t told = 0, more = 0;
  for (const Confound* one : in_order_of_interest(report.confounds)) {
    if (one->tells_class) continue;
    if (told == kTold) {
      ++more;
      continue;
    }
    text += concat(alone_text(report, *one), ": ", what_to_know(report, *one), "\n");
    ++told;
  }
  if (more > 0) text += concat("report.html has ", more, " more.\n");
  const std::string others = not_found_text(report.confounds);
  return text + (others.empty() ? "" : others + "\n");
}

}  // namespace

std::string confound_sentence(const TargetReport& report) {
  const auto order = in_order_of_interest(report.confounds);
  if (order.empty()) return {};
  const std::size_t all = report.confounds.looked_at();
  return concat("Without any image ", alone_text(report, *order.front()), ": ",
                advice_text(report, *order.front()), ". Of ", all,
                " columns and properties of the files, ", order.size(),
                order.size() == 1 ? " predicts it." : " predict it.");
}

std::span<const Section> cohort_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Flow of exams",
       .applies = [](const TargetReport& report) { return report.data.flow.found > 0; },
       .body = flow_section,
       .json = add_flow,
       .drawings = {{{"flow", flow_chart}}},
       .tables = {{{"flow", flow_csv}}}},
      {.heading = "Characteristics by class",
       .applies = [](const TargetReport& report) { return !report.characteristics.empty(); },
       .body = characteristics_section,
       .json = add_characteristics,
       .tables = {{{"characteristics", characteristics_csv}}}},
      {.heading = "What predicts the label without images",
       .applies = [](const TargetReport& report) { return report.confounds.looked_at() > 0; },
       .body = confounds_section,
       .json = add_confounds,
       .text = confounds_text}};
  return kSections;
}

// The labels of the exams, and the parts of the split.

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
  if (data.patients_of_several_classes > 0)
    pairs.emplace_back("patients with exams of several classes",
                       concat(data.patients_of_several_classes));
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
                      "temperature", "threshold", title_of(metric, report.classes.size())},
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

// The section on covariates: columns, how they are taken, and how many exams lack them.

std::string covariate_names(const TargetReport& report) {
  std::string names;
  for (std::size_t i = 0; i < report.covariates.size(); ++i) {
    const bool last = i + 1 == report.covariates.size();
    names += concat(i == 0 ? "" : last ? " and " : ", ", report.covariates[i].name);
  }
  return names;
}

namespace {

html::Body covariates_section(const TargetReport& report) {
  html::Rows rows;
  for (const CovariateFacts& one : report.covariates)
    rows.push_back({one.name, one.kind, concat(one.missing)});
  return html::table({"column", "taken as", "exams without a value"}, rows) +
         html::paragraph(
             concat(report.frame_covariates ? "They are after the features of every frame. "
                                            : "They are a linear term added at the head: what "
                                              "they add does not depend on the images. ",
                    "Numbers are standardised by the training part of each fold, categories "
                    "are its own; a value that is missing is the mean, and known to be "
                    "missing where the training part lacks some, too."));
}

void add_covariates(Json& summary, const TargetReport& report) {
  Json& json = summary["covariates"] = {{"at", report.frame_covariates ? "frames" : "head"},
                                        {"columns", Json::array()}};
  for (const CovariateFacts& one : report.covariates)
    json["columns"].push_back(
        {{"name", one.name}, {"kind", one.kind}, {"exams_without_value", one.missing}});
}

}  // namespace

std::span<const Section> covariate_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Covariates",
       .applies = [](const TargetReport& report) { return !report.covariates.empty(); },
       .body = covariates_section,
       .json = add_covariates}};
  return kSections;
}

// All held-out exams, the worst first, with their frames where the cache has thumbnails.

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

// The section on what each frame of a few held-out exams added to the model's decision.

namespace {

std::string one_exam(const FrameContributions& exam) {
  html::Chart chart{exam.title, exam.timed ? "seconds since the first frame" : "frame",
                    "added to " + exam.output_name};
  chart.series = {{concat(exam.output_name, " = ", fixed(exam.output, 2), ", of ",
                          exam.baseline_name, " ", fixed(exam.baseline, 2)),
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
      "lowers it: integrated gradients from ",
      report.examples.baseline, "; ", report.examples.note, "."));
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

// The run as a whole: its options, time and memory.

std::span<const Section> run_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Configuration",
       .applies = [](const TargetReport& report) { return !report.configuration.empty(); },
       .body = [](const TargetReport& report) -> html::Body {
         return html::key_values(report.configuration);
       }},
      {.heading = "Features",
       .applies = [](const TargetReport& report) { return !report.recipe.empty(); },
       .body = [](const TargetReport& report) -> html::Body {
         return html::key_values(report.recipe);
       }},
      {.heading = "Time and memory",
       .applies = [](const TargetReport& report) { return !report.resources.empty(); },
       .body = [](const TargetReport& report) -> html::Body {
         return html::key_values(report.resources);
       }}};
  return kSections;
}

}  // namespace coldframe::temporal
