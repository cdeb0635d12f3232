#include "extract/inspect/dry_run.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cache/format/shard.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/patients.h"

namespace coldframe::extract::dry_run {

// Estimates the size of the cache that a dry run looks ahead to.

// Bytes that a cut stores of one view of a frame: of the pixels, or of the tokens; 0 without one.
std::uint64_t estimate_cut_bytes(const Report& report);

// Bytes of a single-file cache of the exams that can be extracted.
std::uint64_t estimate_cache_bytes(const Report& report);

namespace {

// The recipe and the objects of a file, empty as they are.
constexpr std::uint64_t kFileBytes = 12 << 10;
// The lengths of what an extraction notes of an exam's files (pipeline/resume.h,
// decode/source_file.h).
constexpr std::size_t kStampBytes = 85, kDigestBytes = 32;

// What the cache will say of the exam, as far as it decides about sizes.
cache::ExamInfo info_of(const frames::ExamSpec& exam, const ExamSurvey& found,
                        const std::vector<std::string>& frame_columns) {
  cache::ExamInfo info;
  info.id = exam.id;
  info.patient = exam.patient;
  info.source_kind = found.kind;
  info.source_stamp.resize(kStampBytes);
  info.source_digest.resize(kDigestBytes);
  for (const auto& [name, value] : exam.columns) info.columns.push_back({name, value});
  for (const std::string& name : frame_columns) info.frame_columns.push_back({name, {}});
  for (const frames::ExamItem& item : exam.items) {
    info.frame_source.push_back(item.name);
    for (std::size_t c = 0; c < item.frame_columns.size(); ++c)
      info.frame_columns[c].values.push_back(item.frame_columns[c]);
  }
  return info;
}

}  // namespace

std::uint64_t estimate_cut_bytes(const Report& report) {
  if (!report.cut) return 0;
  const FrameSizes& sizes = report.sizes;
  return *report.cut == 0 ? 3 * static_cast<std::uint64_t>(report.image_size.pixels())
                          : sizes.tokens * sizes.width * report.feature_bytes;
}

std::uint64_t estimate_cache_bytes(const Report& report) {
  cache::MetadataSize size;
  cache::RowCounts counts;
  for (std::size_t i = 0; i < report.input.exams.size(); ++i) {
    const frames::ExamSpec& exam = report.input.exams[i];
    const ExamSurvey& found = report.survey.exams[i];
    if (!found.failure.empty()) continue;
    ++counts.exams;
    counts.frames += found.windows;
    counts.thumbnail_bytes += found.thumbnail_bytes;
    size.observe(info_of(exam, found, report.input.frame_columns));
  }
  const std::uint64_t row_bytes =
      report.sizes.features * report.feature_bytes + estimate_cut_bytes(report);
  return kFileBytes + counts.frames * report.views * row_bytes +
         size.bytes(counts, report.views * (report.cut ? 2 : 1), counts.thumbnail_bytes > 0);
}

namespace {

constexpr std::size_t kShownExams = 20, kShownCases = 5, kShownIds = 4;

struct Totals {
  std::size_t exams = 0, unreadable = 0, frames = 0, selected = 0, missing = 0, inputs = 0;
  std::size_t windows = 0, padded_windows = 0;
  std::size_t patients = 0, without_patient = 0;
  double decode_s = 0;
  bool has_clips = false;
  std::uint64_t cache_bytes = 0, thumbnail_bytes = 0;  // the latter are among the former
};

Totals total(const Report& report) {
  Totals totals;
  totals.exams = report.input.exams.size();
  totals.patients = frames::count_patients(report.input);
  for (std::size_t i = 0; i < totals.exams; ++i) {
    const ExamSurvey& exam = report.survey.exams[i];
    totals.without_patient += report.input.exams[i].patient.empty();
    totals.unreadable += !exam.failure.empty();
    if (!exam.failure.empty()) continue;
    totals.frames += exam.frames;
    totals.selected += exam.selected;
    totals.missing += exam.missing;
    totals.inputs += exam.inputs;
    totals.windows += exam.windows;
    totals.padded_windows += exam.padded_windows;
    totals.decode_s += exam.decode_s;
    totals.has_clips = totals.has_clips || exam.kind.starts_with("video");
    totals.thumbnail_bytes += exam.thumbnail_bytes;
  }
  totals.cache_bytes = estimate_cache_bytes(report);
  return totals;
}

// "1.2 s", "12 min", "3.5 h", "21 d": longitudinal exams span years.
std::string seconds_text(double seconds) {
  if (seconds < 1) return concat(fixed(seconds * 1000, seconds < 0.0995 ? 1 : 0), " ms");
  if (seconds < 600) return concat(fixed(seconds, seconds < 10 ? 2 : 1), " s");
  if (seconds < 7200) return concat(fixed(seconds / 60, 0), " min");
  if (seconds < 2 * 86400) return concat(fixed(seconds / 3600, 1), " h");
  constexpr double kDay = 86400, kYear = 365.25 * kDay;
  if (seconds < 2 * kYear) return concat(fixed(seconds / kDay, 1), " d");
  return concat(fixed(seconds / kYear, 1), " years");
}

// "every 35.0 ms", "3 frames every 2.00 s", "about 2.50 s".
std::string interval_text(const Timing& timing, const char* every) {
  const std::string frames =
      timing.at_once > 1 ? plural(timing.at_once, "frame") + " " : std::string();
  return concat(frames, every, " ", seconds_text(timing.interval_s));
}

std::string times_text(const Timing& timing) {
  switch (timing.kind) {
    case TimingKind::kUnknown:
      return "unknown";
    case TimingKind::kSingle:
      return "one time";
    case TimingKind::kPartlyKnown:
      return concat("partly known, over ", seconds_text(timing.span_s));
    case TimingKind::kConstant:
      return concat(seconds_text(timing.span_s), ", ", interval_text(timing, "every"));
    case TimingKind::kUneven:
      break;
  }
  return concat(seconds_text(timing.span_s), ", uneven, ",
                interval_text(timing, timing.at_once > 1 ? "about every" : "about"));
}

const char* times_word(TimingKind kind) {
  switch (kind) {
    case TimingKind::kUnknown:
      return "unknown";
    case TimingKind::kPartlyKnown:
      return "partly known";
    case TimingKind::kSingle:
      return "single";
    case TimingKind::kConstant:
      return "constant";
    case TimingKind::kUneven:
      break;
  }
  return "uneven";
}

std::string frames_text(const ExamSurvey& exam) {
  if (exam.selected == exam.frames) return std::to_string(exam.frames);
  return concat(exam.selected, " of ", exam.frames);
}

std::string product_text(const auto& edges, int digits) {
  return concat(fixed(static_cast<double>(edges[0]), digits), "×",
                fixed(static_cast<double>(edges[1]), digits), "×",
                fixed(static_cast<double>(edges[2]), digits));
}

std::string sizes_text(const ExamSurvey& exam) {
  if (exam.volume[0] > 0) return product_text(exam.volume, 0);
  if (exam.sizes.empty()) return "";
  const auto& [width, height] = exam.sizes.front();
  return concat(width, "×", height, exam.sizes.size() > 1 ? " and others" : "");
}

std::string order_text(const ExamSurvey& exam) {
  return exam.frames > 1 && !exam.basis.order.empty() ? "by " + exam.basis.order : "";
}

// "12 of 2.40 s, 1 padded"
std::string windows_text(const ExamSurvey& exam) {
  const std::string length = std::isfinite(exam.window_s)         ? seconds_text(exam.window_s)
                             : exam.padded_windows < exam.windows ? "unknown length"
                                                                  : "";
  return concat(exam.windows, length.empty() ? "" : " of ", length,
                exam.padded_windows > 0 ? concat(", ", exam.padded_windows, " padded") : "");
}

// "12 of 144×144×144 mm, 1 padded"
std::string blocks_text(const ExamSurvey& exam) {
  const int digits = *std::ranges::min_element(exam.block_mm) < 10 ? 3 : 0;
  return concat(exam.inputs, " of ", product_text(exam.block_mm, digits), " mm",
                exam.padded_windows > 0 ? concat(", ", exam.padded_windows, " padded") : "");
}

// The column of the backbone's inputs; null where these are frames.
const char* inputs_column(const Report& report) {
  return report.volume.is_on() ? "blocks" : report.clip_frames > 1 ? "windows" : nullptr;
}

std::vector<std::string> in_words(const std::vector<std::size_t>& counts) {
  std::vector<std::string> words;
  for (const std::size_t count : counts) words.push_back(concat(count));
  return words;
}

std::string exams_table(const Report& report) {
  TextRows rows{{"exam", "frames", "size", "times", "order", "kind", "patient"}};
  const bool has_phases = std::ranges::any_of(
      report.survey.exams, [](const ExamSurvey& exam) { return !exam.phases.empty(); });
  const char* const inputs = inputs_column(report);
  if (inputs) rows.front().insert(rows.front().begin() + 2, inputs);
  if (has_phases) rows.front().emplace_back("by phase");
  const std::size_t shown = std::min(kShownExams, report.input.exams.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& spec = report.input.exams[i];
    const ExamSurvey& exam = report.survey.exams[i];
    const std::string id = without_middle(spec.id, 40), patient = without_middle(spec.patient, 16);
    if (exam.failure.empty())
      rows.push_back({id, frames_text(exam), sizes_text(exam), times_text(exam.timing),
                      order_text(exam), exam.kind, patient.empty() ? "unknown" : patient});
    else
      rows.push_back({id, "–", "", "cannot be extracted", "", exam.kind, patient});
    if (inputs)
      rows.back().insert(rows.back().begin() + 2, !exam.failure.empty()   ? ""
                                                  : report.volume.is_on() ? blocks_text(exam)
                                                                          : windows_text(exam));
    if (has_phases) rows.back().push_back(join(in_words(exam.phases), " + "));
  }
  std::string text = table_text(rows);
  if (report.input.exams.size() > shown)
    text += concat("… and ", plural(report.input.exams.size() - shown, "more exam"),
                   " (--json lists all)\n");
  return text;
}

std::string cut_text(const Report& report) {
  if (!report.cut) return "";
  return concat(", with ", human_bytes(estimate_cut_bytes(report)), " for ",
                *report.cut == 0 ? "the pixels"
                                 : concat("what enters block ", *report.cut,
                                          report.sizes.assumed ? " (of a ViT-S/16)" : ""),
                " of every frame");
}

const char* row_text(const Report& report) {
  if (report.volume.is_on()) return report.volume.row_name();
  return report.clip_frames > 1 ? "window" : "frame";
}

std::string totals_text(const Totals& totals, const Report& report) {
  std::string text =
      concat("\nTotal: ", plural(totals.exams, "exam"), ", ", plural(totals.selected, "frame"));
  if (totals.selected != totals.frames) text += concat(" of ", totals.frames);
  if (totals.missing) text += concat(" (", totals.missing, " without a file)");
  text += concat(", ", plural(totals.patients, "patient"));
  if (totals.without_patient)
    text += concat(", ", plural(totals.without_patient, "exam"), " without one");
  if (totals.unreadable) text += concat("; ", totals.unreadable, " cannot be extracted");
  text += "\n";
  if (totals.patients)
    text += concat("Patients: ", frames::patients_text(report.input.patients), "\n");
  if (report.clip_frames > 1)
    text += concat("Windows: ", totals.windows, " of ", report.clip_frames, " frames",
                   totals.padded_windows > 0 ? concat(", ", totals.padded_windows, " padded") : "",
                   "\n");
  if (report.volume.is_on())
    text += concat(
        "Blocks: ", totals.inputs, " of ", product_text(report.volume.block, 0), " voxels",
        totals.padded_windows > 0 ? concat(", ", totals.padded_windows, " padded") : "", "\n");
  else if (totals.inputs > totals.windows)
    text += concat("Tiles: about ", totals.inputs, " inputs of the backbone\n");
  if (!report.volume.is_on())
    text += concat("Decoding: about ", human_duration(totals.decode_s), " of one core\n");
  if (totals.has_clips)
    text += "Frames of clips are counted by their packets, an estimate: the job decodes them all\n";
  return text + concat("Cache: about ", human_bytes(totals.cache_bytes), " at ",
                       report.sizes.features, " features per ", row_text(report),
                       report.sizes.assumed ? " (a ViT-S)" : "",
                       report.views > 1 ? concat(" and ", report.views, " views") : "", " as float",
                       8 * report.feature_bytes, cut_text(report),
                       totals.thumbnail_bytes > 0
                           ? concat(", ", human_bytes(totals.thumbnail_bytes), " of it thumbnails")
                           : "",
                       "\n");
}

std::string case_text(const FindingCase& one) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < one.exams.size() && i < kShownIds; ++i)
    ids.push_back(without_middle(one.exams[i], 60));
  std::string text = join(ids, ", ");
  if (one.exams.size() > ids.size())
    text += concat(" and ", one.exams.size() - ids.size(), " more");
  return concat("    ", text, text.empty() ? "" : ": ", one.detail, "\n");
}

std::string finding_text(const Finding& finding) {
  std::string text =
      concat("  ", finding.title, " (", finding.cases.size(), ")\n    -> ", finding.advice, "\n");
  const std::size_t shown = std::min(kShownCases, finding.cases.size());
  for (std::size_t i = 0; i < shown; ++i) text += case_text(finding.cases[i]);
  if (finding.cases.size() > shown)
    text += concat("    … and ", finding.cases.size() - shown, " more (--json lists all)\n");
  return text;
}

Json exam_json(const frames::ExamSpec& spec, const ExamSurvey& exam) {
  Json sizes = Json::array(), bright = Json::array();
  for (const auto& [width, height] : exam.sizes) sizes.push_back({width, height});
  for (const auto& rect : exam.bright) bright.push_back({rect.x, rect.y, rect.width, rect.height});
  Json json{{"exam", spec.id}, {"patient", spec.patient}, {"kind", exam.kind}};
  json["failure"] = exam.failure.empty() ? Json(nullptr) : Json(exam.failure);
  json["frames"] = exam.frames;
  json["selected"] = exam.selected;
  json["windows"] = {{"count", exam.windows},
                     {"padded", exam.padded_windows},
                     {"median_s", json_number(exam.window_s)}};
  if (!exam.phases.empty()) json["phases"] = exam.phases;
  json["missing"] = exam.missing;
  json["lost"] = exam.lost;
  json["partly_finite"] = exam.partly_finite;
  json["inputs"] = exam.inputs;
  json["times"] = {{"kind", times_word(exam.timing.kind)},
                   {"span_s", json_number(exam.timing.span_s)},
                   {"median_interval_s", json_number(exam.timing.interval_s)},
                   {"frames_per_time", exam.timing.at_once},
                   {"duplicate", exam.timing.duplicate},
                   {"decreasing", exam.timing.decreasing}};
  json["order"] = {{"by", exam.basis.order},
                   {"times_by", exam.basis.times},
                   {"names_alone", exam.basis.names_alone}};
  json["notes"] = Json::array();
  for (const frames::Note& note : exam.notes)
    json["notes"].push_back({{"note", note.text}, {"file", note.file}});
  json["sizes"] = sizes;
  if (exam.volume[0] > 0) {
    json["volume"] = exam.volume;
    json["block_mm"] = exam.block_mm;
  }
  json["bright_regions"] = bright;
  json["bright_level"] = exam.bright_level < 0 ? Json(nullptr) : Json(exam.bright_level);
  return json;
}

Json finding_json(const Finding& finding) {
  Json cases = Json::array();
  for (const FindingCase& one : finding.cases)
    cases.push_back({{"exams", one.exams}, {"detail", one.detail}});
  return {{"kind", finding.kind},
          {"title", finding.title},
          {"advice", finding.advice},
          {"cases", cases}};
}

}  // namespace

std::string to_text(const Report& report) {
  std::string text = exams_table(report) + totals_text(total(report), report);
  if (!report.findings.empty()) text += "\nLook at\n";
  for (const Finding& finding : report.findings) text += finding_text(finding);
  return text;
}

Json to_json(const Report& report) {
  const Totals totals = total(report);
  Json exams = Json::array(), findings = Json::array();
  for (std::size_t i = 0; i < report.input.exams.size(); ++i)
    exams.push_back(exam_json(report.input.exams[i], report.survey.exams[i]));
  for (const Finding& finding : report.findings) findings.push_back(finding_json(finding));
  Json json;
  json["totals"] = {{"exams", totals.exams},
                    {"unreadable", totals.unreadable},
                    {"frames", totals.frames},
                    {"selected", totals.selected},
                    {"missing", totals.missing},
                    {"inputs", totals.inputs},
                    {"windows", totals.windows},
                    {"padded_windows", totals.padded_windows},
                    {"frames_per_window", report.clip_frames},
                    {"patients", totals.patients},
                    {"patients_hashed", report.input.patients.hashed.value_or(false)},
                    {"exams_that_show_patients", report.input.patients.shown_by_names},
                    {"decode_core_seconds", json_number(totals.decode_s)},
                    {"clips_are_estimates", totals.has_clips},
                    {"exams_without_patient", totals.without_patient},
                    {"cache_bytes", totals.cache_bytes},
                    {"thumbnail_bytes", totals.thumbnail_bytes},
                    {"views", report.views},
                    {"cut_bytes_per_frame", estimate_cut_bytes(report)},
                    {"features_per_frame", report.sizes.features}};
  json["exams"] = exams;
  json["findings"] = findings;
  json["passed_over"] = report.input.warnings;
  return json;
}

}  // namespace coldframe::extract::dry_run
