// A temporal model as an ONNX graph with its state as inputs and outputs: whole sequences and
// single frames go through the same graph. A transformer has none, and takes whole sequences alone.
#pragma once

#include "train_temporal/models/model_file.h"
#include "train_temporal/onnx/graph.h"

namespace coldframe::onnx {

// Input `features` [batch, frames, D]; with time `time` [batch, frames, 2 V], V = time_values():
// of each value of time_row() (data/batcher.h) that the model sees, then whether each is known;
// with covariates `covariates` [batch, K], as the metadata of that name encode them
// (data/covariates.h); and for each state NAME an input NAME and an output next_NAME, whose first
// value is zeros. Outputs are of the sequence up to the last of the frames, or of each frame where
// the model has an output per frame: `outputs`, the head's, and for each target `TARGET`, the
// probabilities of its classes, or the number. All sequences of a batch have as many frames.
// ConfigError for other models that need the whole sequence, and for a state that decays (time
// encoding `decay`), by name.
Graph temporal_graph(const temporal::TrainedModel& trained);

}  // namespace coldframe::onnx
