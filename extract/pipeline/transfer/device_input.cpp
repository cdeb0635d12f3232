#include "extract/pipeline/transfer/device_input.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <limits>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/cuda/library.h"

namespace coldframe::extract {
namespace {

constexpr std::int64_t kMostPixels = std::numeric_limits<std::int32_t>::max();  // of a launch

// The same look-up in LibTorch's own operators. frames [B, H, W, 3] uint8, table [3, 256].
torch::Tensor look_up(const torch::Tensor& frames, const torch::Tensor& table) {
  std::vector<torch::Tensor> planes;
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    planes.push_back(table[channel].index({frames.select(3, channel).to(torch::kInt64)}));
  }
  return torch::stack(planes, 1);
}

}  // namespace

DeviceInput::DeviceInput(const preprocess::Preprocessing& preprocessing,
                         const torch::Device& device)
    : preprocessing_(preprocessing), device_(device) {
  auto table = preprocess::normalization_table(preprocessing);
  table_ = torch::from_blob(table.data(), {3, 256}, torch::kFloat32).clone().to(device);
}

torch::Tensor DeviceInput::operator()(const torch::Tensor& frames) const {
  return device_.is_cpu() ? on_cpu(frames) : on_cuda(frames);
}

torch::Tensor DeviceInput::on_cpu(const torch::Tensor& frames) const {
  const std::int64_t batch = frames.size(0), values = frames[0].numel();
  torch::Tensor images = torch::empty({batch, 3, frames.size(1), frames.size(2)}, torch::kFloat32);
  const auto* in = frames.const_data_ptr<std::uint8_t>();
  auto* out = images.data_ptr<float>();
  at::parallel_for(0, batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      preprocess::normalize(preprocessing_, in + i * values, out + i * values);
  });
  return images;
}

torch::Tensor DeviceInput::on_cuda(const torch::Tensor& frames) const {
  const cuda::GpuKernels* const kernels = cuda::kernels();
  const torch::Tensor resident = frames.to(device_);
  if (!kernels || frames.size(1) != frames.size(2)) return look_up(resident, table_);
  const std::int64_t batch = frames.size(0), size = frames.size(1);
  torch::Tensor images = torch::empty({batch, 3, size, size}, table_.options());
  const c10::DeviceGuard guard(device_);  // the launch goes to the current device
  const c10::impl::VirtualGuardImpl streams(device_.type());
  const auto* in = resident.const_data_ptr<std::uint8_t>();
  auto* out = images.data_ptr<float>();
  const std::int64_t pixels = size * size;
  // The number of images is a multiple of 16: each launch's bytes are then aligned for vector
  // loads.
  const std::int64_t most = std::max<std::int64_t>(1, kMostPixels / pixels / 16 * 16);
  int error = 0;
  for (std::int64_t i = 0; i < batch && error == 0; i += most)
    error =
        kernels->patches({in + i * 3 * pixels, table_.const_data_ptr<float>(), out + i * 3 * pixels,
                          std::min(most, batch - i), size, size, 3 * pixels, DType::kFp32},
                         streams.getStream(device_).native_handle());
  if (error != 0)
    throw SystemError(concat("the CUDA kernel that normalises frames failed with error ", error,
                             "; run with --device cpu, or check the driver with nvidia-smi"));
  return images;
}

}  // namespace coldframe::extract
