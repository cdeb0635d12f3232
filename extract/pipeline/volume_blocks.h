// The volume of an exam as blocks, and their rows in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cache/format/exam.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/volume.h"
#include "extract/decode/window.h"
#include "extract/input/opened_exam.h"
#include "extract/preprocess/preprocessing.h"
#include "extract/preprocess/volume/blocks.h"
#include "extract/preprocess/volume/resampled_volume.h"

namespace coldframe::extract {

// Columns of frames that a cache of blocks has besides the input's: where a block's centre lies in
// the patient (millimetres towards right, anterior, superior), and which fraction of its voxels is
// padding.
inline constexpr const char* kBlockX = "block_x";
inline constexpr const char* kBlockY = "block_y";
inline constexpr const char* kBlockZ = "block_z";
inline constexpr const char* kBlockPadded = "block_padded";
bool is_block_column(std::string_view name);

class ExamBlocks {
 public:
  // kGeometry reads values only if the rule crops to the body.
  enum class Detail { kGeometry, kValues };
  // DataError: the exam is no volume, cannot be read or resampled, or has a crop of its own.
  ExamBlocks(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
             const preprocess::Preprocessing& preprocessing, const frames::Window& window,
             Detail detail = Detail::kValues);

  const preprocess::VolumeGrid& grid() const { return grid_; }
  const std::shared_ptr<const preprocess::BlockGrid>& blocks() const { return blocks_; }

  // A block's values between 0 and 1 as the bytes of float32 [X, Y, Z]; `memory` is reused. Only
  // with kValues.
  std::vector<std::uint8_t> read(std::size_t block, std::vector<std::uint8_t> memory) const;

  // Adds a row for each block to an exam without any, or one of all if the rule pools them.
  void note_rows(const frames::ExamSpec& exam, cache::ExamInfo& info) const;
  void note_columns(cache::ExamInfo& info) const;

 private:
  frames::Point centre_of(std::size_t block) const;

  preprocess::VolumeRule rule_;
  std::optional<frames::Volume> volume_;
  frames::VolumeGeometry geometry_;
  preprocess::VolumeGrid grid_;
  frames::ValueRange range_;
  std::shared_ptr<const preprocess::BlockGrid> blocks_;
};

}  // namespace coldframe::extract
