#include "train_temporal/plan/parameters.h"

#include "common/text/text.h"
#include "extract/vit/vit.h"
#include "train_temporal/tune/trained_parameters.h"

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
    const bool behind_blocks = name.starts_with("norm.") || name.starts_with("fc_norm.") ||
                               name.starts_with("attn_pool.") || name.starts_with("projection.");
    const bool behind_cut =
        block >= 0 ? block >= shape_.first_block() : behind_blocks || shape_.cut == 0;
    const auto trained = static_cast<std::uint64_t>(tune::trained_values(shape_, name, sizes));
    found_.trained += trained;
    if (behind_cut) found_.all += elements;
    if (shape_.lora_rank > 0) found_.all += trained;
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
