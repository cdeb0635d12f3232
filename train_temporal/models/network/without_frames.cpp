// The controls that see no frame: MLPs on how exams were acquired, or on their covariates alone.
//   clock: clock_mean, clock_std [F]; project.weight [32, F], .bias; per frame F + 3 inputs, the
//          frame's place and time being the last, and time_mean, time_std [V], V = time_values()
//   covariates: project.weight [H, K], .bias
#include "train_temporal/models/network/network.h"
#include "train_temporal/models/network/operations.h"
#include "train_temporal/models/registry.h"

namespace coldframe::temporal {
namespace {

constexpr std::int64_t kClockHidden = 32;

Value clock_outputs(Operations& ops, const ModelConfig& config) {
  return head_of(ops, config, ops.relu(ops.linear(ops.clock(), "project", kClockHidden)));
}

Value covariate_outputs(Operations& ops, const ModelConfig& config) {
  return head_of(ops, config, ops.relu(ops.linear(ops.covariates(), "project", config.hidden)));
}

const Architecture kCovariates{
    .name = "covariates", .make = make<Network>, .whole = covariate_outputs, .sees_frames = false};

constexpr NamedModel kNamesWithoutFrames[] = {
    {.name = "clock",
     .architecture = &kClock,
     .about = "(control): no images, only length, times, frame size, file type",
     .compared = true},
    {.name = kCovariatesAlone,
     .architecture = &kCovariates,
     .about = "(control): no images, the covariates alone"},
};

}  // namespace

const Architecture kClock{.name = "clock",
                          .make = make<Network>,
                          .whole = clock_outputs,
                          .sees_frames = false,
                          .takes_covariates = false};

std::span<const NamedModel> models_without_frames() {
  return kNamesWithoutFrames;
}

}  // namespace coldframe::temporal
