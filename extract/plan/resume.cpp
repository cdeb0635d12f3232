#include "extract/plan/resume.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <unordered_set>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/plan/crop_plan.h"
#include "extract/preprocess/steps.h"

namespace coldframe::extract {
namespace {

using cache::ExamInfo;
using frames::ExamSpec;

std::string digest_of(const std::string& text) {
  return to_hex(xxh3_128(std::as_bytes(std::span(text)))).substr(0, 16);
}

// Name and content of the files, which frames of them and which part of each, and when the input
// says that they were made.
struct Stamp {
  std::string files, ranges, times;
};

std::string stamp_of_times(const ExamSpec& exam) {
  std::string times;
  for (const auto& item : exam.items) {
    times += concat(std::bit_cast<std::uint64_t>(item.time_s), ';');
  }
  return digest_of(times);
}

Stamp stamp_of(const ExamSpec& exam) {
  std::string names, ranges;
  for (const auto& item : exam.items) {
    names += concat(item.name, '\n');
    ranges += concat(item.path.empty(), ':', item.first, '-', item.last, ';');
    if (item.crop) ranges += concat("crop ", preprocess::to_text(*item.crop), ';');
  }
  return {concat(frames::source_stamp(exam), '/', digest_of(names)), digest_of(ranges),
          stamp_of_times(exam)};
}

std::string to_text(const Stamp& stamp) {
  return concat(stamp.files, '|', stamp.ranges, '|', stamp.times);
}

Stamp parse_stamp(const std::string& text) {
  const auto parts = split(text, '|');
  return parts.size() == 3 ? Stamp{parts[0], parts[1], parts[2]} : Stamp{};
}

bool same_time(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool same_times(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_time);
}

// True if every slot is a file of its own, so that stated times are labels and no reader computed
// them.
bool one_file_per_frame(const ExamInfo& cached) {
  return cached.source_kind == "image" || cached.source_kind == "images";
}

bool one_slot_per_item(const ExamSpec& exam, const ExamInfo& cached) {
  return one_file_per_frame(cached) ||
         std::all_of(exam.items.begin(), exam.items.end(), [](const frames::ExamItem& item) {
           return item.path.empty() || item.first == item.last;
         });
}

// The items that single-slot items' selection leaves; as `extract` selected them.
std::vector<std::size_t> selected_items(const ExamSpec& exam,
                                        const frames::FrameSelection& selection) {
  std::vector<double> times;
  for (const auto& item : exam.items) times.push_back(item.time_s);
  try {
    const auto slots = frames::select_frames(times, selection);
    return {slots.begin(), slots.end()};
  } catch (const DataError&) {  // the times no longer serve; extraction says why
    return {};
  }
}

// True if the cached slots are the given items', by name; a missing frame names its item.
bool are_items(const std::vector<std::size_t>& items, const ExamSpec& exam,
               const ExamInfo& cached) {
  for (std::size_t slot = 0; slot < items.size(); ++slot) {
    if (exam.items[items[slot]].name != cached.frame_source[slot]) return false;
    if (!cached.present[slot] && cached.frame_index[slot] != static_cast<std::int64_t>(items[slot]))
      return false;
  }
  return true;
}

// Clips: the item whose file and range hold the cached frame; a missing frame names its item, one
// without a file or whose file cannot be read.
std::vector<std::size_t> matching_items(const ExamSpec& exam, const ExamInfo& cached) {
  std::vector<std::size_t> item_of_slot;
  std::size_t item = 0;
  for (std::size_t slot = 0; slot < cached.frames(); ++slot) {
    const std::int64_t index = cached.frame_index[slot];
    if (!cached.present[slot]) item = static_cast<std::size_t>(index);
    const auto holds = [&](const frames::ExamItem& candidate) {
      if (!cached.present[slot]) return true;
      return candidate.name == cached.frame_source[slot] && index >= candidate.first &&
             (candidate.last < 0 || index <= candidate.last);
    };
    while (item < exam.items.size() && !holds(exam.items[item])) ++item;
    if (item >= exam.items.size()) return {};
    item_of_slot.push_back(item);
  }
  return item_of_slot;
}

// The item that each cached slot came from; empty when the input no longer tells.
std::vector<std::size_t> match_slots(const ExamSpec& exam, const frames::FrameSelection& selection,
                                     const ExamInfo& cached) {
  // A clip's own times are not known here, nor have they changed.
  const bool by_item =
      one_file_per_frame(cached) || (one_slot_per_item(exam, cached) && !selection.needs_times());
  auto items = by_item ? selected_items(exam, selection) : matching_items(exam, cached);
  if (items.size() != cached.frames()) return {};
  // A selection by time may fall on other items where the input states other times than before.
  if (by_item && selection.needs_times() &&
      stamp_of_times(exam) != parse_stamp(cached.source_stamp).times &&
      !are_items(items, exam, cached))
    return {};
  return items;
}

// kMetadata: the same pixels, though names, times or the files' dates may differ.
enum class Freshness { kUnreadable, kMetadata, kStale };

struct Comparison {
  Freshness freshness;
  std::string stamp;  // of the sources as they are now
};

// Says why a file that gave a cached frame cannot be opened any more; "" where all can.
std::string fault_of_sources(const ExamSpec& exam, const ExamInfo& cached) {
  std::unordered_set<std::string_view> sources;
  for (std::size_t slot = 0; slot < cached.frames(); ++slot)
    if (cached.present[slot]) sources.insert(cached.frame_source[slot]);
  try {
    for (const auto& item : exam.items)
      if (sources.erase(item.name) > 0) const InputFile opened(item.path);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

Comparison compare_sources(const ExamSpec& exam, const ExamInfo& cached) {
  const Stamp before = parse_stamp(cached.source_stamp), now = stamp_of(exam);
  const bool same_frames =
      now.ranges == before.ranges && (now.times == before.times || one_file_per_frame(cached));
  if (same_frames && now.files == before.files) return {Freshness::kMetadata, to_text(now)};
  if (const std::string fault = fault_of_sources(exam, cached); !fault.empty()) {
    log_warning(concat("exam '", exam.id, "': its cached features are kept, but its source cannot ",
                       "be read any more: ", fault));
    return {Freshness::kUnreadable, ""};
  }
  // Content is read only when nothing cheaper decides.
  const bool same = same_frames && frames::source_digest(exam) == cached.source_digest;
  return {same ? Freshness::kMetadata : Freshness::kStale, to_text(now)};
}

void note_column_changes(const ExamInfo& before, const ExamInfo& now,
                         std::vector<std::string>& changes) {
  std::vector<std::string> names;
  for (const auto& column : before.columns) names.push_back(column.name);
  for (const auto& column : now.columns)
    if (std::find(names.begin(), names.end(), column.name) == names.end())
      names.push_back(column.name);
  for (const auto& name : names) {
    const auto &old_value = cache::column_value(before, name),
               &new_value = cache::column_value(now, name);
    if (old_value != new_value)
      changes.push_back(
          concat("exam '", now.id, "': ", name, " '", old_value, "' -> '", new_value, "'"));
  }
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
  if (!same_times(before.time_s, now.time_s) || !same_time(before.start_time, now.start_time))
    changes.push_back(concat("exam '", now.id, "': times changed"));
  if (!same_frame_columns(before, now))
    changes.push_back(concat("exam '", now.id, "': columns of its frames changed"));
  return changes.size() > told || before.ordinal != now.ordinal ||
         before.source_stamp != now.source_stamp || before.frame_source != now.frame_source;
}

// The cached exam as the input now describes it; empty when only extraction can tell.
std::optional<ExamInfo> as_in_input(const frames::ExamList& input, const ExamTask& task,
                                    const frames::FrameSelection& selection,
                                    const ExamInfo& cached) {
  const ExamSpec& exam = *task.exam;
  const auto [freshness, stamp] = compare_sources(exam, cached);
  if (freshness == Freshness::kStale) return std::nullopt;
  ExamInfo now = cached;
  now.patient = exam.patient;
  now.ordinal = task.ordinal;
  now.start_time = exam.start_time;
  now.columns = columns_of(exam);
  now.frame_columns.clear();
  keep_crops(cached, now);
  if (freshness == Freshness::kUnreadable) {
    now.frame_columns = cached.frame_columns;
    return now;
  }
  const auto item_of_slot = match_slots(exam, selection, cached);
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

}  // namespace

std::string exam_stamp(const ExamSpec& exam) {
  return to_text(stamp_of(exam));
}

std::vector<cache::ExamColumn> columns_of(const ExamSpec& exam) {
  std::vector<cache::ExamColumn> columns;
  for (const auto& [name, value] : exam.columns) columns.push_back({name, value});
  return columns;
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

namespace {

std::size_t frames_held(const ExamInfo& exam) {
  return static_cast<std::size_t>(std::count(exam.present.begin(), exam.present.end(), 1));
}

// Exams of which frames could not be read when the revision that holds was extracted.
std::unordered_set<std::string_view> with_lost_frames(const cache::CacheReader* cached) {
  std::unordered_set<std::string_view> exams;
  if (!cached) return exams;
  for (const cache::Failure& failure : cached->failures()) {
    const std::size_t index = cached->find(failure.exam);
    if (index != cache::CacheReader::npos && cached->exams()[index].revision == failure.revision)
      exams.insert(failure.exam);
  }
  return exams;
}

}  // namespace

Plan plan_extraction(const frames::ExamList& input, const frames::FrameSelection& selection,
                     const cache::CacheReader* cached) {
  Plan plan;
  const auto lost_frames = with_lost_frames(cached);
  for (std::size_t i = 0; i < input.exams.size() && !stop_requested(); ++i) {
    ExamTask task{&input.exams[i], i, cached ? cached->next_revision(input.exams[i].id) : 0};
    const std::size_t index = cached ? cached->find(task.exam->id) : cache::CacheReader::npos;
    std::optional<ExamInfo> now;
    if (index != cache::CacheReader::npos)
      now = as_in_input(input, task, selection, cached->exams()[index]);
    if (!now) {
      if (index != cache::CacheReader::npos) task.held = frames_held(cached->exams()[index]);
      plan.extract.push_back(std::move(task));
      continue;
    }
    const ExamInfo& before = cached->exams()[index];
    // A failure after the exam was cached: its source is whole again, which a new revision tells.
    const bool failed_since = task.revision > before.revision + 1;
    const bool updated = metadata_differs(before, *now, plan.changes) || failed_since;
    const bool lost = lost_frames.contains(before.id);
    if (updated) plan.metadata.push_back(std::move(*now));
    if (lost)
      plan.extract.push_back(
          {task.exam, i, task.revision + updated, frames_held(before), before.present});
    if (!updated && !lost) ++plan.unchanged;
  }
  if (!cached) return plan;
  const auto absent = absent_exams(*cached, input);
  plan.not_in_input = absent.size();
  for (auto& exam : moved_behind(*cached, input.exams.size(), absent))
    plan.metadata.push_back(std::move(exam));
  return plan;
}

}  // namespace coldframe::extract
