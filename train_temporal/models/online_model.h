// A model frame by frame: what it says of the frames so far, from a state that is carried, in
// memory that does not grow. Equal to the model on a sequence that ends there, but for rounding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train_temporal/models/network/next_frame.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

// Names what of the model needs the whole sequence, "it reads frames in both directions"; empty for
// one that can go frame by frame.
std::optional<std::string> needs_whole_sequence(const ModelConfig& config);

class OnlineModel {
 public:
  // ConfigError as needs_whole_sequence() says. The model must live on, on the CPU.
  OnlineModel(SequenceModel& model, const ModelConfig& config);

  // The next frame's features [D] float32 and its time in seconds, NaN where unknown: outputs [C]
  // of the sequence up to here, or of this frame where the model has an output per frame.
  std::vector<double> step(const torch::Tensor& features, double time_s);
  void restart();  // comes before the first frame of another sequence

 private:
  SequenceModel& model_;
  FrameState state_;
  double first_time_ = 0, last_time_ = 0;
};

}  // namespace coldframe::temporal
