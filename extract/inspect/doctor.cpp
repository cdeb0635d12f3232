#include "extract/inspect/doctor.h"

#include <opencv2/core/utility.hpp>
#include <string>

#include "cache/hdf5/file_writer.h"
#include "common/cli/error.h"
#include "common/system/gpu_libraries.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "extract/cuda/library.h"
#include "extract/decode/clip/ffmpeg.h"
#include "extract/vit/cpu/choose.h"

namespace coldframe::extract {

namespace {

Check check_cpu_engine() {
  std::vector<std::string> precisions;
  for (const Precision each : vit::cpu::quick_precisions()) precisions.push_back(to_string(each));
  const std::string automatic =
      precisions.size() == 1
          ? concat("--precision auto is ", precisions.front())
          : concat("--precision auto takes the quickest of ", join(precisions, ", "));
  const vit::cpu::Kernels* const kernels = vit::cpu::fastest_fp32_kernels();
  if (kernels) return {"CPU engine", concat(kernels->name, "; ", automatic)};
  return {"CPU engine", concat("none; ", automatic),
          "this processor lacks AVX2, so LibTorch's slower operators compute: take another machine "
          "for long jobs"};
}

Check check_library(const std::string& subject, const char* file, const std::string& problem) {
  if (problem.empty()) return {subject, concat(file, " opens")};
  return {subject, concat(file, " does not open"),
          concat(problem,
                 "; without it GPUs run LibTorch's slower operators: build with the CUDA "
                 "Toolkit 13.0, or take the wheel")};
}

std::string problem_of(const char* library, const char* name) {
  std::string problem;
  return find_in_library(library, name, problem) ? "" : problem;
}

// Opens a context, as a job on the first GPU does.
std::vector<Check> check_cuda() {
  if (cuda_driver::device_count() == 0) return {};
  try {
    const std::string device = device_name(resolve_device("cuda"));
    const std::string problem = cuda::kernels() ? "" : cuda::kernel_library().problem;
    return {{"CUDA", concat("LibTorch computes on ", device)},
            check_library("CUDA kernels", "libcoldframe_cuda.so", problem),
            check_library("CUDA graphs", "libcoldframe_cuda_graphs.so",
                          problem_of("libcoldframe_cuda_graphs.so", "coldframe_cuda_graphs"))};
  } catch (const Error& error) {
    return {{"CUDA", "not usable: jobs compute on the CPU", error.what()}};
  }
}

}  // namespace

std::vector<Check> check_engines_and_libraries() {
  std::vector<Check> checks = {check_cpu_engine()};
  for (const Check& each : check_cuda()) checks.push_back(each);
  checks.push_back({"HDF5", cache::hdf5::library_version()});
  checks.push_back({"FFmpeg", concat(av_version_info(), ", libavcodec ", avcodec_version() >> 16)});
  checks.push_back({"OpenCV", cv::getVersionString()});
  return checks;
}

}  // namespace coldframe::extract
