#include "extract/pipeline/transfer/device_input.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/cuda/library.h"

namespace coldframe::extract {
namespace {

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
  const int error =
      kernels->patches({resident.const_data_ptr<std::uint8_t>(), table_.const_data_ptr<float>(),
                        images.data_ptr(), batch, size, size, 3 * size * size, DType::kFp32},
                       streams.getStream(device_).native_handle());
  if (error != 0)
    throw SystemError(concat("the CUDA kernel that normalises frames failed with error ", error,
                             "; run with --device cpu, or check the driver with nvidia-smi"));
  return images;
}

}  // namespace coldframe::extract
