// Bytes and seconds of a step that trains one part of a ViT. What does not depend on the number
// of exams is found once.
#pragma once

#include <cstdint>
#include <memory>

#include "train_temporal/models/step_values.h"
#include "train_temporal/plan/parameters.h"
#include "train_temporal/plan/plan.h"

namespace coldframe::plan {

class Part {
 public:
  Part(const Query& query, const Trained& trained);

  const Trained& trained() const { return trained_; }
  tune::StepTask task(std::int64_t exams) const;
  tune::Use use(const tune::Way& way, std::int64_t exams) const {
    return is_cached() ? tune::Use{} : tune::use_of(way, task(exams));
  }
  // The bytes of a step of `exams` whose ViT takes `peak` for `at_once` of them.
  Bytes bytes(const tune::Way& way, std::uint64_t peak, std::int64_t exams,
              std::int64_t at_once) const;
  // The most bytes to which CUDA's context and allocator add no more than `memory` in all; less
  // than 0: none.
  double memory_before_device(std::uint64_t memory) const;
  // `way`: of so many exams at once; without a number, of all.
  Row row(const tune::Way& way, std::int64_t at_once) const {
    return row(way, use(way, at_once), at_once);
  }
  Row row(const tune::Way& way) const { return row(way, query_.exams); }
  // The ways whose ViT takes at most so many bytes, the fastest first, as train would go: as many
  // exams at once as fit without searching, one after another.
  std::vector<Row> rows_within(std::uint64_t budget) const;

 private:
  bool is_cached() const { return trained_.blocks == 0; }
  Row row(const tune::Way& way, const tune::Use& use, std::int64_t at_once) const;
  // The batch's row of a cut: pixels, or tokens in float16; else features.
  std::uint64_t frame_bytes() const;
  // The temporal model's step on [n, D] features.
  std::uint64_t temporal_bytes(std::int64_t exams) const;

  Query query_;
  Trained trained_;
  tune::ChainShape shape_;
  temporal::ModelConfig config_;
  temporal::StepValues temporal_;
  std::uint64_t parameters_;  // of the temporal model
  // Empty where features are cached.
  ParameterCount vit_;
  std::shared_ptr<const tune::ChainCosts> costs_;
  tune::StepTask task_;
};

}  // namespace coldframe::plan
