// The CPU engine with the kernels of every instruction set that this processor has, beside the same
// ViT, if it is a plain one, on the oneDNN operators that LibTorch brings (fused linear layers with
// weights packed beforehand, attention the quicker of LibTorch's two), all in turn within each
// round.
//   vit_instruction_sets [ROUNDS [BATCH [SIZE [ARCHITECTURE]]]]
// oneDNN takes the best instructions there are, or those that ONEDNN_MAX_CPU_ISA allows (AVX2,
// AVX512_CORE, AVX512_CORE_BF16): the line to read is the one of the same set.

#include <ATen/core/dispatch/Dispatcher.h>
#include <algorithm>
#include <chrono>
#include <functional>
#include <iomanip>
#include <iostream>

#include "extract/vit/cpu/engine.h"
#include "extract/vit/published/published.h"
#include "extract/vit/weights.h"
#include "tests/support/driver.h"

namespace coldframe::vit::cpu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor pointwise(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                     std::string_view after) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                            std::string_view, c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>)>();
  return op.call(x, weight, bias, after, c10::List<std::optional<at::Scalar>>(),
                 after == "gelu" ? "none" : "");
}

at::Tensor added(const at::Tensor& x, const at::Tensor& to, const at::Tensor& weight,
                 const OptionalTensor& bias) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "binary")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const OptionalTensor&, std::string_view)>();
  return op.call(x, to, weight, bias, "add");
}

at::Tensor packed(const at::Tensor& weight, std::int64_t rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                             .typed<at::Tensor(const at::Tensor&, std::optional<c10::SymInt>)>();
  return op.call(weight, rows);
}

class OneDnnVit {
 public:
  // It knows plain ViTs only.
  static bool computes(const Architecture& shape) {
    Architecture plain;
    for (const auto member :
         {&Architecture::patch, &Architecture::width, &Architecture::depth, &Architecture::heads,
          &Architecture::mlp_hidden, &Architecture::position_grid, &Architecture::registers})
      plain.*member = shape.*member;
    for (const auto member :
         {&Architecture::class_token, &Architecture::prefix_positions, &Architecture::layer_scale})
      plain.*member = shape.*member;
    plain.resampling = shape.resampling;
    return std::ranges::all_of(fields(),
                               [&](const Field& field) { return field.same(plain, shape); });
  }

  OneDnnVit(const VisionTransformerImpl& model, std::int64_t size, std::int64_t batch,
            torch::ScalarType type, bool flash)
      : shape_(model.architecture), type_(type), flash_(flash) {
    const std::int64_t patches = (size / shape_.patch) * (size / shape_.patch);
    start_ = starting_tokens(model, patches).to(type);
    const std::int64_t rows = batch * start_.size(0);
    const auto linear = [&](const Linear& from, const LayerScale& scale = nullptr) {
      at::Tensor weight = from->weight.detach(), bias = from->bias.detach();
      if (scale) weight = weight * scale->gamma.unsqueeze(1), bias = bias * scale->gamma;
      return Layer{packed(weight.to(type).contiguous(), rows), bias.to(type)};
    };
    patch_ = model.patch_embed->proj->weight.detach().flatten(1).to(type);
    for (const vit::Block& block : model.blocks) {
      const Branch &attends = block->branches[0][0], &mlp_branch = block->branches[1][0];
      blocks_.push_back(
          {norm(*attends.norm), norm(*mlp_branch.norm), linear(attends.attention->qkv),
           linear(attends.attention->proj, attends.scale), linear(mlp_branch.mlp->fc1),
           linear(mlp_branch.mlp->fc2, mlp_branch.scale)});
    }
    norm_ = norm(*model.norm);
  }

  at::Tensor forward(const at::Tensor& images) const {
    const std::int64_t batch = images.size(0), grid = images.size(2) / shape_.patch;
    const at::Tensor patches = images.to(type_)
                                   .view({batch, 3, grid, shape_.patch, grid, shape_.patch})
                                   .permute({0, 2, 4, 1, 3, 5})
                                   .reshape({batch, grid * grid, -1});
    at::Tensor x = start_.expand({batch, -1, -1}).clone();
    x.narrow(1, shape_.prefix_tokens(), grid * grid).add_(at::linear(patches, patch_));
    for (const Block& block : blocks_) {
      const at::Tensor qkv =
          pointwise(normed(x, block.norm1), block.qkv.weight, block.qkv.bias, "none");
      x = added(attended(qkv), x, block.proj.weight, block.proj.bias);
      const at::Tensor hidden =
          pointwise(normed(x, block.norm2), block.fc1.weight, block.fc1.bias, "gelu");
      x = added(hidden, x, block.fc2.weight, block.fc2.bias);
    }
    return normed(x, norm_).select(1, 0).to(torch::kFloat32);
  }

 private:
  struct Layer {
    at::Tensor weight, bias;
  };
  struct Block {
    Layer norm1, norm2, qkv, proj, fc1, fc2;
  };

  Layer norm(const NormImpl& layer) const {
    return {layer.weight.detach().to(type_), layer.bias.detach().to(type_)};
  }
  static at::Tensor normed(const at::Tensor& x, const Layer& layer) {
    return at::layer_norm(x, {x.size(-1)}, layer.weight, layer.bias, 1e-6);
  }
  at::Tensor attended(const at::Tensor& qkv) const {
    const std::int64_t batch = qkv.size(0), tokens = qkv.size(1),
                       head = shape_.width / shape_.heads;
    const auto parts =
        qkv.view({batch, tokens, 3, shape_.heads, head}).permute({2, 0, 3, 1, 4}).unbind(0);
    const at::Tensor out =
        flash_ ? at::scaled_dot_product_attention(parts[0], parts[1], parts[2])
               : at::matmul((at::matmul(parts[0] * (1 / std::sqrt(static_cast<double>(head))),
                                        parts[1].transpose(-1, -2)))
                                .softmax(-1),
                            parts[2]);
    return out.transpose(1, 2).reshape({batch, tokens, shape_.width});
  }

  Architecture shape_;
  torch::ScalarType type_;
  bool flash_;
  at::Tensor start_, patch_;
  std::vector<Block> blocks_;
  Layer norm_;
};

// LibTorch refuses bf16 where oneDNN has, or may use, no AVX-512.
bool onednn_computes_bf16() {
  const char* const limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") &&
         (!limit || std::string_view(limit).starts_with("AVX512"));
}

struct Contender {
  std::string name;
  std::function<at::Tensor()> forward;
  std::vector<double> seconds = {};
};

int run(const std::vector<std::string>& arguments) {
  const auto number = [&](std::size_t i, int otherwise) {
    return i < arguments.size() ? std::stoi(arguments[i]) : otherwise;
  };
  const int rounds = number(0, 8), batch = number(1, 16);
  const std::int64_t size = number(2, 224);
  const torch::InferenceMode guard;
  const Architecture shape =
      find_published(arguments.size() > 3 ? arguments[3] : "vit_small_patch16_224").architecture;
  RandomSource source(1);
  VisionTransformer model(Scope(source), shape, size);
  const at::Tensor images = torch::randn({batch, 3, size, size});

  std::vector<Contender> contenders;
  for (const Kernels* kernels : available_kernels()) {
    const auto engine =
        std::make_shared<Engine>(*model, size, *kernels, scalar_type(kernels->element));
    contenders.push_back({kernels->name, [=] { return engine->forward(images, {Pooling::kCls}); }});
  }
  std::vector<torch::ScalarType> types{torch::kFloat32};
  if (onednn_computes_bf16()) types.push_back(torch::kBFloat16);
  if (!OneDnnVit::computes(shape)) types.clear();
  for (const auto type : types)
    for (const bool flash : {true, false}) {
      const auto vit = std::make_shared<OneDnnVit>(*model, size, batch, type, flash);
      contenders.push_back({std::string("oneDNN ") + (type == torch::kFloat32 ? "fp32" : "bf16") +
                                (flash ? ", flash attention" : ", matmul attention"),
                            [=] { return vit->forward(images); }});
    }
  const at::Tensor expected = model->forward_head(model->forward_features(images), Pooling::kCls);
  for (int round = -1; round < rounds; ++round)
    for (Contender& contender : contenders) {
      const auto started = std::chrono::steady_clock::now();
      contender.forward();
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
      if (round >= 0) contender.seconds.push_back(wall.count());
    }
  for (Contender& contender : contenders) {
    std::sort(contender.seconds.begin(), contender.seconds.end());
    const double cosine = at::cosine_similarity(contender.forward(), expected).min().item<double>();
    std::cout << std::left << std::setw(32) << contender.name << std::right << std::fixed
              << std::setprecision(1) << std::setw(8)
              << batch / contender.seconds[contender.seconds.size() / 2] << " images/s, best "
              << batch / contender.seconds[0] << ", smallest cosine to fp32 "
              << std::setprecision(7) << cosine << std::endl;
  }
  return 0;
}

const testing::Driver kInstructionSets{"vit_instruction_sets", run};

}  // namespace
}  // namespace coldframe::vit::cpu
