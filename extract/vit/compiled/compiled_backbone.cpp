#include <ATen/core/ivalue.h>
#include <sys/utsname.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/files/zip_archive.h"
#include "common/system/gpu_libraries.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/precision.h"
#include "common/torch/tensor.h"
#include "extract/vit/backbone.h"
#include "extract/vit/checkpoint/checkpoint.h"

namespace coldframe::vit {

// A backbone that somebody exported from PyTorch as a program: a TorchScript module, or a package
// that AOTInductor compiled (torch._inductor.aoti_compile_and_package, a .pt2). Both are code that
// runs as it is.

class CompiledModule {
 public:
  virtual ~CompiledModule() = default;
  virtual const char* kind() const = 0;  // in recipes
  // False where it was compiled for one.
  virtual bool takes_precision() const { return false; }
  // images [B, 3, H, W] (or clips) of the module's type, on its device. Throws as LibTorch does.
  virtual torch::IValue run(const torch::Tensor& images) = 0;
  // The part of such an error's text that says why.
  virtual std::string cause_of(const std::exception& error) const = 0;
};

// DataError says what is wrong with the file, without its name.
std::unique_ptr<CompiledModule> load_torchscript(const InputFile& file, const torch::Device& device,
                                                 Precision precision);

bool is_package(const ZipArchive& archive);

// DataError also where the package was compiled for another kind of device or processor.
std::unique_ptr<CompiledModule> load_package(const InputFile& file, const ZipArchive& archive,
                                             const torch::Device& device);

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

  // torch.export takes one input for a fixed number, so that packages for any number begin at two.
  torch::IValue run(const torch::Tensor& images) override {
    const bool single = images.size(0) == 1;
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    const CapturedMessages messages;
    std::vector<torch::Tensor> outputs;
    try {
      outputs = loader_.run({single ? at::cat({images, images}) : images});
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

namespace {

std::unique_ptr<CompiledModule> load_module(const std::string& path, const torch::Device& device,
                                            Precision precision) {
  const InputFile file(path);
  const std::string what = stand_in(file);
  if (!what.empty()) throw DataError(what);
  std::optional<ZipArchive> archive;
  try {
    archive.emplace(file);
  } catch (const DataError& error) {
    throw DataError(concat("it is neither a TorchScript module nor a package of AOTInductor: ",
                           error.what(), "; a state dict goes to --weights"));
  }
  return is_package(*archive) ? load_package(file, *archive, device)
                              : load_torchscript(file, device, precision);
}

std::string shape_of(const torch::IValue& value) {
  if (!value.isTensor()) return "a " + value.tagKind();
  std::ostringstream out;
  out << "a tensor of shape " << value.toTensor().sizes();
  return out.str();
}

class CompiledBackbone : public Backbone {
 public:
  CompiledBackbone(const BackboneOptions& options, const torch::Device& device, Precision precision)
      : path_(options.module.string()),
        image_size_(options.image_size),
        clip_frames_(std::max<std::int64_t>(1, options.clip_frames)),
        axes_(options.clip_axes.value_or(ClipAxes::kChannelsFirst)),
        block_(options.block),
        pools_volumes_(options.pools_volumes),
        device_(device),
        precision_(precision) {
    in_context(concat("backbone '", path_, "'"), [&] {
      module_ = load_module(path_, device, precision);
      if (of_clips() && !options.clip_axes) find_axes();
      if (takes_blocks()) find_channels();
      check();
      if (!options.check || precision == Precision::kFp32 || !module_->takes_precision()) return;
      const torch::Tensor images = options.check().images;
      if (images.defined()) hold_against_fp32(images, options.named_precision);
    });
    sha256_ = sha256_file(options.module);
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    if (!takes_blocks()) require_images(images, image_size_, clip_frames_);
    return in_context(concat("backbone '", path_, "'"), [&] { return run(images); });
  }

  std::int64_t dimension() const override { return dimension_; }
  std::int64_t clip_frames() const override { return clip_frames_; }
  std::array<std::int64_t, 3> block() const override { return block_; }
  std::array<std::int64_t, 3> map() const override { return map_; }
  bool pools_volumes() const override { return pools_volumes_; }
  Precision precision() const override { return precision_; }

  Json describe() const override {
    Json json;
    json["kind"] = module_->kind();
    json["sha256"] = sha256_;
    json["dimension"] = dimension_;
    if (of_clips()) {
      json["frames"] = clip_frames_;
      json["axes"] = word_for(kClipAxes, axes_);
    }
    if (takes_blocks()) json["channels"] = channels_;
    if (pools_volumes_) json["pooling"] = "volume";
    return json;
  }

 private:
  bool of_clips() const { return clip_frames_ > 1; }
  const char* input() const { return takes_blocks() ? "block" : of_clips() ? "clip" : "image"; }
  std::string an_input() const {
    return concat(takes_blocks() || of_clips() ? "a " : "an ", input());
  }

  // As forward() takes them.
  std::vector<std::int64_t> sizes_of(std::int64_t count) const {
    if (takes_blocks()) return {count, 1, block_[0], block_[1], block_[2]};
    if (of_clips()) return {count, clip_frames_, 3, image_size_.height, image_size_.width};
    return {count, 3, image_size_.height, image_size_.width};
  }

  // Three, or of blocks, which take more memory, two.
  torch::Tensor made_inputs() const {
    const std::vector<std::int64_t> sizes = sizes_of(takes_blocks() ? 2 : 3);
    return at::sin(at::arange(c10::multiply_integers(sizes), torch::kFloat32) * 12.9898f)
        .view(sizes);
  }

  // A module that runs in one order alone takes that one. Where it runs in both (any module of 3
  // frames does), no input tells: one that averages frames is as blind to their order as one that
  // averages colours is to theirs.
  void find_axes() {
    std::vector<ClipAxes> fitting;
    std::vector<std::string> causes;
    for (const ClipAxes axes : {ClipAxes::kFramesFirst, ClipAxes::kChannelsFirst}) {
      axes_ = axes;
      try {
        run(made_inputs());
        fitting.push_back(axes);
      } catch (const DataError& error) {
        causes.emplace_back(error.what());
      }
    }
    if (fitting.empty()) throw DataError(join(causes, "; "));
    if (fitting.size() > 1)
      throw DataError(concat("it runs on clips of ", clip_frames_,
                             " frames as [B, 3, T, H, W] and ",
                             "as [B, T, 3, H, W]; give --clip-axes bcthw or btchw, as it was "
                             "trained"));
    axes_ = fitting.front();
  }

  // One channel, as volumes have, or for a module that does not run so, three alike.
  void find_channels() {
    std::vector<std::string> causes;
    for (const std::int64_t channels : {1, 3}) {
      channels_ = channels;
      try {
        run(made_inputs().narrow(0, 0, 1));
        return;
      } catch (const DataError& error) {
        causes.emplace_back(error.what());
      }
    }
    throw DataError(causes.front() == causes.back() ? causes.front() : join(causes, "; "));
  }

  // Several inputs and the first of them alone: an output that ignores the batch, or mixes its
  // inputs, shows itself before the job begins.
  void check() {
    const torch::Tensor images = made_inputs();
    const torch::Tensor together = run(images), alone = run(images.narrow(0, 0, 1));
    dimension_ = together.size(1) / (map_[0] > 0 ? map_[0] * map_[1] * map_[2] : 1);
    if (alone.size(1) != together.size(1))
      throw DataError(concat("it returns ", alone.size(1), " features for one ", input(), " and ",
                             together.size(1), " for each of ", images.size(0)));
    if (!together.isfinite().all().item<bool>())
      throw DataError(concat("it returns features that are infinite or no number, in ",
                             to_string(precision_),
                             precision_ == Precision::kFp32 ? "" : "; use --precision fp32"));
    const torch::Tensor first = together.narrow(0, 0, 1);
    const double difference = (first - alone).abs().max().item<double>() /
                              alone.abs().max().clamp_min(1e-30f).item<double>();
    if (difference > (precision_ == Precision::kFp32 ? 0.01 : 0.1))
      throw DataError(concat("its features of ", an_input(), " depend on the other ", input(),
                             "s of the batch (by ", fixed(100 * difference, 1),
                             " %); export the model in eval mode"));
  }

  // On the same device, which computes in fp32 where features stray.
  void hold_against_fp32(const torch::Tensor& images, bool named) {
    const Precision rounded = precision_;
    const torch::Tensor found = each_of(images);
    precision_ = Precision::kFp32;
    module_ = load_module(path_, device_, precision_);
    const double cosine = at::cosine_similarity(found, each_of(images)).min().item<double>();
    const bool strays = !(cosine >= kMinCosine);  // NaN, too
    if (strays)
      return leave_precision(rounded, strays_by(cosine, device_), named, Precision::kFp32);
    precision_ = rounded;
    module_ = load_module(path_, device_, precision_);
  }

  // One image at a time: a check must not need more memory than the job.
  torch::Tensor each_of(const torch::Tensor& images) {
    std::vector<torch::Tensor> features;
    for (const torch::Tensor& image : images.split(1))
      features.push_back(run(image).to(torch::kCPU));
    return at::cat(features);
  }

  torch::Tensor run(const torch::Tensor& images) {
    const torch::InferenceMode guard;
    const torch::IValue output = output_of(images);
    const bool is_of_batch = output.isTensor() && output.toTensor().dim() > 1 &&
                             output.toTensor().size(0) == images.size(0) &&
                             output.toTensor().is_floating_point();
    const torch::Tensor features =
        is_of_batch ? pooled(output.toTensor().to(torch::kFloat32)) : torch::Tensor();
    if (!features.defined() || features.dim() != 2)
      throw DataError(concat(
          "it returns ", shape_of(output), ", expected [", images.size(0), ", D]",
          has_positions() ? concat(", [", images.size(0), ", tokens, D] or a map [", images.size(0),
                                   ", D, ", of_clips() ? "t, h, w]" : "x, y, z]")
                          : ": one feature vector for each image"));
    return features.contiguous();
  }

  bool has_positions() const { return of_clips() || takes_blocks(); }

  // Of clips and blocks, tokens [B, N, D] and maps [B, D, t, h, w] are averaged, or maps kept.
  torch::Tensor pooled(const torch::Tensor& output) {
    if (!has_positions()) return output;
    if (output.dim() == 3) return output.mean(1);
    if (output.dim() != 5) return output;
    if (!pools_volumes_) return output.mean({2, 3, 4});
    map_ = {output.size(2), output.size(3), output.size(4)};
    return output.flatten(1);
  }

  // In the module's order of axes, and its number of channels.
  torch::Tensor as_taken(const torch::Tensor& images) const {
    if (takes_blocks()) return images.expand({-1, channels_, -1, -1, -1});
    return of_clips() && axes_ == ClipAxes::kChannelsFirst ? images.transpose(1, 2) : images;
  }

  torch::IValue output_of(const torch::Tensor& images) {
    try {
      return module_->run(as_taken(images).to(device_, scalar_type(precision_)).contiguous());
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      // The interpreter and compiled code rethrow an operator's error as plain text.
      const std::string_view text = error.what();
      if (text.find("out of memory") != text.npos || text.find("allocate memory") != text.npos)
        throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, module_->cause_of(error));
      throw DataError(concat(
          "it fails on ", plural(static_cast<std::size_t>(images.size(0)), input()), " of ",
          of_clips() ? concat(clip_frames_, " frames (", word_for(kClipAxes, axes_), ") of ") : "",
          takes_blocks()
              ? concat(channels_, " × ", block_[0], " × ", block_[1], " × ", block_[2], " voxels")
              : concat(image_size_, " pixels"),
          " in ", to_string(precision_), ": ", module_->cause_of(error), "; check ",
          takes_blocks() ? "--block" : "--image-size, --clip", " and --precision, and ",
          "that it was exported for any number of ", input(), "s"));
    }
  }

  std::string path_;
  ImageSize image_size_;
  std::int64_t clip_frames_;
  ClipAxes axes_;
  std::array<std::int64_t, 3> block_, map_{};
  bool pools_volumes_;
  std::int64_t channels_ = 1;  // of blocks
  torch::Device device_;
  Precision precision_;
  std::unique_ptr<CompiledModule> module_;
  std::string sha256_;
  std::int64_t dimension_ = 0;
};

}  // namespace

std::unique_ptr<Backbone> make_compiled_backbone(const BackboneOptions& options,
                                                 const torch::Device& device, Precision precision) {
  return std::make_unique<CompiledBackbone>(options, device, precision);
}

}  // namespace coldframe::vit
