#include <sys/utsname.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <set>
#include <sstream>

#include "common/cli/error.h"
#include "common/system/library.h"
#include "common/text/text.h"
#include "common/torch/error_text.h"
#include "extract/vit/compiled/compiled_module.h"

namespace coldframe::vit {

namespace {

using torch::inductor::AOTIModelPackageLoader;

// Compiled models lie here below the archive's root (torch/export/pt2_archive/constants.py).
constexpr std::string_view kModels = "data/aotinductor/";
constexpr std::string_view kHowToCompile =
    "; compile it for this machine with torch._inductor.aoti_compile_and_package(torch.export."
    "export(model, (images,), dynamic_shapes=({0: torch.export.Dim('batch')},)))";

std::string below_root(const std::string& entry) {
  return entry.substr(std::min(entry.find('/'), entry.size() - 1) + 1);
}

// Reads every entry once, so that their checksums are compared before any of it is executed, and
// refuses names that would be unpacked elsewhere than below the loader's folder.
void require_sound(const ZipArchive& archive) {
  for (const auto& [name, entry] : archive.entries()) {
    if (name.starts_with('/') || ("/" + name + "/").find("/../") != std::string::npos)
      throw DataError(concat("its entry '", name.substr(0, 80), "' points outside of the package"));
    if (!entry.stored)
      throw DataError(concat("its entry '", name.substr(0, 80), "' is compressed, which LibTorch ",
                             "does not write"));
    archive.read(name);
  }
}

std::string only_model(const ZipArchive& archive) {
  std::set<std::string> models;
  for (const auto& [entry, info] : archive.entries()) {
    const std::string name = below_root(entry);
    if (!name.starts_with(kModels)) continue;
    const std::size_t end = name.find('/', kModels.size());
    if (end != std::string::npos) models.insert(name.substr(kModels.size(), end - kModels.size()));
  }
  if (models.empty())
    throw DataError(concat("it holds an exported program that is not compiled", kHowToCompile));
  if (models.size() > 1)
    throw DataError(concat("it holds the models '", join({models.begin(), models.end()}, "', '"),
                           "', expected one"));
  return *models.begin();
}

using Facts = std::unordered_map<std::string, std::string>;

std::string fact(const Facts& facts, const char* key) {
  const auto found = facts.find(key);
  return found == facts.end() ? "" : found->second;
}

// The words of AOTI_CPU_ISA (torch/_inductor/cpu_vec_isa.py) and what the processor must have.
bool processor_has(std::string_view word) {
#if defined(__x86_64__)
  if (word == "AVX2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (word == "AVX512") return __builtin_cpu_supports("avx512f");
  if (word == "AVX512_VNNI") return __builtin_cpu_supports("avx512vnni");
  if (word == "AMX" || word == "AMX_TILE") return __builtin_cpu_supports("amx-tile");
#endif
  return true;
}

void require_this_machine(const Facts& facts, const torch::Device& device) {
  const std::string type = fact(facts, "AOTI_DEVICE_KEY"),
                    here = torch::DeviceTypeName(device.type(), true);
  if (!type.empty() && type != here)
    throw DataError(concat("it was compiled for ", type, ", and the device is ", here,
                           "; give --device ", type, ", or compile it for ", here));
  utsname machine{};
  uname(&machine);
  const std::string made_for = fact(facts, "AOTI_MACHINE");
  if (!made_for.empty() && made_for != machine.machine)
    throw DataError(concat("it was compiled for processors of kind ", made_for, ", and this is ",
                           machine.machine, kHowToCompile));
  if (type != "cpu") return;
  for (const std::string& word : split(fact(facts, "AOTI_CPU_ISA"), ' '))
    if (!processor_has(word))
      throw DataError(concat("it was compiled for a processor with ", word,
                             ", which this one lacks", kHowToCompile));
}

// Makes the soname libtorch.so known, which compiled models need, without CUDA's libraries where
// the device is a CPU.
void provide_libtorch(const torch::Device& device) {
  if (!device.is_cpu()) return;  // LibTorch's own is there
  std::string problem;
  if (!find_in_library("libcoldframe_libtorch_stand_in.so", "coldframe_libtorch_stand_in", problem))
    throw SystemError(problem);
}

// Compiled code writes what is wrong to std::cerr and throws an error that does not tell. Only one
// of these is there at a time.
class CapturedMessages {
 public:
  CapturedMessages() : before_(std::cerr.rdbuf(text_.rdbuf())) {}
  ~CapturedMessages() { std::cerr.rdbuf(before_); }
  CapturedMessages(const CapturedMessages&) = delete;
  CapturedMessages& operator=(const CapturedMessages&) = delete;

  std::string text() const {
    const std::string line = text_.str().substr(0, text_.str().find('\n'));
    return line.starts_with("Error: ") ? line.substr(7) : line;
  }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

class Package : public CompiledModule {
 public:
  Package(const std::string& path, const std::string& model, const torch::Device& device)
      : loader_(path, model, /*run_single_threaded=*/false, /*num_runners=*/1,
                device.is_cuda() ? device.index() : static_cast<c10::DeviceIndex>(-1)) {}

  const char* kind() const override { return "aotinductor"; }

  // torch.export takes one image for a fixed number, so that packages for any number begin at two.
  torch::IValue run(const torch::Tensor& images) override {
    const bool single = images.size(0) == 1;
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    const CapturedMessages messages;
    std::vector<torch::Tensor> outputs;
    try {
      outputs = loader_.run({single ? images.expand({2, -1, -1, -1}).contiguous() : images});
    } catch (const std::exception&) {
      said_ = messages.text();
      throw;
    }
    if (outputs.size() != 1) return outputs;
    return single && outputs[0].dim() > 0 && outputs[0].size(0) == 2 ? outputs[0].narrow(0, 0, 1)
                                                                     : outputs[0];
  }

  std::string cause_of(const std::exception& error) const override {
    return said_.empty() ? first_line(error) : said_;
  }

 private:
  AOTIModelPackageLoader loader_;
  std::string said_;  // by the last run that failed
};

}  // namespace

bool is_package(const ZipArchive& archive) {
  return std::ranges::any_of(archive.entries(), [](const auto& entry) {
    return below_root(entry.first) == "archive_format";
  });
}

std::unique_ptr<CompiledModule> load_package(const InputFile& file, const ZipArchive& archive,
                                             const torch::Device& device) {
  const std::string model = only_model(archive);
  require_sound(archive);
  // Compiled code compares its input with what it was compiled for only where this is set, and
  // reads beyond other inputs else. It looks once, when it first runs.
  setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", 1);
  const std::string path = file.path().string();
  try {
    require_this_machine(AOTIModelPackageLoader::load_metadata_from_package(path, model), device);
    provide_libtorch(device);
    return std::make_unique<Package>(path, model, device);
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    throw DataError(concat("LibTorch cannot load it: ", first_line(error), kHowToCompile));
  }
}

}  // namespace coldframe::vit
