#include <torch/script.h>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/error_text.h"
#include "extract/vit/compiled/compiled_module.h"

namespace coldframe::vit {

namespace {

// The interpreter puts its own trace first and the cause last.
std::string last_cause(const std::exception& error) {
  const std::string text = error_text(error);
  const std::size_t cause = text.rfind("RuntimeError: ");
  if (cause == std::string::npos) return first_line(error);
  return text.substr(cause, text.find('\n', cause) - cause);
}

class Torchscript : public CompiledModule {
 public:
  explicit Torchscript(torch::jit::Module module) : module_(std::move(module)) {}

  const char* kind() const override { return "torchscript"; }
  bool takes_precision() const override { return true; }
  torch::IValue run(const torch::Tensor& images) override { return module_.forward({images}); }
  std::string cause_of(const std::exception& error) const override { return last_cause(error); }

 private:
  torch::jit::Module module_;
};

}  // namespace

std::unique_ptr<CompiledModule> load_torchscript(const InputFile& file, const torch::Device& device,
                                                 Precision precision) {
  try {
    torch::jit::Module module = torch::jit::load(file.path().string(), device);
    module.eval();
    if (precision != Precision::kFp32) module.to(scalar_type(precision));
    return std::make_unique<Torchscript>(std::move(module));
  } catch (const std::exception& error) {
    throw DataError(concat("it is no readable TorchScript module: ", last_cause(error),
                           "; a state dict goes to --weights"));
  }
}

}  // namespace coldframe::vit
