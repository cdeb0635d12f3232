#include "extract/vit/weight_source.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

constexpr std::size_t kProblemsShown = 6;

}  // namespace

torch::Tensor StateDictSource::take(const std::string& name, torch::IntArrayRef shape) {
  const auto found = tensors_.find(name);
  std::string problem;
  if (found == tensors_.end()) {
    problem = concat("'", name, "' ", shape_text(shape), " is missing");
  } else if (found->second.sizes() != shape) {
    problem = concat("'", name, "' has shape ", shape_text(found->second.sizes()), ", expected ",
                     shape_text(shape));
  } else if (!found->second.is_floating_point()) {
    problem = concat("'", name, "' has type ", found->second.dtype().name(), ", expected a float");
  } else {
    torch::Tensor taken = found->second.to(torch::kFloat32).contiguous();
    if (!taken.isfinite().all().item<bool>())
      problem = concat("'", name, "' has values that are infinite or no number");
    tensors_.erase(found);
    if (problem.empty()) return taken;
  }
  problems_.push_back(problem);
  tensors_.erase(name);
  return torch::empty(shape, torch::TensorOptions(torch::kMeta));
}

void StateDictSource::finish() const {
  std::vector<std::string> problems = problems_;
  for (const auto& [name, tensor] : tensors_)
    problems.push_back(concat("'", name, "' ", shape_text(tensor.sizes()), " has no place in it"));
  if (problems.empty()) return;
  const std::size_t more = problems.size() - std::min(problems.size(), kProblemsShown);
  problems.resize(problems.size() - more);
  throw DataError(concat("the tensors do not make up a plain ViT with timm's names: tensor ",
                         join(problems, "; tensor "),
                         more > 0 ? concat("; and ", more, " more") : ""));
}

}  // namespace coldframe::vit
