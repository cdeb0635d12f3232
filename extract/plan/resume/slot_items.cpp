#include "extract/plan/resume/slot_items.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/cli/error.h"
#include "extract/frames/opened_exam.h"
#include "extract/plan/resume/exam_stamp.h"

namespace coldframe::extract {
namespace {

using cache::ExamInfo;
using frames::ExamSpec;

bool one_slot_per_item(const ExamSpec& exam, const ExamInfo& cached) {
  return one_file_per_frame(cached) ||
         std::all_of(exam.items.begin(), exam.items.end(), [](const frames::ExamItem& item) {
           return item.path.empty() || item.first == item.last;
         });
}

// Replays the selection of `extract` over items of one frame each.
std::vector<std::size_t> selected_items(const ExamSpec& exam,
                                        const frames::FrameSelection& selection) {
  std::vector<double> times;
  for (const auto& item : exam.items) times.push_back(item.time_s);
  try {
    std::vector<std::size_t> items(times.size());
    std::iota(items.begin(), items.end(), std::size_t{0});
    const auto slots = frames::select_slots(exam, items, times, selection);
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
    // Rows of one file with other crops: its frames begin again.
    const bool begins_again = slot > 0 && cached.present[slot] && cached.present[slot - 1] &&
                              item == item_of_slot.back() && index <= cached.frame_index[slot - 1];
    if (begins_again) ++item;
    while (item < exam.items.size() && !holds(exam.items[item])) ++item;
    if (item >= exam.items.size()) return {};
    item_of_slot.push_back(item);
  }
  return item_of_slot;
}

// As extraction would choose them.
std::vector<std::size_t> opened_items(const ExamSpec& exam, const frames::FrameSelection& selection,
                                      const frames::ReaderOptions& reader, const ExamInfo& cached) {
  std::vector<std::size_t> items;
  try {
    const frames::OpenedExam opened(exam, reader);
    for (const std::int64_t slot : opened.select(selection)) {
      const auto& place = opened.slots()[static_cast<std::size_t>(slot)];
      if (items.size() >= cached.frames() ||
          (place.source != nullptr && place.index != cached.frame_index[items.size()]))
        return {};
      items.push_back(place.item);
    }
  } catch (const DataError&) {  // extraction says why
    return {};
  }
  return items;
}

// A selection by time may fall on other items where the input states other times than before, or
// another zero; one of instants, where it states other streams.
bool may_choose_others(const ExamSpec& exam, const frames::FrameSelection& selection,
                       const ExamInfo& cached) {
  const auto has_stream = [](const frames::ExamItem& item) { return !item.stream.empty(); };
  if (selection.chooses() && std::ranges::any_of(exam.items, has_stream)) return true;
  const bool same_zero = exam.elapsed_start == cached.elapsed_start ||
                         (std::isnan(exam.elapsed_start) && std::isnan(cached.elapsed_start));
  return selection.follows_times() &&
         (!same_zero || stamp_of_times(exam) != parse_stamp(cached.source_stamp).times);
}

}  // namespace

bool one_file_per_frame(const ExamInfo& cached) {
  return cached.source_kind == "image" || cached.source_kind == "images";
}

std::vector<std::size_t> items_of_slots(const ExamSpec& exam,
                                        const frames::FrameSelection& selection,
                                        const frames::ReaderOptions& reader,
                                        const ExamInfo& cached) {
  // A clip's own times are not known here, nor have they changed.
  const bool by_item =
      one_file_per_frame(cached) || (one_slot_per_item(exam, cached) && !selection.follows_times());
  const bool may_differ = may_choose_others(exam, selection, cached);
  const bool same_names = names_part(parse_stamp(cached.source_stamp)) == digest_of_names(exam);
  std::vector<std::size_t> items;
  if (by_item) {
    items = selected_items(exam, selection);
  } else if (same_names && !may_differ) {
    items = matching_items(exam, cached);
  } else {
    items = opened_items(exam, selection, reader, cached);
  }
  if (items.size() != cached.frames()) return {};
  return by_item && may_differ && !are_items(items, exam, cached) ? std::vector<std::size_t>()
                                                                  : items;
}

}  // namespace coldframe::extract
