#include "extract/plan/resume/resume.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/plan/crop_plan.h"
#include "extract/plan/resume/freshness.h"
#include "extract/plan/resume/slot_items.h"

namespace coldframe::extract {
namespace {

using cache::ExamInfo;
using frames::ExamSpec;

// The number of frames that are present.
std::size_t frames_held(const ExamInfo& exam) {
  return static_cast<std::size_t>(std::count(exam.present.begin(), exam.present.end(), 1));
}

// The ids of exams whose revision that holds lacks frames that could not be read. `cached` may be
// null, and must outlive what is returned.
std::unordered_set<std::string_view> with_lost_frames(const cache::CacheReader* cached) {
  std::unordered_set<std::string_view> exams;
  if (!cached) return exams;
  for (const cache::Failure& failure : cached->failures()) {
    const std::size_t index = cached->find(failure.exam);
    if (index != cache::CacheReader::npos && is_of_frames(failure, cached->exams()[index]))
      exams.insert(failure.exam);
  }
  return exams;
}

bool same_time(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool same_times(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_time);
}

// A table may have many thousand columns.
void note_column_changes(const ExamInfo& before, const ExamInfo& now,
                         std::vector<std::string>& changes) {
  const auto note = [&](const std::string& name, std::string_view from, std::string_view to) {
    if (from != to)
      changes.push_back(concat("exam '", now.id, "': ", name, " '", from, "' -> '", to, "'"));
  };
  std::unordered_map<std::string_view, std::string_view> values;
  for (const auto& column : now.columns) values.emplace(column.name, column.value);
  for (const auto& column : before.columns) {
    const auto found = values.find(column.name);
    note(column.name, column.value, found == values.end() ? "" : found->second);
    if (found != values.end()) values.erase(found);
  }
  for (const auto& column : now.columns)
    if (values.contains(column.name)) note(column.name, "", column.value);
}

// Compares columns by name; one that is not there has empty values.
bool same_frame_columns(const ExamInfo& before, const ExamInfo& now) {
  const auto covers = [](const ExamInfo& one, const ExamInfo& other) {
    return std::all_of(one.frame_columns.begin(), one.frame_columns.end(), [&](const auto& column) {
      const auto same_name = [&](const auto& candidate) { return candidate.name == column.name; };
      const auto found =
          std::find_if(other.frame_columns.begin(), other.frame_columns.end(), same_name);
      if (found != other.frame_columns.end()) return found->values == column.values;
      return std::all_of(column.values.begin(), column.values.end(),
                         [](const std::string& value) { return value.empty(); });
    });
  };
  return covers(before, now) && covers(now, before);
}

// Notes in `changes` what a person wants to know. Where a file lies, when it was touched, or a
// shifted position is an update, but no news.
bool metadata_differs(const ExamInfo& before, const ExamInfo& now,
                      std::vector<std::string>& changes) {
  const auto told = changes.size();
  if (before.patient != now.patient)
    changes.push_back(
        concat("exam '", now.id, "': patient '", before.patient, "' -> '", now.patient, "'"));
  note_column_changes(before, now, changes);
  if (!same_times(before.time_s, now.time_s) || !same_time(before.start_time, now.start_time) ||
      !same_time(before.elapsed_start, now.elapsed_start))
    changes.push_back(concat("exam '", now.id, "': times changed"));
  if (!same_frame_columns(before, now))
    changes.push_back(concat("exam '", now.id, "': columns of its frames changed"));
  return changes.size() > told || before.ordinal != now.ordinal ||
         before.source_stamp != now.source_stamp || before.frame_source != now.frame_source;
}

// The cached exam as the input now describes it; empty when only extraction can tell.
std::optional<ExamInfo> as_in_input(const frames::ExamList& input, const ExamSpec& exam,
                                    const PlanOptions& options, const Comparison& sources,
                                    const ExamInfo& cached) {
  const auto& [freshness, stamp, fault] = sources;
  if (freshness == Freshness::kStale || freshness == Freshness::kChanged) return std::nullopt;
  ExamInfo now = cached;
  take_stated(exam, now);
  now.frame_columns.clear();
  keep_crops(cached, now);
  if (freshness == Freshness::kUnreadable) {
    log_warning(concat("exam '", exam.id, "': its cached features are kept, but its source cannot ",
                       "be read any more: ", fault));
    now.frame_columns = cached.frame_columns;
    return now;
  }
  const auto item_of_slot = items_of_slots(exam, options.selection, options.reader, cached);
  if (item_of_slot.empty()) return std::nullopt;
  now.source_stamp = stamp;
  auto stated = frame_columns_of(input, exam, item_of_slot);
  now.frame_columns.insert(now.frame_columns.begin(), stated.begin(), stated.end());
  for (std::size_t slot = 0; slot < now.frames(); ++slot) {
    const frames::ExamItem& item = exam.items[item_of_slot[slot]];
    now.frame_source[slot] = item.name;
    if (one_file_per_frame(cached)) now.time_s[slot] = item.time_s;
  }
  return now;
}

// Exams that the input no longer names stay, behind those that it does.
std::vector<ExamInfo> moved_behind(const cache::CacheReader& cached, std::size_t input_size,
                                   const std::vector<std::size_t>& absent) {
  std::vector<ExamInfo> moved;
  for (std::size_t i = 0; i < absent.size(); ++i) {
    ExamInfo exam = cached.exams()[absent[i]];
    if (exam.ordinal == input_size + i) continue;
    exam.ordinal = input_size + i;
    moved.push_back(std::move(exam));
  }
  return moved;
}

std::vector<std::size_t> absent_exams(const cache::CacheReader& cached,
                                      const frames::ExamList& input) {
  std::unordered_set<std::string_view> ids;
  for (const auto& exam : input.exams) ids.insert(exam.id);
  std::vector<std::size_t> absent;
  for (std::size_t i = 0; i < cached.exams().size(); ++i)
    if (!ids.contains(cached.exams()[i].id)) absent.push_back(i);
  return absent;
}

// `clashes`: a line for each id that names two exams. CacheError where there are some.
void require_one_exam_per_id(const std::vector<std::string>& clashes) {
  constexpr std::size_t kShown = 20;
  if (clashes.empty()) return;
  const auto shown = std::span(clashes).first(std::min(kShown, clashes.size()));
  std::string text = concat(
      "ids of the input name other exams than they do in the cache, so labels "
      "joined by id would go astray:\n  ",
      join(std::vector(shown.begin(), shown.end()), "\n  "));
  if (clashes.size() > kShown) text += concat("\n  … and ", clashes.size() - kShown, " more");
  throw CacheError(
      concat(text,
             "\nGive these exams other ids, take the cached ones out (coldframe cache prune "
             "CACHE --exams IDS.txt), or give another --out"));
}

}  // namespace

void take_stated(const ExamSpec& exam, ExamInfo& info) {
  info.id = exam.id;
  info.patient = exam.patient;
  info.ordinal = exam.ordinal;
  info.start_time = exam.start_time;
  info.elapsed_start = exam.elapsed_start;
  info.columns.clear();
  for (const auto& [name, value] : exam.columns) info.columns.push_back({name, value});
}

std::vector<cache::FrameColumn> frame_columns_of(const frames::ExamList& input,
                                                 const ExamSpec& exam,
                                                 const std::vector<std::size_t>& item_of_slot) {
  std::vector<cache::FrameColumn> columns;
  for (std::size_t c = 0; c < input.frame_columns.size(); ++c) {
    columns.push_back({input.frame_columns[c], {}});
    for (const auto item : item_of_slot)
      columns.back().values.push_back(exam.items[item].frame_columns.at(c));
  }
  return columns;
}

Plan plan_extraction(frames::ExamList input, const PlanOptions& options,
                     const cache::CacheReader* cached) {
  Plan plan;
  std::vector<ExamSpec> extract;
  std::vector<std::string> clashes;
  std::vector<std::size_t> absent;
  if (cached && options.mine.empty()) absent = absent_exams(*cached, input);
  const auto lost_frames = with_lost_frames(cached);
  for (std::size_t i = 0; i < input.exams.size() && !stop_requested(); ++i) {
    if (!options.mine.empty() && !options.mine[i]) continue;
    ExamSpec& exam = input.exams[i];
    exam.ordinal = i;
    exam.revision = cached ? cached->next_revision(exam.id) : 0;
    const std::size_t index = cached ? cached->find(exam.id) : cache::CacheReader::npos;
    if (index == cache::CacheReader::npos) {
      extract.push_back(std::move(exam));
      continue;
    }
    const ExamInfo& before = cached->exams()[index];
    exam.held = frames_held(before);
    const Comparison sources = compare_sources(exam, before);
    if (std::string clash = clash_of_ids(exam, sources.freshness, before); !clash.empty()) {
      clashes.push_back(std::move(clash));
      continue;
    }
    std::optional<ExamInfo> now = as_in_input(input, exam, options, sources, before);
    if (!now) {
      extract.push_back(std::move(exam));
      continue;
    }
    // A failure after the exam was cached: its source is whole again, which a new revision tells.
    const bool failed_since = exam.revision > before.revision + 1;
    const bool updated = metadata_differs(before, *now, plan.changes) || failed_since;
    const bool lost = lost_frames.contains(before.id);
    if (updated) plan.metadata.push_back(std::move(*now));
    if (!updated && !lost) ++plan.unchanged;
    if (!lost) continue;
    exam.revision += updated;
    exam.present = before.present;
    extract.push_back(std::move(exam));
  }
  require_one_exam_per_id(clashes);
  const std::size_t listed = input.exams.size();
  input.exams = std::move(extract);
  plan.extract = std::move(input);
  if (stop_requested()) return plan;
  plan.not_in_input = absent.size();
  if (absent.empty()) return plan;
  for (auto& exam : moved_behind(*cached, listed, absent)) plan.metadata.push_back(std::move(exam));
  return plan;
}

}  // namespace coldframe::extract
