#include "train_temporal/plan/parameters.h"

#include "common/text/text.h"
#include "extract/vit/vision_transformer.h"

namespace coldframe::plan {
namespace {

// Names and shapes without memory.
class ShapesOnly : public vit::WeightSource {
 public:
  explicit ShapesOnly(const tune::ChainShape& shape) : shape_(shape) {}
  torch::Tensor take(const std::string& name, torch::IntArrayRef sizes) override {
    torch::Tensor tensor = torch::empty(sizes, torch::kMeta);
    const auto elements = static_cast<std::uint64_t>(tensor.numel());
    std::int64_t block = -1;
    if (name.starts_with("blocks.")) parse_int(name.substr(7, name.find('.', 7) - 7), block);
    const bool behind_blocks =
        name.starts_with("norm.") || name.starts_with("fc_norm.") || name.starts_with("attn_pool.");
    const bool behind_cut =
        block >= 0 ? block >= shape_.first_block() : behind_blocks || shape_.cut == 0;
    if (behind_cut) found_.all += elements;
    if (behind_cut && shape_.lora_rank == 0 && (block >= 0 || behind_blocks || shape_.whole()))
      found_.trained += elements;
    const bool low_rank = shape_.lora_rank > 0 && block >= shape_.first_block() &&
                          sizes.size() == 2 &&
                          (name.ends_with("qkv.weight") || name.ends_with("proj.weight"));
    if (low_rank) {
      const auto added = static_cast<std::uint64_t>(shape_.lora_rank * (sizes[0] + sizes[1]));
      found_.all += added;
      found_.trained += added;
    }
    return tensor;
  }
  ParameterCount found() const { return found_; }

 private:
  const tune::ChainShape& shape_;
  ParameterCount found_;
};

}  // namespace

ParameterCount count_parameters(const tune::ChainShape& shape) {
  ShapesOnly shapes(shape);
  vit::VisionTransformer model(vit::Scope(shapes), shape.architecture, shape.image_size,
                               shape.projected);
  return shapes.found();
}

}  // namespace coldframe::plan
