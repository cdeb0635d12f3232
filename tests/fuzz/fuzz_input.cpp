#include "tests/fuzz/fuzz_input.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/cli/error.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/exam_list.h"
#include "extract/input/select_frames.h"
#include "tests/extract/decode/read_exam.h"

namespace coldframe::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFrames = 32;
constexpr double kMaxSeconds = 10;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Folder {
 public:
  Folder() {
    std::string name = "/dev/shm/coldframe-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

frames::ReaderOptions options_of(unsigned variant) {
  frames::ReaderOptions options;
  options.axis = static_cast<int>(variant % 3);
  options.accept_broken_tail = variant % 2 != 0;
  if (variant % 4 == 3) options.window = frames::parse_window("1%,99%");
  if (variant % 8 == 4) options.window = frames::parse_window("40,400");
  options.keep_patient_id = variant % 5 == 0;
  if (variant % 7 == 0) options.grouping = frames::DicomGrouping::kStudy;
  return options;
}

void read(const frames::ExamSpec& exam, const frames::ReaderOptions& options) {
  std::size_t seen = 0;
  frames::read_exam(exam, {}, options, [&](const frames::ExamSlot& slot) {
    if (slot.present == !slot.fault.empty()) std::abort();
    const frames::Image& pixels = slot.frame.pixels;
    const auto expected = 3 * static_cast<std::size_t>(pixels.width) * pixels.height;
    if (pixels.rgb.size() != expected) std::abort();
    return ++seen < kMaxFrames;
  });
}

}  // namespace

const fs::path& folder() {
  static const Folder one;
  return one.path();
}

fs::path write(std::string_view name, Bytes bytes) {
  fs::path path = folder() / name;
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) std::abort();
  for (std::size_t at = 0; at < bytes.size();) {
    const ::ssize_t count = ::write(file, bytes.data() + at, bytes.size() - at);
    if (count <= 0) std::abort();
    at += static_cast<std::size_t>(count);
  }
  ::close(file);
  return path;
}

TimeLimit::TimeLimit() : start_s_(processor_seconds()) {}

TimeLimit::~TimeLimit() {
  const double taken = processor_seconds() - start_s_;
  if (taken < kMaxSeconds) return;
  std::fprintf(stderr, "this input took %.1f s of the processor\n", taken);
  std::abort();
}

int read_all(const fs::path& input, std::string_view kind, unsigned variant) {
  const TimeLimit limit;
  const frames::ReaderOptions options = options_of(variant);
  int verdict = -1;
  try {
    for (const auto& exam : frames::list_exams(input, {{}, false, options}).exams) {
      try {
        const frames::SourceKind* found =
            frames::detect_kind(frames::SourceFile(exam.items.front().path));
        if (found == nullptr || found->name != kind) continue;
        verdict = 0;
        read(exam, options);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return verdict;
}

}  // namespace coldframe::fuzz
