// What the rest of the program knows of a kind of model: a row, which stands in the model's own
// file, as do the names by which command lines ask for it (registry.h).
#pragma once

#include <cstdint>
#include <memory>

namespace coldframe::temporal {

class Operations;
class SequenceModel;
struct Value;
struct ModelConfig;

enum class TemporalPool { kLast, kMean, kAttention, kNone };  // kNone: the head sees every frame

// Values per frame, in units of H, that autograd keeps at the highest point of a step; measured
// with LibTorch 2.11. Of layers over frames: once, and for each layer and direction.
struct KeptValues {
  double once = 0, by_layer = 0;
  double grid_by_layer = 0;  // of each frame of the padded batch
  // Evaluation keeps no more than what one layer needs; 0: a third of what training does.
  double evaluation = 0, evaluation_grid = 0;
};

struct Architecture {
  const char* name;  // in model files
  std::shared_ptr<SequenceModel> (*make)(const ModelConfig& config);
  // Its arithmetic over operations (network/operations.h): what is between the projected frames and
  // their pooling or, of models that are not so, from inputs to outputs.
  Value (*layers_over_frames)(Operations&, const ModelConfig&, Value x) = nullptr;
  Value (*whole)(Operations&, const ModelConfig&) = nullptr;
  bool is_network() const { return layers_over_frames != nullptr || whole != nullptr; }
  TemporalPool pool = TemporalPool::kMean;  // of those that are not `ordered`

  bool ordered = false;     // reads frames in order and at their times, pooled as `pool` says
  bool recurrent = false;   // can read both ways
  std::int64_t gates = 0;   // of a recurrent cell: 3 of a GRU, 4 of an LSTM
  bool sees_frames = true;  // has features, which can be blanked, and a ViT to tune behind them
  bool takes_covariates = true;
  bool per_frame = true;     // can give an output for each frame
  bool decays = false;       // its state can fade between frames (--time-encoding decay)
  bool has_kernels = false;  // FusedGru computes its plain form on the CPU
  bool even_width = false;   // `hidden` is even
  bool by_steps = true;      // is trained; else fitted exactly, with nothing to search or to tune
  std::int64_t layers = 1;   // unless --layers says otherwise
  std::int64_t most_layers = 64;
  KeptValues kept = {}, kept_decaying = {};  // the latter with --time-encoding decay
};

// Those that the rest of the program names.
extern const Architecture kGru;      // network/recurrent.cpp
extern const Architecture kClock;    // network/without_frames.cpp
extern const Architecture kSummary;  // summary/summary_model.cpp

template <typename Model>
std::shared_ptr<SequenceModel> make(const ModelConfig& config) {
  return std::make_shared<Model>(config);
}

}  // namespace coldframe::temporal
