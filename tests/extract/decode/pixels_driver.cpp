// Writes every frame of one file to stdout, for comparisons with other readers:
//   pixels_driver FILE
// Each frame is a line "INDEX TIME WIDTH HEIGHT" and the rows of its RGB pixels. Errors go to
// stderr, exit 3.
#include <cstdio>
#include <iostream>

#include "common/cli/error.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/input/select_frames.h"
#include "tests/extract/decode/read_exam.h"

int main(int argc, char** argv) {
  using namespace coldframe;
  if (argc != 2) return 2;
  try {
    frames::ExamSpec exam;
    exam.id = "exam";
    exam.items.emplace_back();
    exam.items.front().path = exam.items.front().name = argv[1];
    frames::read_exam(exam, {}, {}, [](frames::ExamSlot&& slot) {
      const auto& image = slot.frame.pixels;
      std::printf("%lld %.9f %d %d\n", static_cast<long long>(slot.frame.index), slot.frame.time_s,
                  image.width, image.height);
      return std::fwrite(image.rgb.data(), 1, image.rgb.size(), stdout) == image.rgb.size();
    });
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 3;
  }
}
