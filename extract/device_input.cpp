#include "extract/device_input.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "common/error.h"
#include "common/text.h"
#include "extract/cuda/normalize.h"

namespace coldframe {
namespace {

using NormalizeKernel = decltype(&coldframe_normalize);

// The kernel library lies beside the program. Null in a build without the CUDA toolkit.
NormalizeKernel load_kernel() {
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libcoldframe_cuda.so";
  void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<NormalizeKernel>(dlsym(library, "coldframe_normalize"))
                 : nullptr;
}

// The same arithmetic in LibTorch's own operators.
torch::Tensor normalize_with_operators(const torch::Tensor& frames,
                                       const ColdframeNormalization& constants) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32);
  const auto mean =
      torch::from_blob(const_cast<float*>(constants.mean), {3}, options).to(frames.device());
  const auto std =
      torch::from_blob(const_cast<float*>(constants.std), {3}, options).to(frames.device());
  return frames.to(torch::kFloat32)
      .div(255.0f)
      .sub(mean)
      .div(std)
      .permute({0, 3, 1, 2})
      .contiguous();
}

ColdframeNormalization constants_of(const preprocess::Preprocessing& preprocessing) {
  ColdframeNormalization constants{};
  std::copy_n(preprocessing.mean.begin(), 3, constants.mean);
  std::copy_n(preprocessing.std.begin(), 3, constants.std);
  return constants;
}

}  // namespace

DeviceInput::DeviceInput(const preprocess::Preprocessing& preprocessing,
                         const torch::Device& device)
    : preprocessing_(preprocessing), device_(device) {}

torch::Tensor DeviceInput::operator()(const torch::Tensor& frames) const {
  return device_.is_cpu() ? on_cpu(frames) : on_cuda(frames);
}

torch::Tensor DeviceInput::on_cpu(const torch::Tensor& frames) const {
  const std::int64_t batch = frames.size(0), size = frames.size(1);
  torch::Tensor images = torch::empty({batch, 3, size, size}, torch::kFloat32);
  const auto* in = frames.const_data_ptr<std::uint8_t>();
  auto* out = images.data_ptr<float>();
  at::parallel_for(0, batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      preprocess::normalize(preprocessing_, in + i * size * size * 3, out + i * size * size * 3);
  });
  return images;
}

torch::Tensor DeviceInput::on_cuda(const torch::Tensor& frames) const {
  static const NormalizeKernel kernel = load_kernel();
  const auto constants = constants_of(preprocessing_);
  const torch::Tensor resident = frames.to(device_);
  if (!kernel) return normalize_with_operators(resident, constants);
  const std::int64_t batch = frames.size(0), size = frames.size(1);
  torch::Tensor images = torch::empty(
      {batch, 3, size, size}, torch::TensorOptions().dtype(torch::kFloat32).device(device_));
  const c10::impl::VirtualGuardImpl guard(device_.type());
  const int error = kernel(resident.const_data_ptr<std::uint8_t>(), images.data_ptr<float>(), batch,
                           size, constants, guard.getStream(device_).native_handle());
  if (error != 0)
    throw SystemError(concat("the CUDA kernel that normalises frames failed with error ", error,
                             "; run with --device cpu, or check the driver with nvidia-smi"));
  return images;
}

}  // namespace coldframe
