// Reads every exam of an input and prints what came out as JSON lines, for the cross-checks:
//   frames_driver INPUT FRAMES [FRAME_COLUMN …]
// One line per exam: its slots with index, time, size and the SHA-256 of the RGB pixels, or the
// error. Errors of the list itself go to stderr, exit 3.
#include <iostream>
#include <string>

#include "common/error.h"
#include "common/fingerprint.h"
#include "common/json.h"
#include "extract/frames/source.h"

namespace {

using namespace coldframe;

Json describe(const frames::ExamSlot& slot) {
  const auto& pixels = slot.frame.pixels;
  const std::string_view bytes(reinterpret_cast<const char*>(pixels.rgb.data()), pixels.rgb.size());
  return {{"slot", slot.slot},
          {"item", slot.item},
          {"present", slot.present},
          {"index", slot.frame.index},
          {"time_s", json_number(slot.frame.time_s)},
          {"width", pixels.width},
          {"height", pixels.height},
          {"sha256", sha256_hex(bytes)}};
}

Json read(const frames::ExamSpec& exam, std::int64_t count) {
  Json line{{"id", exam.id}, {"items", exam.items.size()}};
  Json slots = Json::array();
  try {
    const auto summary = frames::read_exam(exam, {count}, {}, [&](frames::ExamSlot&& slot) {
      slots.push_back(describe(slot));
      return true;
    });
    line["kind"] = summary.kind;
    line["slots"] = slots;
  } catch (const DataError& error) {
    line["error"] = error.what();
  }
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    frames::ExamListOptions options;
    options.frame_columns.assign(argv + 3, argv + argc);
    const auto list = frames::list_exams(argv[1], options);
    for (const auto& warning : list.warnings) std::cerr << "warning: " << warning << "\n";
    for (const auto& exam : list.exams) {
      std::cout << read(exam, std::stoll(argv[2])).dump() << std::endl;
    }
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return static_cast<int>(error.exit_code());
  }
}
