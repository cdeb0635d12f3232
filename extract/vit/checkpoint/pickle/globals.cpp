#include "extract/vit/checkpoint/pickle/globals.h"

#include <map>
#include <string_view>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit::pickle {

namespace {

const std::map<std::string, Global, std::less<>>& allowed() {
  static const auto* table = [] {
    auto* names = new std::map<std::string, Global, std::less<>>{
        {"torch._utils._rebuild_tensor", Global::kRebuildTensor},
        {"torch._utils._rebuild_tensor_v2", Global::kRebuildTensorV2},
        {"torch._utils._rebuild_tensor_v3", Global::kRebuildTensorV3},
        {"torch._utils._rebuild_parameter", Global::kRebuildParameter},
        {"torch._utils._rebuild_parameter_with_state", Global::kRebuildParameter},
        {"torch._tensor._rebuild_from_type_v2", Global::kRebuildFromType},
        {"collections.OrderedDict", Global::kDict},
        {"collections.defaultdict", Global::kDict},
        {"collections.Counter", Global::kDict},
        {"builtins.dict", Global::kDict},
    };
    for (const char* type :
         {"Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool",
          "ComplexFloat", "ComplexDouble", "QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4"})
      names->emplace(concat("torch.", type, "Storage"), Global::kStorageType);
    for (const char* type :
         {"torch.storage.UntypedStorage", "torch.storage.TypedStorage",
          "torch.storage._UntypedStorage", "torch.storage._TypedStorage", "torch.UntypedStorage"})
      names->emplace(type, Global::kStorageType);
    for (const char* dtype :
         {"float32",    "float64",       "float16",     "bfloat16",        "int64",
          "int32",      "int16",         "int8",        "uint8",           "uint16",
          "uint32",     "uint64",        "bool",        "complex32",       "complex64",
          "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"})
      names->emplace(concat("torch.", dtype), Global::kDtype);
    for (const char* inert : {"torch.Size",
                              "torch.device",
                              "torch.Tensor",
                              "torch.nn.parameter.Parameter",
                              "torch.serialization._get_layout",
                              "argparse.Namespace",
                              "numpy.dtype",
                              "numpy.ndarray",
                              "numpy.core.multiarray.scalar",
                              "numpy.core.multiarray._reconstruct",
                              "numpy._core.multiarray.scalar",
                              "numpy._core.multiarray._reconstruct",
                              "pathlib.Path",
                              "pathlib.PosixPath",
                              "pathlib.WindowsPath",
                              "pathlib.PurePosixPath",
                              "pathlib.PureWindowsPath",
                              "pathlib._local.PosixPath",
                              "pathlib._local.WindowsPath",
                              "numpy.core.numeric._frombuffer",
                              "numpy._core.numeric._frombuffer",
                              "_codecs.encode",
                              "copyreg._reconstructor",
                              "builtins.object",
                              "builtins.list",
                              "builtins.tuple",
                              "builtins.set",
                              "builtins.frozenset",
                              "builtins.int",
                              "builtins.float",
                              "builtins.str",
                              "builtins.bool",
                              "builtins.bytes",
                              "builtins.bytearray",
                              "builtins.complex",
                              "builtins.slice",
                              "builtins.range",
                              "builtins.xrange"})
      names->emplace(inert, Global::kInert);
    // numpy 2 pickles the scalar types of a dtype under numpy.dtypes.
    for (const char* type : {"Float16", "Float32", "Float64", "Int8", "Int16", "Int32", "Int64",
                             "UInt8", "UInt16", "UInt32", "UInt64", "Bool"})
      names->emplace(concat("numpy.dtypes.", type, "DType"), Global::kInert);
    return names;
  }();
  return *table;
}

// Protocols below 3 spell modules as Python 2 did.
std::string python3_module(const std::string& module) {
  if (module == "__builtin__") return "builtins";
  if (module == "copy_reg") return "copyreg";
  return module;
}

// Only printable ASCII reaches the terminal.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 200)) shown += c >= 0x20 && c < 0x7f ? c : '?';
  return shown;
}

}  // namespace

GlobalName allow_global(const std::string& module, const std::string& name) {
  const std::string full = python3_module(module) + "." + name;
  const auto found = allowed().find(full);
  if (found != allowed().end()) return {full, found->second};
  std::string shown = printable(full);
  if (module == "posix" || module == "nt") shown += " (os." + printable(name) + ")";
  throw DataError(concat("refused: the pickle calls ", shown,
                         ", and a checkpoint may only build tensors and plain values; if you trust "
                         "its source, load it in Python and save model.state_dict() alone"));
}

Global kind_of_global(const std::string& name) {
  return allowed().at(name);
}

}  // namespace coldframe::vit::pickle
