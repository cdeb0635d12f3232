#include "extract/vit/positions/starting_tokens.h"

namespace coldframe::vit {

torch::Tensor starting_tokens(const VisionTransformerImpl& model, std::int64_t patches) {
  const std::int64_t prefix = model.architecture.prefix_tokens();
  torch::Tensor start = torch::zeros({prefix + patches, model.architecture.width});
  std::int64_t row = 0;
  for (const torch::Tensor& token : {model.cls_token, model.reg_token}) {
    if (!token.defined()) continue;
    start.narrow(0, row, token.size(1)).copy_(token[0]);
    row += token.size(1);
  }
  const torch::Tensor& bias = model.patch_embed->proj->bias;
  if (bias.defined() && !model.patch_embed->norm) start.narrow(0, prefix, patches).add_(bias);
  if (!model.pos_embed.defined()) return start;
  const torch::Tensor positions = model.pos_embed.detach().to(torch::kCPU, torch::kFloat32)[0];
  start.narrow(0, model.architecture.prefix_positions ? 0 : prefix, positions.size(0))
      .add_(positions);
  return start;
}

}  // namespace coldframe::vit
