#include "train_temporal/fit/tune/redrawn_dropout.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <vector>

namespace coldframe::tune {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct Mask : torch::CustomClassHolder {
  Mask(const temporal::Dropout& d, temporal::RandomPurpose l, std::span<const std::uint64_t> k)
      : dropout(d), layer(l), keys(k.begin(), k.end()) {}

  torch::Tensor applied_to(const torch::Tensor& x) const {
    const torch::Tensor factors = dropout.mask(layer, keys, x.numel() / x.size(0), x.device());
    return x * factors.to(x.scalar_type()).view_as(x);
  }

  temporal::Dropout dropout;
  temporal::RandomPurpose layer;
  std::vector<std::uint64_t> keys;
};

struct RedrawnDropout : torch::autograd::Function<RedrawnDropout> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const c10::intrusive_ptr<Mask>& mask) {
    context->saved_data["mask"] = c10::IValue::make_capsule(mask);
    return mask->applied_to(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto mask =
        c10::static_intrusive_pointer_cast<Mask>(context->saved_data["mask"].toCapsule());
    return {mask->applied_to(gradients[0]), Variable()};
  }
};

}  // namespace

torch::Tensor redrawn_dropout(const torch::Tensor& tokens, const temporal::Dropout& dropout,
                              temporal::RandomPurpose layer, std::span<const std::uint64_t> keys) {
  return RedrawnDropout::apply(tokens, c10::make_intrusive<Mask>(dropout, layer, keys));
}

}  // namespace coldframe::tune
