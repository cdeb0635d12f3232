#include "extract/resume.h"

#include <bit>
#include <cmath>
#include <span>
#include <unordered_set>

#include "common/error.h"
#include "common/fingerprint.h"
#include "common/log.h"
#include "common/text.h"
#include "extract/frames/source.h"

namespace coldframe {
namespace {

using cache::ExamInfo;
using frames::ExamSpec;

std::string digest_of(const std::string& text) {
  return to_hex(xxh3_128(std::as_bytes(std::span(text)))).substr(0, 16);
}

std::string ranges_digest(const ExamSpec& exam) {
  std::string text;
  for (const auto& item : exam.items)
    text += concat(item.path.empty(), ':', item.first, '-', item.last, ';');
  return digest_of(text);
}

std::string times_digest(const ExamSpec& exam) {
  std::string text;
  for (const auto& item : exam.items)
    text += concat(std::bit_cast<std::uint64_t>(item.time_s - exam.items.front().time_s), ';');
  return digest_of(text);
}

struct Stamp {
  std::string files, ranges, times;
};

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

// Whether every slot is a file of its own, so that stated times are labels and no reader computed
// them.
bool one_file_per_frame(const ExamInfo& cached) {
  return cached.source_kind.starts_with("image");
}

bool item_holds(const frames::ExamItem& item, const ExamInfo& cached, std::size_t slot) {
  if (item.path.empty() || !cached.present[slot]) return item.path.empty() && !cached.present[slot];
  const auto index = cached.frame_index[slot];
  return item.name == cached.frame_source[slot] && index >= item.first &&
         (item.last < 0 || index <= item.last);
}

// The item that each cached slot came from; empty when the input no longer tells.
std::vector<std::size_t> match_slots(const ExamSpec& exam, const ExamInfo& cached) {
  std::vector<std::size_t> item_of_slot;
  std::size_t item = 0;
  for (std::size_t slot = 0; slot < cached.frames(); ++slot) {
    if (slot > 0 && one_file_per_frame(cached)) ++item;
    while (item < exam.items.size() && !item_holds(exam.items[item], cached, slot)) ++item;
    if (item == exam.items.size()) return {};
    item_of_slot.push_back(item);
  }
  return item_of_slot;
}

enum class Freshness { kFresh, kTimesChanged, kStale };

Freshness compare_sources(const ExamSpec& exam, const ExamInfo& cached) {
  const Stamp before = parse_stamp(cached.source_stamp);
  Stamp now;
  try {
    now = parse_stamp(exam_stamp(exam));
    const bool same_files =
        now.files == before.files || frames::source_digest(exam) == cached.source_digest;
    if (!same_files || now.ranges != before.ranges) return Freshness::kStale;
  } catch (const DataError& error) {
    log_warning(concat(
        "exam '", exam.id,
        "': its cached features are kept, but its source cannot be read any more: ", error.what()));
    return Freshness::kFresh;
  }
  if (now.times == before.times) return Freshness::kFresh;
  return one_file_per_frame(cached) ? Freshness::kTimesChanged : Freshness::kStale;
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

// Notes what differs in `changes`; a shifted position alone is an update but no news.
bool metadata_differs(const ExamInfo& before, const ExamInfo& now,
                      std::vector<std::string>& changes) {
  const auto told = changes.size();
  if (before.patient != now.patient)
    changes.push_back(
        concat("exam '", now.id, "': patient '", before.patient, "' -> '", now.patient, "'"));
  note_column_changes(before, now, changes);
  if (!same_times(before.time_s, now.time_s) || !same_time(before.start_time, now.start_time))
    changes.push_back(concat("exam '", now.id, "': times changed"));
  if (before.frame_columns != now.frame_columns)
    changes.push_back(concat("exam '", now.id, "': columns of its frames changed"));
  return changes.size() > told || before.ordinal != now.ordinal || before.columns != now.columns;
}

ExamInfo with_metadata_of(const frames::ExamList& input, const ExamSpec& exam,
                          std::uint64_t ordinal, const ExamInfo& cached, Freshness freshness) {
  ExamInfo now = cached;
  now.patient = exam.patient;
  now.ordinal = ordinal;
  now.start_time = exam.start_time;
  now.columns = columns_of(exam);
  const auto item_of_slot = match_slots(exam, cached);
  if (item_of_slot.empty()) return now;
  now.frame_columns = frame_columns_of(input, exam, item_of_slot);
  if (freshness != Freshness::kTimesChanged) return now;
  for (std::size_t slot = 0; slot < now.frames(); ++slot)
    now.time_s[slot] = exam.items[item_of_slot[slot]].time_s - exam.items.front().time_s;
  now.source_stamp = exam_stamp(exam);
  return now;
}

std::size_t count_absent(const cache::CacheReader& cached, const frames::ExamList& input) {
  std::unordered_set<std::string_view> ids;
  for (const auto& exam : input.exams) ids.insert(exam.id);
  std::size_t absent = 0;
  for (const auto& exam : cached.exams()) absent += !ids.contains(exam.id);
  return absent;
}

}  // namespace

std::string exam_stamp(const ExamSpec& exam) {
  return concat(frames::source_stamp(exam), '|', ranges_digest(exam), '|', times_digest(exam));
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

Plan plan_extraction(const frames::ExamList& input, const cache::CacheReader* cached) {
  Plan plan;
  for (std::size_t i = 0; i < input.exams.size(); ++i) {
    const auto& exam = input.exams[i];
    const std::size_t index = cached ? cached->find(exam.id) : cache::CacheReader::npos;
    if (index != cache::CacheReader::npos) {
      const ExamInfo& before = cached->exams()[index];
      const Freshness freshness = compare_sources(exam, before);
      if (freshness != Freshness::kStale) {
        ExamInfo now = with_metadata_of(input, exam, i, before, freshness);
        if (metadata_differs(before, now, plan.changes))
          plan.metadata.push_back(std::move(now));
        else
          ++plan.unchanged;
        continue;
      }
    }
    plan.extract.push_back({&exam, i, cached ? cached->next_revision(exam.id) : 0});
  }
  if (cached) plan.not_in_input = count_absent(*cached, input);
  return plan;
}

}  // namespace coldframe
