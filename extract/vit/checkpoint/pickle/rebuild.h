// Calls, as far as a checkpoint may make any: each allowed function applied to its arguments.
#pragma once

#include "extract/vit/checkpoint/pickle/value.h"

namespace coldframe::vit::pickle {

// callable(*arguments): a tensor view, a dict, or an inert object. DataError for wrong arguments.
Value* call(Heap& heap, const Value& callable, const Value& arguments);

// The storage that torch.save's persistent id describes:
// ('storage', type, key, location, count[, view]).
Value* load_persistent(Heap& heap, const Value& id);

}  // namespace coldframe::vit::pickle
