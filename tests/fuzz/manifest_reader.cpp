// Manifests: CSV, times, frame ranges, crops. The files that they name do not exist.
#include "common/cli/error.h"
#include "extract/decode/source_file.h"
#include "extract/input/exam_list.h"
#include "extract/input/select_frames.h"
#include "tests/extract/decode/read_exam.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coldframe;
  const fuzz::TimeLimit limit;
  const auto path = fuzz::write("exams.csv", {data, size});
  frames::ExamListOptions options;
  options.allow_unordered = size % 2 != 0;
  if (size % 3 == 0) options.frame_columns = {"note"};
  try {
    for (const auto& exam : frames::list_exams(path, options).exams) {
      try {
        frames::source_stamp(exam);
        frames::read_exam(exam, {}, {}, [](const frames::ExamSlot&) { return true; });
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
