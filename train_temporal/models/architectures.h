// The rows of all kinds of models, each of which stands in its own file.
#pragma once

#include "train_temporal/models/architecture.h"

namespace coldframe::temporal {

extern const Architecture kGru, kLstm;          // network/recurrent.cpp
extern const Architecture kTransformer;         // network/transformer.cpp
extern const Architecture kTcn;                 // network/tcn.cpp
extern const Architecture kMean, kAttention;    // network/pooled.cpp
extern const Architecture kClock, kCovariates;  // network/without_frames.cpp
extern const Architecture kSummary;             // summary/summary_model.cpp

}  // namespace coldframe::temporal
