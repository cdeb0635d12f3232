// AdamW over one flat vector that all parameters of a model are views of: a step is a handful of
// tensor operations however many layers there are, and its state is two vectors.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace coldframe::temporal {

class AdamW {
 public:
  // Moves the parameters into the flat vector. Decay applies to matrices, not to biases.
  AdamW(torch::nn::Module& model, double weight_decay);

  void zero_gradients() { gradients_.zero_(); }
  double clip_gradients(double max_norm);  // returns the norm before; 0: no clipping
  void step(double learning_rate);         // Loshchilov and Hutter 2019, betas 0.9 and 0.999

  // What a checkpoint holds; [P] each. The parameters are the model's own.
  torch::Tensor parameters() const { return parameters_; }
  torch::Tensor first_moment() const { return first_moment_; }
  torch::Tensor second_moment() const { return second_moment_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  torch::Tensor parameters_, gradients_, first_moment_, second_moment_, decay_;
  std::int64_t steps_ = 0;
};

enum class Schedule { kCosine, kConstant };

// The factor on the learning rate for step 0 … steps − 1: linear warm-up over the first `warmup`
// steps, then a half cosine towards 0, or constant.
double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t steps,
                       std::int64_t warmup);

}  // namespace coldframe::temporal
