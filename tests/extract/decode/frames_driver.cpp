// Reads every exam of an input and prints what came out as JSON lines, for the cross-checks:
//   frames_driver INPUT FRAMES [--axis=0|1|2] [--slices=BEGIN:END:STEP] [--window=…]
//                 [--start=S] [--end=S] [--fps=R] [--every=N] [--decode-all]
//                 [--square-pixels] [--deinterlace] [--estimate] [--by-study] [--keep-patient-id]
//                 [--salt=S]
//                 [--streams=COLUMN] [--dump=FILE] [--peak] [FRAME_COLUMN …]
// --decode-all does so although --start or --end would let a clip be read in part.
// One line per exam: what its header says, its slots with index, time, size, spacing, region and
// the SHA-256 of the RGB pixels, or the error. --dump writes the pixels of all frames to FILE.
// Errors of the list itself go to stderr, exit 3; so does, with --peak, the largest resident set in
// bytes.
#include <fstream>
#include <iostream>
#include <string>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/files/json.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"
#include "extract/input/select_frames.h"
#include "tests/extract/decode/read_exam.h"

namespace {

using namespace coldframe;

Json describe(const frames::ExamSlot& slot, std::ostream& dump) {
  const auto& pixels = slot.frame.pixels;
  const std::string_view bytes(reinterpret_cast<const char*>(pixels.rgb.data()), pixels.rgb.size());
  const auto& spacing = slot.frame.spacing_mm;
  dump << bytes;
  Json region;
  if (slot.frame.region) {
    const frames::Rect& rect = *slot.frame.region;
    region = {rect.x, rect.y, rect.width, rect.height};
  }
  return {{"slot", slot.slot},
          {"item", slot.item},
          {"present", slot.present},
          {"fault", slot.fault},
          {"index", slot.frame.index},
          {"time_s", json_number(slot.frame.time_s)},
          {"width", pixels.width},
          {"height", pixels.height},
          {"spacing_mm", {json_number(spacing[0]), json_number(spacing[1])}},
          {"region", region},
          {"sha256", sha256_hex(bytes)}};
}

Json read(const frames::ExamSpec& exam, const frames::FrameSelection& selection,
          const frames::ReaderOptions& options, std::ostream& dump) {
  Json line{{"id", exam.id},
            {"items", exam.items.size()},
            {"patient", exam.patient},
            {"start_time", json_number(exam.start_time)},
            {"columns", Json::object()},
            {"streams", Json::array()},
            {"files", Json::array()}};
  for (const auto& [name, value] : exam.columns) line["columns"][name] = value;
  for (const auto& item : exam.items) {
    line["files"].push_back(item.name);
    line["streams"].push_back(item.stream);
  }
  Json slots = Json::array();
  try {
    const auto summary = frames::read_exam(exam, selection, options, [&](frames::ExamSlot&& slot) {
      slots.push_back(describe(slot, dump));
      return true;
    });
    line["kind"] = summary.kind;
    line["order"] = summary.basis.order;
    line["times"] = summary.basis.times;
    line["notes"] = Json::array();
    for (const auto& note : summary.notes) line["notes"].push_back(note.text);
    line["slots"] = slots;
  } catch (const DataError& error) {
    line["error"] = error.what();
  }
  return line;
}

// True when `argument` is one of the reader's options.
bool parse_reader_option(std::string_view argument, frames::ReaderOptions& options) {
  const auto value = argument.substr(std::min(argument.find('=') + 1, argument.size()));
  if (argument.starts_with("--axis=")) {
    options.axis = std::stoi(std::string(value));
  } else if (argument.starts_with("--window=")) {
    options.window = frames::parse_window(value);
  } else if (argument.starts_with("--slices=")) {
    const auto parts = split(value, ':');
    options.slices = {std::stoll(std::string(parts.at(0))), std::stoll(std::string(parts.at(1))),
                      std::stoll(std::string(parts.at(2)))};
  } else if (argument == "--square-pixels") {
    options.square_pixels = true;
  } else if (argument == "--deinterlace") {
    options.deinterlace = true;
  } else if (argument == "--estimate") {
    options.estimate = true;
  } else if (argument == "--by-study") {
    options.grouping = frames::DicomGrouping::kStudy;
  } else if (argument == "--keep-patient-id") {
    options.keep_patient_id = true;
  } else if (argument.starts_with("--salt=")) {
    options.patient_salt = value;
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    frames::ExamListOptions options;
    std::ofstream dump;
    bool peak = false, decode_all = false;
    frames::FrameSelection selection{std::stoll(argv[2])};
    const auto number = [](std::string_view argument) {
      return std::stod(std::string(argument.substr(argument.find('=') + 1)));
    };
    for (int i = 3; i < argc; ++i) {
      if (std::string_view(argv[i]) == "--peak") {
        peak = true;
      } else if (std::string_view(argv[i]) == "--decode-all") {
        decode_all = true;
      } else if (std::string_view(argv[i]).starts_with("--start=")) {
        selection.start_s = number(argv[i]);
      } else if (std::string_view(argv[i]).starts_with("--end=")) {
        selection.end_s = number(argv[i]);
      } else if (std::string_view(argv[i]).starts_with("--fps=")) {
        selection.fps = number(argv[i]);
      } else if (std::string_view(argv[i]).starts_with("--every=")) {
        selection.every = static_cast<std::int64_t>(number(argv[i]));
      } else if (std::string_view(argv[i]).starts_with("--dump=")) {
        dump.open(argv[i] + std::string_view("--dump=").size(), std::ios::binary);
      } else if (std::string_view(argv[i]).starts_with("--exam-from=")) {
        options.exam_from = argv[i] + std::string_view("--exam-from=").size();
      } else if (std::string_view(argv[i]).starts_with("--streams=")) {
        options.streams = argv[i] + std::string_view("--streams=").size();
      } else if (std::string_view(argv[i]) == "--sort-by-time") {
        options.sort_by_time = true;
      } else if (std::string_view(argv[i]) == "--allow-unordered") {
        options.allow_unordered = true;
      } else if (!parse_reader_option(argv[i], options.reader)) {
        options.frame_columns.push_back(argv[i]);
      }
    }
    if (!decode_all) {
      options.reader.from_s = selection.start_s;
      options.reader.until_s = selection.end_s;
    }
    const auto list = frames::list_exams(argv[1], options);
    for (const auto& warning : list.warnings) std::cerr << "warning: " << warning << "\n";
    for (const auto& exam : list.exams) {
      std::cout << read(exam, selection, options.reader, dump).dump() << std::endl;
    }
    if (peak) std::cerr << peak_resident_bytes() << std::endl;
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return static_cast<int>(error.exit_code());
  }
}
