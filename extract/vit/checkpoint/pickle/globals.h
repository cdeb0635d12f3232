// The classes and functions that a checkpoint may name. Every other one is refused by its name.
#pragma once

#include <string>

namespace coldframe::vit::pickle {

enum class Global {
  kRebuildTensor,     // torch._utils._rebuild_tensor(storage, offset, size, stride)
  kRebuildTensorV2,   // … _v2(storage, offset, size, stride, requires_grad, hooks[, metadata])
  kRebuildTensorV3,   // … _v3(storage, offset, size, stride, requires_grad, hooks, dtype[, …])
  kRebuildParameter,  // torch._utils._rebuild_parameter[_with_state](data, …)
  kRebuildFromType,   // torch._tensor._rebuild_from_type_v2(function, type, arguments, state)
  kStorageType,       // torch.FloatStorage, …
  kDtype,             // torch.float32, …
  kDict,              // dict, OrderedDict, defaultdict, Counter
  kInert,             // remembered as an object of that name, never built
};

struct GlobalName {
  std::string name;  // "module.name" as Python 3 spells it
  Global global;
};

// DataError: "refused: the pickle calls posix.system (os.system) …".
GlobalName allow_global(const std::string& module, const std::string& name);

// Says what a name that allow_global let through is.
Global kind_of_global(const std::string& name);

}  // namespace coldframe::vit::pickle
