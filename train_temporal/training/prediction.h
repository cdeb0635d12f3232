// The outputs of a model for whole exams, in micro-batches that memory can hold.
#pragma once

#include <vector>

#include "train_temporal/models/sequence_model.h"
#include "train_temporal/models/thread_team.h"

namespace coldframe::temporal {

// The outputs for `exams` with all their frames, [n, C], at most `at_once` of them at a time; a
// GRU's are computed by all threads of the team, to the same bits. A model of frames has a row for
// each, in the order of exams and, within, of their present frames.
struct Prediction {
  const Dataset& dataset;
  const ModelConfig& config;
  std::uint64_t seed;  // the fit's: `shuffled` permutes frames here too
  std::size_t at_once;
};
std::vector<double> predict_logits(SequenceModel& model, const Prediction& prediction,
                                   const std::vector<std::size_t>& exams, ThreadTeam& team);
// Exams at a time where memory allows it.
std::size_t evaluation_size(const Dataset& dataset);

}  // namespace coldframe::temporal
