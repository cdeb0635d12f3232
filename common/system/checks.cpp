#include "common/system/checks.h"

#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <utility>

#include "common/cli/error.h"
#include "common/files/file_lock.h"
#include "common/files/publish/scratch_folder.h"
#include "common/system/gpu_libraries.h"
#include "common/system/resources.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;

// "; NAME 16" for each variable that is set.
std::string stated(const Environment& environment, const std::vector<const char*>& names) {
  std::string text;
  for (const char* name : names)
    if (const char* const value = environment(name)) text += concat("; ", name, " ", value);
  return text;
}

// The first line of a file; "" where there is none.
std::string line_of(const fs::path& file) {
  std::ifstream text(file);
  std::string line;
  std::getline(text, line);
  return line;
}

// File systems that know locks or not as they are mounted, by statfs(2) and their own sources. "":
// another one, which is most often local.
std::string shared_kind_of(const fs::path& folder) {
  constexpr std::pair<std::uint32_t, const char*> kKinds[] = {
      {0x6969, "NFS"},        {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},    {0x517b, "SMB"},
      {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}, {0x00c36400, "Ceph"},
      {0x5346414f, "AFS"},    {0x01021997, "9p"},   {0x65735546, "FUSE"}};
  struct statfs status {};
  if (::statfs(folder.c_str(), &status) != 0) return "";
  for (const auto& [magic, name] : kKinds)
    if (static_cast<std::uint32_t>(status.f_type) == magic) return name;
  return "";
}

}  // namespace

void to_json(Json& json, const Check& check) {
  json = {{"subject", check.subject},
          {"found", check.found},
          {"to_do", check.to_do},
          {"stops", check.stops}};
}

Check check_of(const Json& json) {
  return {json.at("subject"), json.at("found"), json.at("to_do"), json.at("stops")};
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return trim(line.substr(line.find(':') + 1));
  }
  return "unknown model";
}

Check check_memory(const Environment& environment, const fs::path& root) {
  // LibTorch alone takes 160 MiB, extraction by a ViT-S 420 MiB (extract/README.md).
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 30;
  const std::uint64_t machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t available = available_bytes(root);
  Check check{"memory", concat(human_bytes(machine), ", of which ", human_bytes(available),
                               " are available")};
  if (const auto left = memory_left_by_groups(root))
    check.found += concat("; the container or job leaves ", human_bytes(*left));
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    check.found += concat("; ulimit -v ", human_bytes(limit.rlim_cur));
  check.found += stated(environment, {"SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU"});
  if (available < kLeast)
    check.to_do = concat("less than ", human_bytes(kLeast),
                         " is little: end other programs, or ask the scheduler for more");
  return check;
}

Check check_processors(const Environment& environment, const fs::path& root) {
  constexpr const char* kTask = "SLURM_CPUS_PER_TASK";
  const std::size_t usable = count_processors(root);
  Check check{"processors", concat(usable, " usable of ", ::sysconf(_SC_NPROCESSORS_ONLN))};
  if (const auto quota = processors_of_groups(root))
    check.found += concat("; the container or job may use the time of ", *quota);
  check.found += stated(environment, {kTask});
  std::int64_t task = 0;
  const char* const value = environment(kTask);
  if (value && parse_int(value, task) && task > 0 && static_cast<std::size_t>(task) < usable)
    check.to_do = concat("SLURM gave this task ", task, " and does not hold it to them: give ",
                         "--threads ", task);
  return check;
}

std::vector<Check> check_gpus(const fs::path& root) {
  const int count = cuda_driver::device_count();
  if (count == 0) return {{"GPU", concat("none: ", cuda_driver::reason_for_none())}};
  const std::string version = line_of(root / "sys/module/nvidia/version");
  std::vector<Check> checks;
  for (int device = 0; device < count; ++device) {
    const int capability = cuda_driver::compute_capability(device);
    checks.push_back({count == 1 ? "GPU" : concat("GPU ", device),
                      concat(cuda_driver::device_name(device), ", ",
                             human_bytes(cuda_driver::total_memory(device)),
                             ", compute capability ", capability / 10, ".", capability % 10,
                             ", driver ", version.empty() ? "of unknown version" : version)});
  }
  return checks;
}

Check check_folder(const std::string& subject, const fs::path& folder) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 30;
  Check check{subject, folder.string()};
  if (folder.empty())
    return {subject, "there is none any more", "go to a folder that is there", true};
  if (const std::string kind = shared_kind_of(folder); !kind.empty())
    check.found += concat(", on ", kind);
  try {
    const ScratchFolder scratch(folder);
    const FileLock lock(scratch.path() / "lock",
                        {.advice = "; this file system is mounted without file locks: write to a "
                                   "local folder, or have it mounted with them"});
    std::error_code error;
    const std::uint64_t free = fs::space(folder, error).available;
    if (!error) check.found += concat(", ", human_bytes(free), " free");
    if (!error && free < kLeast) check.to_do = "little is free: remove files, or choose another";
  } catch (const Error& error) {
    check.found += ", not usable";
    check.to_do = error.what();
    check.stops = true;
  }
  return check;
}

}  // namespace coldframe
