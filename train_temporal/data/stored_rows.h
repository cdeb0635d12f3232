// A cache has rows of several kinds for each frame; those of an exam become rows of a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/sequences/sequence_reader.h"

namespace coldframe::temporal {

enum class RowKind {
  kFeatures,  // [D]
  kCut,       // what enters the block of the ViT at which the cache was cut
};

struct RowFormat {
  torch::ScalarType type;
  std::vector<std::int64_t> shape;  // of one frame
  std::int64_t streams = 0;         // of merged features, which may be missing

  std::int64_t values() const;
  std::size_t bytes() const;
  std::vector<std::int64_t> table(std::int64_t rows) const;  // the shape of so many frames
};
// DataError for the cut of a cache that has none.
RowFormat row_format(const SequenceReader& cache, RowKind kind);

// Bytes of all present frames of these exams, as stored, in one view.
std::uint64_t stored_bytes(const SequenceReader& cache, std::span<const std::size_t> exams,
                           RowKind kind);

// Goes through the rows of `exams` as SequenceReader::scan_stored() does.
void scan_rows(const SequenceReader& cache, RowKind kind, const std::string& view,
               std::span<const std::size_t> exams, const SequenceReader::VisitStored& body);

// Copies the frames that are present, which are all finite numbers or a DataError; returns how many
// they are. `stored`: all frames, as stored.
std::int64_t copy_present_rows(const cache::ExamInfo& exam, const RowFormat& format,
                               std::span<const std::byte> stored, std::byte* to);

}  // namespace coldframe::temporal
