// What the trained steps of a ViT take, in bytes and in seconds: measured. One step of each kind
// runs by itself on the device that will train, for a few frames, and those of larger chunks
// follow. An allocation is as large as weights are, or grows with the frames, so each is a line
// over their number; what a step takes at once is the highest of the lines that add up before it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/torch/tensor.h"
#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/schedule.h"

namespace coldframe::tune {

// Bytes or seconds of a number of frames.
struct Line {
  double base = 0, each = 0;

  double at(std::int64_t frames) const { return base + each * static_cast<double>(frames); }
};
using Growth = std::vector<Line>;  // the highest of them

struct MeasuredGraph {
  Line saved;                // stays, beside input and output
  Growth forward, backward;  // live at most above what was there before
  Line input_gradient;       // of `backward`
  Line seconds;              // backward
};

struct MeasuredStep {
  Line output, gradient, handed;
  Growth forward;                     // without a graph
  Line seconds;                       // forward
  std::vector<MeasuredGraph> graphs;  // of each of kKeeps

  StepCost at(std::int64_t frames) const;
};
// From so many frames on, up to the next entry: libraries' buffers grow otherwise for few.
using MeasuredRanges = std::map<std::int64_t, MeasuredStep>;
// By kind (Chain::kind()), of one ViT on one device.
using MeasuredSteps = std::map<std::string, MeasuredRanges>;

struct ChainCosts {
  std::string shape;                      // "197 tokens of 384 in Float, on the CPU"
  std::vector<std::string> names, kinds;  // of the trained steps, in order
  MeasuredSteps steps;
  // Bytes of a frame: of what enters the steps, where it is made for each chunk, or else is there
  // from the start; of its features.
  std::uint64_t input = 0, fixed = 0, features = 0;

  ChunkCost chunk(std::int64_t frames) const;
};
Json to_json(const ChainCosts& costs);
ChainCosts costs_from_json(const Json& json);  // DataError for what is none

// Runs the steps that are not in `known`, and adds them. Weights are of one block's size, whatever
// the depth. The device counts memory by now (budget_device_memory()). Where memory runs out, fewer
// frames are run; c10::OutOfMemoryError where a single one does not fit.
ChainCosts measure_costs(const ChainShape& shape, const torch::Device& device,
                         MeasuredSteps& known);
ChainCosts measure_costs(const ChainShape& shape, const torch::Device& device);
// Whether they are of this ViT, of what of it is trained, how, and on such a device.
bool are_of(const ChainCosts& costs, const ChainShape& shape, const torch::Device& device);

// A training step of `frames` frames, without what its head takes. Tasks of the same `chunks` share
// what is found of them.
StepTask step_task(const ChainCosts& costs, std::shared_ptr<ChunkUses> chunks, std::int64_t frames);
std::shared_ptr<ChunkUses> chunk_uses(std::shared_ptr<const ChainCosts> costs);

}  // namespace coldframe::tune
