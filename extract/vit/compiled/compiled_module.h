// A backbone that somebody exported from PyTorch as a program: a TorchScript module, or a package
// that AOTInductor compiled (torch._inductor.aoti_compile_and_package, a .pt2). Both are code that
// runs as it is.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>

#include "common/files/bytes/zip_archive.h"
#include "common/files/file.h"
#include "common/torch/precision.h"
#include "common/torch/tensor.h"

namespace coldframe::vit {

class CompiledModule {
 public:
  virtual ~CompiledModule() = default;
  virtual const char* kind() const = 0;  // in recipes
  // False where it was compiled for one.
  virtual bool takes_precision() const { return false; }
  // images [B, 3, H, W] of the module's type, on its device. Throws as LibTorch does.
  virtual torch::IValue run(const torch::Tensor& images) = 0;
  // The part of such an error's text that says why.
  virtual std::string cause_of(const std::exception& error) const = 0;
};

// DataError says what is wrong with the file, without its name.
std::unique_ptr<CompiledModule> load_torchscript(const InputFile& file, const torch::Device& device,
                                                 Precision precision);

bool is_package(const ZipArchive& archive);

// DataError also where the package was compiled for another kind of device or processor.
std::unique_ptr<CompiledModule> load_package(const InputFile& file, const ZipArchive& archive,
                                             const torch::Device& device);

}  // namespace coldframe::vit
