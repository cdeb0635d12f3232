// The dynamic programme of rotor for heterogeneous chains (Beaumont, Eyraud-Dubois, Herrmann, Joly,
// Shilova, "Optimal checkpointing for heterogeneous chains", arXiv:1911.13214, theorem 1), with a
// choice at each step of how much its graph keeps, as in Rockmate (Zhao et al. 2023,
// arXiv:2307.01236).
#pragma once

#include "train_temporal/tune/schedule/schedule.h"

namespace coldframe::tune {

// The fastest schedule that the programme finds whose simulated peak is within the budget; empty
// when there is none. make_schedule() holds the simpler strategies against it.
Schedule optimal_schedule(std::span<const StepCost> chain, std::uint64_t input_bytes,
                          std::uint64_t budget);

}  // namespace coldframe::tune
