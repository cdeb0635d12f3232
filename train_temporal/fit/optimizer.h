// AdamW over one flat vector that all parameters of a model are views of: a step is one pass over
// memory on the CPU, which also sums the parts of a gradient and knows its norm. Elsewhere it is
// LibTorch's fused AdamW, a call for each rate and decay. There all numbers of a step are tensors,
// so that a recorded step (step.h) can be replayed with others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/text/spelling.h"
#include "common/torch/tensor.h"
#include "train_temporal/models/thread_team.h"

namespace coldframe::temporal {

// Parameters that are optimised together, each module's at its own learning rate.
struct OptimizedModule {
  torch::nn::Module& module;
  double rate = 1;  // a factor on the learning rate
  // The last parts of the names of parameters that do not decay, whatever their shape.
  std::set<std::string> kept = {};
  // Parameters by whole name with a factor of their own on the module's rate.
  std::map<std::string, double> rates = {};
};

class AdamW {
 public:
  // Moves the parameters, of one module behind the other, into the flat vector. Decay applies to
  // parameters of several dimensions, not to biases.
  AdamW(const std::vector<OptimizedModule>& modules, double weight_decay);

  void zero_gradients() { gradients_.zero_(); }
  // The next step() takes the gradients scaled to a norm of at most `max_norm` (0: as they are). On
  // the CPU the gradients are first summed over `parts`, of which the first is gradients(); empty:
  // that alone.
  void clip_gradients(double max_norm, ThreadTeam& team, std::span<float* const> parts = {});
  // Before that; waits for a device.
  double gradient_norm() const { return norm_.item<double>(); }
  // Loshchilov and Hutter 2019, betas 0.9 and 0.999.
  void step(double learning_rate, ThreadTeam& team);

  // Clips and steps by LibTorch's operations, on any device and to be recorded. learning_rate: one
  // float, on the parameters' device. Whoever replays it says so by count_step(), for steps().
  void step_by_operations(const torch::Tensor& learning_rate, double max_norm);
  void count_step() { ++steps_; }

  // A checkpoint holds these, [P] each. The parameters are the model's own.
  torch::Tensor parameters() const { return parameters_; }
  torch::Tensor gradients() const { return gradients_; }
  torch::Tensor first_moment() const { return first_moment_; }
  torch::Tensor second_moment() const { return second_moment_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps);

 private:
  struct Part {
    std::int64_t begin, size;
    double rate;
  };
  struct Run {
    std::int64_t begin, size;
    double rate, decay;
  };
  // What one call of LibTorch's fused AdamW takes: views of all runs of one rate and one decay.
  struct Group {
    double rate, decay;
    std::vector<torch::Tensor> parameters, gradients, first_moment, second_moment, steps;
  };
  void add_to_group(const Run& run);
  double sum_gradients(ThreadTeam& team, std::span<float* const> parts);
  void norm_by_operations(double max_norm);
  void step_on_cpu(const Part& part, double learning_rate, ThreadTeam& team);
  void step_groups(const torch::Tensor& learning_rate);

  // Our kernels are for floats on the CPU.
  bool has_kernels() const {
    return parameters_.is_cpu() && parameters_.scalar_type() == torch::kFloat32;
  }

  torch::Tensor parameters_, gradients_, first_moment_, second_moment_, decay_;
  torch::Tensor norm_;                    // of the gradients, where they are
  std::vector<Part> parts_;               // neighbours of one rate
  std::vector<Group> groups_;             // the same by decay
  std::optional<torch::Tensor> divisor_;  // of the gradients, to clip them: a float where they are
  torch::Tensor steps_there_;             // steps_ as a float where the parameters are
  std::int64_t steps_ = 0;
  double gradient_scale_ = 1;
};

enum class Schedule { kCosine, kConstant };
inline const WordTable<Schedule> kSchedules{{"cosine", Schedule::kCosine},
                                            {"constant", Schedule::kConstant}};

// The factor on the learning rate for step 0 … steps − 1: linear warm-up over the first `warmup`
// steps, then a half cosine towards 0, or constant.
double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t steps,
                       std::int64_t warmup);

}  // namespace coldframe::temporal
