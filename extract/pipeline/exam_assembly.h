// Puts exams together again from features that come out of mixed batches.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/format/exam.h"
#include "cache/format/recipe.h"
#include "extract/pipeline/decode/decoded.h"

namespace coldframe::extract {

// The features of a frame's tiles are averaged as they come, so that memory holds one feature per
// frame, however many tiles it has. Whatever adds the last part of an exam gets the exam, so that a
// long one holds up no other; the exam's ordinal keeps the input's order.
class ExamAssembly {
 public:
  using Whole = std::optional<cache::ExamFeatures>;  // none: parts of the exam are to come

  // `views`: the names of those that every frame comes in, "clean" first. `cut`: what is kept of
  // every frame besides, of which there are no tiles then.
  explicit ExamAssembly(std::int64_t dimension, std::vector<std::string> views = {"clean"},
                        std::optional<cache::Cut> cut = {});

  // The tokens behind a feature as the cut stores them; {} where it is none of tokens. It may run
  // beside any other call: rounding them to float16 takes longer than all else here.
  std::vector<std::byte> stored_tokens(std::span<const float> row) const;
  // A frame's feature, with what may lie behind it, and what stored_tokens() made of the same row.
  Whole add_feature(const FramePlace& place, std::span<const float> row,
                    std::vector<std::byte>&& tokens = {});
  // A frame's pixels, before its feature, for a cut that is one of pixels.
  void add_pixels(const FramePlace& place, std::vector<std::byte>&& pixels);
  // After its last frame was decoded; `thumbnails` as ExamFeatures has them.
  Whole add_exam(std::size_t task, cache::ExamInfo info, std::vector<std::string> thumbnails = {});
  void drop(std::size_t task);  // what there is of it, and what still comes out of a batch
  std::size_t unfinished() const { return pending_.size(); }  // exams of which memory holds a part

 private:
  using Row = std::pair<std::size_t, std::size_t>;  // view, slot
  // Sums in float64: the order of tiles cannot show in the float32 mean.
  struct Pooled {
    std::vector<double> sum;
    std::size_t tiles = 0;  // that are in it
  };
  struct Pending {
    std::map<Row, Pooled> open;                  // with tiles to come
    std::vector<std::vector<float>> features;    // of each view, [slots so far, D]; NaN: none came
    std::size_t complete = 0;                    // of these rows
    std::map<Row, std::vector<std::byte>> cuts;  // as stored
    std::optional<cache::ExamInfo> info;
    std::vector<std::string> thumbnails;
    std::size_t expected = 0;  // rows of present slots to be computed, once `info` is there
  };
  cache::ExamFeatures put_together(Pending&& exam) const;
  void put_cuts(Pending& pending, cache::ExamFeatures& exam) const;
  std::span<float> row_of(Pending& exam, const Row& row) const;
  void pool(Pending& exam, const FramePlace& place, std::span<const float> feature);
  Whole take_if_complete(std::size_t task, Pending& pending);

  std::int64_t dimension_;
  std::vector<std::string> views_;
  std::optional<cache::Cut> cut_;
  std::map<std::size_t, Pending> pending_;  // by task
  std::set<std::size_t> dropped_;           // features of these may still come out of a batch
};

}  // namespace coldframe::extract
