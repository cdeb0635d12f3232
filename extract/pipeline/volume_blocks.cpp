#include "extract/pipeline/volume_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::extract {

using preprocess::BlockGrid;
using preprocess::Size3;

namespace {

// To a millionth of a millimetre, without the digits of rounding.
std::string mm_text(double mm) {
  constexpr double kDigits = 1e6;
  return exact(std::round(mm * kDigits) / kDigits + 0.0);  // no negative zero
}

}  // namespace

bool is_block_column(std::string_view name) {
  return name == kBlockX || name == kBlockY || name == kBlockZ || name == kBlockPadded;
}

ExamBlocks::ExamBlocks(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
                       const preprocess::Preprocessing& preprocessing, const frames::Window& window,
                       Detail detail)
    : rule_(preprocessing.volume), geometry_(opened.volume_geometry()), grid_(geometry_, rule_) {
  if (std::ranges::any_of(exam.items, [](const auto& item) { return item.crop.has_value(); }))
    throw DataError("its column 'crop' is of frames; --block takes --crop body alone");
  if (detail == Detail::kValues || rule_.crop_to_body) {
    volume_.emplace(opened.volume());
    range_ = preprocess::range_of(*volume_, window);
    if (rule_.crop_to_body) preprocess::crop_to_body(*volume_, range_, grid_);
  }
  blocks_ = std::make_shared<const BlockGrid>(grid_.size(), rule_);
}

std::vector<std::uint8_t> ExamBlocks::read(std::size_t block,
                                           std::vector<std::uint8_t> memory) const {
  const auto voxels = static_cast<std::size_t>(preprocess::voxels_of(rule_.block));
  memory.resize(voxels * sizeof(float));
  preprocess::resample(*volume_, grid_, range_, blocks_->begin(block), rule_.block,
                       {reinterpret_cast<float*>(memory.data()), voxels});
  return memory;
}

frames::Point ExamBlocks::centre_of(std::size_t block) const {
  const Size3 begin = blocks_->begin(block);
  frames::Point centre{};
  for (std::size_t a = 0; a < 3; ++a)
    centre[a] = static_cast<double>(begin[a]) + static_cast<double>(rule_.block[a] - 1) / 2;
  return grid_.at_mm(centre);
}

void ExamBlocks::note_rows(const frames::ExamSpec& exam, cache::ExamInfo& info) const {
  const std::size_t rows = rule_.is_pooled ? 1 : blocks_->count();
  info.time_s.assign(rows, frames::kNotStated);
  info.present.assign(rows, 1);
  info.frame_source.assign(rows, exam.items.front().name);
  for (std::size_t row = 0; row < rows; ++row)
    info.frame_index.push_back(static_cast<std::int64_t>(row));
  info.frame_width = static_cast<int>(geometry_.size[0]);
  info.frame_height = static_cast<int>(geometry_.size[1]);
}

void ExamBlocks::note_columns(cache::ExamInfo& info) const {
  if (rule_.is_pooled) return;
  std::array<cache::FrameColumn, 4> columns{
      {{kBlockX, {}}, {kBlockY, {}}, {kBlockZ, {}}, {kBlockPadded, {}}}};
  for (std::size_t block = 0; block < blocks_->count(); ++block) {
    const frames::Point centre = centre_of(block);
    for (std::size_t i = 0; i < 3; ++i) columns[i].values.push_back(mm_text(centre[i]));
    columns[3].values.push_back(mm_text(blocks_->padded_fraction(block)));
  }
  for (cache::FrameColumn& column : columns) info.frame_columns.push_back(std::move(column));
}

}  // namespace coldframe::extract
