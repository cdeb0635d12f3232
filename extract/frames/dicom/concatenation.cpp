#include "extract/frames/dicom/concatenation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/text/text.h"
#include "extract/frames/dicom/pixels/frame_data.h"
#include "extract/frames/dicom/times.h"

namespace coldframe::frames::dicom {
namespace {

std::int64_t count_of(DcmItem& root, const DcmTagKey& tag) {
  const double number = number_of(root, tag, 0);
  return number >= 0 && number < 1e9 ? static_cast<std::int64_t>(number) : 0;
}

// By number, then by offset.
void sort_parts(std::vector<ExamItem>& items, std::vector<Part>& parts) {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::pair(parts[i].number, parts[i].offset.value_or(0));
  });
  std::vector<ExamItem> sorted_items;
  std::vector<Part> sorted;
  for (const std::size_t i : order) {
    sorted_items.push_back(std::move(items[i]));
    sorted.push_back(std::move(parts[i]));
  }
  items = std::move(sorted_items);
  parts = std::move(sorted);
}

// By what functional groups state of all frames; false where they tell nothing.
bool order_by_facts(std::vector<ExamItem>& items, const std::vector<Part>& parts,
                    OrderBasis& basis) {
  std::vector<GroupFacts> facts;
  std::vector<std::pair<std::size_t, std::int64_t>> frames;  // part, place there
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].facts.empty()) return false;
    for (std::int64_t frame = 0; frame < parts[part].frames; ++frame) {
      frames.emplace_back(part, frame);
      facts.push_back(parts[part].facts[static_cast<std::size_t>(frame)]);
    }
  }
  FrameOrder order = order_groups(facts);
  if (order.basis.order.empty()) return false;
  std::vector<ExamItem> sorted;
  for (std::size_t i = 0; i < order.order.size(); ++i) {
    const auto& [part, frame] = frames[order.order[i]];
    ExamItem item = items[part];
    item.first = item.last = frame;
    item.time_s = order.seconds[i];
    sorted.push_back(std::move(item));
  }
  items = std::move(sorted);
  basis = std::move(order.basis);
  return true;
}

// Frames that are regular are so over a gap as well; others have times where no part is missing and
// each states the time before its first frame.
void set_cine_times(std::vector<ExamItem>& items, const std::vector<Part>& parts,
                    OrderBasis& basis) {
  std::vector<double> steps;
  bool whole = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].steps.empty()) return;
    whole = whole && parts[i].offset.value_or(std::ssize(steps)) == std::ssize(steps) &&
            (i == 0 || parts[i].steps[0] > 0);
    steps.insert(steps.end(), parts[i].steps.begin(), parts[i].steps.end());
  }
  const bool regular = std::ranges::all_of(steps, [&](double step) { return step == steps[0]; });
  if (!regular && !whole) return;
  double time = 0;
  std::int64_t at = parts[0].offset.value_or(0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t offset = parts[i].offset.value_or(at);
    if (regular)
      time = static_cast<double>(offset - parts[0].offset.value_or(0)) * steps[0];
    else if (i > 0)
      time += parts[i].steps[0];
    items[i].time_s = time;
    time = std::accumulate(parts[i].steps.begin() + 1, parts[i].steps.end(), time);
    at = offset + parts[i].frames;
  }
  basis.times = "frame time";
}

}  // namespace

std::optional<Part> read_part(const DataSet& data) {
  DcmItem& root = data.root();
  Part part;
  part.whole = text_of(root, DCM_SOPInstanceUIDOfConcatenationSource);
  if (part.whole.empty()) part.whole = text_of(root, DCM_ConcatenationUID);
  part.of = count_of(root, DCM_InConcatenationTotalNumber);
  if (part.whole.empty() || part.of == 1) return std::nullopt;
  part.number = count_of(root, DCM_InConcatenationNumber);
  if (!numbers_of(root, DCM_ConcatenationFrameOffsetNumber).empty())
    part.offset = count_of(root, DCM_ConcatenationFrameOffsetNumber);
  part.frames = held_frames(data);
  part.steps = cine_steps(root, part.frames);
  const std::vector<GroupFacts> facts = group_facts(data, part.frames);
  if (part.steps.empty() && !facts.empty())
    for (const std::int64_t stored : frame_times(data, part.frames).stored)
      part.facts.push_back(facts[static_cast<std::size_t>(stored)]);
  return part;
}

std::string missing_parts(const std::vector<Part>& parts) {
  std::int64_t all = 0;
  for (const Part& part : parts) all = std::max({all, part.of, part.number});
  if (std::ssize(parts) >= all) return "";
  return concat(parts.size(), " of the ", all, " files of its concatenation are there");
}

OrderBasis join_parts(std::vector<ExamItem>& items, std::vector<Part>& parts) {
  sort_parts(items, parts);
  OrderBasis basis{.order = "concatenation"};
  if (!order_by_facts(items, parts, basis)) set_cine_times(items, parts, basis);
  basis.unusual = true;
  return basis;
}

}  // namespace coldframe::frames::dicom
