// AdamW over one flat vector; all parameters of a model are views of it. On the CPU, a step is one
// pass over memory, which also sums the parts of a gradient and computes its norm. On other devices
// it is LibTorch's fused AdamW, one call per rate and decay; there all scalars of a step are
// tensors, so that a recorded step (step.h) can be replayed with other values.
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

// A module to optimise, with its own learning rate.
struct OptimizedModule {
  torch::nn::Module& module;
  double rate = 1;  // factor on the learning rate
  // Last name components of parameters without weight decay, whatever their shape.
  std::set<std::string> kept = {};
  // Parameters (by full name) with an additional factor on the module's rate.
  std::map<std::string, double> rates = {};
};

class AdamW {
 public:
  // Moves the parameters of the modules, in order, into the flat vector. Weight decay applies to
  // parameters of several dimensions, not to biases.
  AdamW(const std::vector<OptimizedModule>& modules, double weight_decay);

  void zero_gradients() { gradients_.zero_(); }
  // Makes the next step() scale the gradients to a norm of at most `max_norm` (0: no clipping). On
  // the CPU, first sums the gradients over `parts`, the first of which is gradients(); empty: only
  // that.
  void clip_gradients(double max_norm, ThreadTeam& team, std::span<float* const> parts = {});
  // The norm before clipping; waits for the device.
  double gradient_norm() const { return norm_.item<double>(); }
  // Loshchilov and Hutter 2019, betas 0.9 and 0.999.
  void step(double learning_rate, ThreadTeam& team);

  // Clips and steps with LibTorch's operations, on any device, so that it can be recorded.
  // learning_rate: one float on the parameters' device. After a replay, call count_step() to update
  // steps().
  void step_by_operations(const torch::Tensor& learning_rate, double max_norm);
  void count_step() { ++steps_; }

  // The contents of a checkpoint, [P] each. The parameters are those of the model.
  torch::Tensor parameters() const { return parameters_; }
  torch::Tensor gradients() const { return gradients_; }
  torch::Tensor first_moment() const { return first_moment_; }
  torch::Tensor second_moment() const { return second_moment_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps);

 private:
  struct ParameterRange {
    std::int64_t begin, size;
    double rate;
  };
  struct ContiguousRange {
    std::int64_t begin, size;
    double rate, decay;
  };
  // The arguments of one call of LibTorch's fused AdamW: views of all runs with the same rate and
  // decay.
  struct Group {
    double rate, decay;
    std::vector<torch::Tensor> parameters, gradients, first_moment, second_moment, steps;
  };
  void add_to_group(const ContiguousRange& run);
  double sum_gradients(ThreadTeam& team, std::span<float* const> parts);
  void norm_by_operations(double max_norm);
  void step_on_cpu(const ParameterRange& part, double learning_rate, ThreadTeam& team);
  void step_groups(const torch::Tensor& learning_rate);

  // Our kernels support float32 on the CPU only.
  bool has_kernels() const {
    return parameters_.is_cpu() && parameters_.scalar_type() == torch::kFloat32;
  }

  torch::Tensor parameters_, gradients_, first_moment_, second_moment_, decay_;
  torch::Tensor norm_;                    // of the gradients, on their device
  std::vector<ParameterRange> parts_;     // adjacent parameters with the same rate
  std::vector<Group> groups_;             // the same by decay
  std::optional<torch::Tensor> divisor_;  // of the gradients, for clipping: a float on their device
  torch::Tensor steps_there_;             // steps_ as a float on the parameters' device
  std::int64_t steps_ = 0;
  double gradient_scale_ = 1;
};

enum class Schedule { kCosine, kConstant };
inline const WordTable<Schedule> kSchedules{{"cosine", Schedule::kCosine},
                                            {"constant", Schedule::kConstant}};

// The factor on the learning rate for step 0 … steps − 1: linear warm-up over the first `warmup`
// steps, then a half cosine to 0, or constant.
double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t steps,
                       std::int64_t warmup);

}  // namespace coldframe::temporal
