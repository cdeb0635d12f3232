// A model frame by frame: what it says of the frames so far, from a state that is carried, in
// memory that does not grow. Equal to the model on a sequence that ends there, but for rounding.
#pragma once

#include <optional>
#include <string>
#include <vector>

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
  torch::Tensor pool(const torch::Tensor& frame);

  SequenceModel& model_;
  ModelConfig config_;
  torch::Tensor head_, head_bias_, attention_, attention_bias_;
  std::vector<torch::Tensor> state_;  // of the layers over frames
  double first_time_ = 0, last_time_ = 0;
  std::int64_t frames_ = 0;
  // Sums over the frames, weighted by exp(score − highest score so far): the softmax in one pass
  // (Milakov and Gimelshein 2018, arXiv:1805.02867). In double, or long sequences would round away.
  torch::Tensor sum_;  // [1, W]
  double weights_ = 0, highest_ = 0;
};

}  // namespace coldframe::temporal
