#include "extract/pipeline/window_frames.h"

#include <algorithm>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/pipeline/volume_blocks.h"

namespace coldframe::extract {

using frames::FrameWindow;
using frames::WindowRow;

ExamWindows::ExamWindows(std::vector<FrameWindow> of, std::size_t steps_)
    : windows(std::move(of)),
      steps(steps_),
      rows(frames::rows_of(windows, steps_)),
      slots(frames::slots_of(windows)) {}

std::vector<std::size_t> ExamWindows::features_of_rows() const {
  std::vector<std::size_t> features;
  for (const WindowRow& row : rows) features.push_back(row.window * steps + row.step);
  bool in_order = features.size() == windows.size() * steps;
  for (std::size_t i = 0; i < features.size(); ++i) in_order = in_order && features[i] == i;
  if (in_order) features.clear();
  return features;
}

// Rows are ordered by their middle frames.
bool ExamWindows::is_middle(std::int64_t slot) const {
  return std::ranges::binary_search(rows, slot, {}, &WindowRow::middle);
}

std::vector<std::size_t> ExamWindows::middles() const {
  std::vector<std::size_t> of_rows;
  for (const WindowRow& row : rows) of_rows.push_back(static_cast<std::size_t>(row.middle));
  return of_rows;
}

std::string input_name_of(const vit::Backbone& backbone) {
  return backbone.takes_blocks() ? "block" : frames::row_name(backbone.clip_frames() > 1, 1);
}

std::string row_name_of(const vit::Backbone& backbone) {
  if (backbone.takes_blocks()) return backbone.pools_volumes() ? "volume" : "block";
  return frames::row_name(backbone.clip_frames() > 1,
                          static_cast<std::size_t>(backbone.clip_steps()));
}

WindowFrames::WindowFrames(std::span<const FrameWindow> windows) : windows_(windows) {
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::int64_t last = windows[i].seen().back();
    ending_[last].push_back(i);
    for (const std::int64_t slot : windows[i].seen()) {
      std::int64_t& until = needed_until_.try_emplace(slot, last).first->second;
      until = std::max(until, last);
    }
  }
}

std::vector<std::uint8_t> WindowFrames::frame_memory(const Spare& spare) {
  if (windows_.front().slots.size() == 1) return spare();
  if (free_.empty()) return {};
  std::vector<std::uint8_t> pixels = std::move(free_.back());
  free_.pop_back();
  return pixels;
}

// Frees the frames that no window needs any more.
void WindowFrames::turn_to(std::int64_t slot) {
  if (held_.contains(slot)) return;
  for (auto held = held_.begin(); held != held_.end();) {
    if (needed_until_.at(held->first) >= slot) {
      ++held;
      continue;
    }
    for (preprocess::Input& input : held->second) free_.push_back(std::move(input.pixels));
    held = held_.erase(held);
  }
  held_[slot];
}

// Input `number` of each of the window's frames; nullopt if one is missing.
std::optional<preprocess::Input> WindowFrames::joined(const FrameWindow& window, std::size_t number,
                                                      const Spare& spare) const {
  const preprocess::Input& last = held_.at(window.seen().back())[number];
  preprocess::Input whole{last.view, last.tile, last.tiles, spare()};
  whole.pixels.clear();
  whole.pixels.reserve(window.slots.size() * last.pixels.size());
  for (const std::int64_t slot : window.slots) {
    if (slot == FrameWindow::kBlank) {
      whole.pixels.resize(whole.pixels.size() + last.pixels.size());
      continue;
    }
    const auto held = held_.find(slot);
    if (held == held_.end()) return std::nullopt;
    if (held->second.size() <= number || held->second[number].tiles != last.tiles)
      throw DataError(
          "frames of one window have different numbers of tiles; --clip needs frames of one size "
          "where --tiles cuts them");
    const std::vector<std::uint8_t>& pixels = held->second[number].pixels;
    whole.pixels.insert(whole.pixels.end(), pixels.begin(), pixels.end());
  }
  return whole;
}

bool WindowFrames::add(std::int64_t slot, preprocess::Input&& input, const Sink& sink,
                       const Spare& spare) {
  const auto ending = ending_.find(slot);
  if (windows_.front().slots.size() == 1) return sink(ending->second.front(), std::move(input));
  turn_to(slot);
  Inputs& inputs = held_.at(slot);
  inputs.push_back(std::move(input));
  if (ending == ending_.end()) return true;
  for (const std::size_t window : ending->second)
    if (auto whole = joined(windows_[window], inputs.size() - 1, spare))
      if (!sink(window, std::move(*whole))) return false;
  return true;
}

SeenFrame::SeenFrame(const frames::ExamSlot& slot)
    : item(slot.item),
      present(slot.present),
      index(slot.frame.index),
      time_s(slot.frame.time_s),
      fault(slot.fault),
      width(slot.frame.pixels.width),
      height(slot.frame.pixels.height) {}

const SeenFrame* lost_frame(const FrameWindow& window, const SeenFrames& seen) {
  const SeenFrame* missing = nullptr;
  for (const std::int64_t slot : window.seen()) {
    const SeenFrame& frame = seen.at(slot);
    if (frame.present) continue;
    if (!frame.fault.empty()) return &frame;
    if (missing == nullptr) missing = &frame;
  }
  return missing;
}

std::vector<std::size_t> items_of(const ExamWindows& windows, const SeenFrames& seen) {
  std::vector<std::size_t> items;
  for (const WindowRow& row : windows.rows) items.push_back(seen.at(row.middle).item);
  return items;
}

void note_rows(const frames::ExamSpec& exam, const ExamWindows& windows, const SeenFrames& seen,
               cache::ExamInfo& info) {
  for (const WindowRow& row : windows.rows) {
    const SeenFrame& middle = seen.at(row.middle);
    const bool present = lost_frame(windows.windows[row.window], seen) == nullptr;
    info.time_s.push_back(middle_time(seen.at(row.first).time_s, seen.at(row.last).time_s));
    info.present.push_back(present);
    // A missing row names its item, so that a later run finds it again.
    info.frame_index.push_back(present ? middle.index : static_cast<std::int64_t>(middle.item));
    info.frame_source.push_back(exam.items[middle.item].name);
    if (present && info.frame_width == 0) {
      info.frame_width = seen.at(row.first).width;
      info.frame_height = seen.at(row.first).height;
    }
  }
}

std::vector<std::optional<frames::Rect>> crops_of(const ExamWindows& windows,
                                                  const SeenFrames& seen,
                                                  const cache::ExamInfo& info) {
  std::vector<std::optional<frames::Rect>> crops(windows.rows.size());
  for (std::size_t i = 0; i < crops.size(); ++i)
    if (info.present[i]) crops[i] = seen.at(windows.rows[i].middle).crop;
  return crops;
}

std::vector<std::string> thumbnails_of(const ExamWindows& windows, const SeenFrames& seen,
                                       const cache::ExamInfo& info) {
  std::vector<std::string> thumbnails(windows.rows.size());
  for (std::size_t i = 0; i < thumbnails.size(); ++i)
    if (info.present[i]) thumbnails[i] = seen.at(windows.rows[i].middle).thumbnail;
  return thumbnails;
}

void note_window_columns(const ExamWindows& windows, cache::ExamInfo& info) {
  cache::FrameColumn first{frames::kWindowFirst, {}}, last{frames::kWindowLast, {}},
      padded{frames::kWindowPadded, {}};
  for (const WindowRow& row : windows.rows) {
    first.values.push_back(concat(row.first));
    last.values.push_back(concat(row.last));
    padded.values.push_back(concat(row.padded));
  }
  for (cache::FrameColumn* column : {&first, &last, &padded})
    info.frame_columns.push_back(std::move(*column));
}

void keep_window_columns(const cache::ExamInfo& cached, cache::ExamInfo& now) {
  for (const cache::FrameColumn& column : cached.frame_columns)
    if (frames::is_window_column(column.name) || is_block_column(column.name))
      now.frame_columns.push_back(column);
}

std::optional<std::pair<std::size_t, std::size_t>> seen_by_window(const cache::ExamInfo& cached,
                                                                  std::size_t row) {
  const cache::FrameColumn* const firsts = frame_column(cached, frames::kWindowFirst);
  const cache::FrameColumn* const lasts = frame_column(cached, frames::kWindowLast);
  std::int64_t first = 0, last = 0;
  if (firsts == nullptr || lasts == nullptr || !parse_int(firsts->values[row], first) ||
      !parse_int(lasts->values[row], last))
    return std::nullopt;
  return std::pair(static_cast<std::size_t>(first), static_cast<std::size_t>(last));
}

bool holds_rows_of(const cache::ExamInfo& cached, const ExamWindows& windows) {
  if (!windows.of_clips()) return true;
  cache::ExamInfo expected, kept;
  note_window_columns(windows, expected);
  keep_window_columns(cached, kept);
  return kept.frame_columns == expected.frame_columns;
}

}  // namespace coldframe::extract
