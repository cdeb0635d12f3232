#include <algorithm>
#include <array>
#include <cstdlib>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/options/option_groups.h"

namespace coldframe::extract {
namespace {

namespace po = boost::program_options;

constexpr const char* kSaltVariable = "COLDFRAME_PATIENT_SALT";

int parse_axis(const std::string& word) {
  return choice<int>("axis", word,
                     {{"x", 0}, {"y", 1}, {"z", 2}, {"sagittal", 0}, {"coronal", 1}, {"axial", 2}});
}

// BEGIN:END:STEP as Python's slices, each part optional, without negative numbers; or one index.
frames::SliceRange parse_slices(const std::string& text) {
  const auto parts = split(text, ':');
  frames::SliceRange range;
  std::array<std::int64_t*, 3> targets{&range.begin, &range.end, &range.step};
  bool valid = parts.size() <= targets.size();
  for (std::size_t i = 0; valid && i < parts.size(); ++i) {
    const std::string part = trim(parts[i]);
    if (part.empty() && parts.size() > 1) continue;
    valid = parse_int(part, *targets[i]) && *targets[i] >= 0;
  }
  if (parts.size() == 1) range.end = range.begin + 1;
  valid = valid && range.step > 0 && (range.end < 0 || range.end > range.begin);
  if (!valid)
    throw ConfigError(concat("--slices '", text,
                             "': expected BEGIN:END:STEP as in Python, counted from 0, END "
                             "excluded, e.g. 20:140:4 or ::2, or one index"));
  return range;
}

}  // namespace

void InputOptions::describe(po::options_description& description, ExtractOptions& options) {
  const auto text = [](std::string& target, const char* name) {
    return po::value(&target)->value_name(name);
  };
  auto add = description.add_options();
  add("input", text(input, "PATH"), "folder, file or CSV manifest (columns exam, path, …)");
  add("frames", po::value(&frames)->value_name("N"),
      "N frames spread evenly over an exam (default: all)");
  add("every", po::value(&every)->value_name("N"), "every N-th frame only, before --frames");
  add("fps", po::value(&fps)->value_name("R"),
      "the frames nearest to R a second, by their times, before --frames");
  add("start", po::value(&start)->value_name("S"),
      "leave out what lies before S seconds after the exam's first frame");
  add("end", po::value(&end)->value_name("S"), "leave out what lies at S seconds or later");
  add("accept-broken-tail", po::bool_switch(&options.reader.accept_broken_tail),
      "take a damaged clip's frames before the first damaged one for all that there are");
  add("columns", text(columns, "A=B,..."),
      "what the manifest calls its columns: exam=ID,path=File for exam, path, frame, time, "
      "patient, crop");
  add("frame-columns", text(frame_columns, "A,B"),
      "manifest columns that hold one value per frame");
  add("allow-unordered", po::bool_switch(&options.allow_unordered),
      "accept times that decrease within an exam");
  add("exam-from", text(options.exam_from, "REGEX"),
      "of a folder: exams and patients by their paths, e.g. 'P(?<patient>\\d+)/(?<exam>.+)'");
  add("sort", text(sort, "time"), "bring each exam's frames into the order of their times");
  add("ignore-exif", po::bool_switch(&options.reader.ignore_exif),
      "leave JPEG images as they are stored, whatever turn their EXIF data states, as caches made "
      "before this option have them");
  add("window", text(window, "W"),
      "values that become black and white: file (default), CENTER,WIDTH or LOW%,HIGH%");
  add("axis", text(axis, "A"),
      "volumes are cut along x (sagittal), y (coronal) or z (axial, default)");
  add("slices", text(slices, "B:E:S"), "slices of a volume, as in Python, e.g. 20:140:4");
  add("group", text(group, "KIND"),
      "single-frame DICOM files form an exam per series (default) or study");
  add("keep-patient-id", po::bool_switch(&options.reader.keep_patient_id),
      "store patients as DICOM, paths or the manifest name them, instead of salted hashes");
  add("patient-salt", text(patient_salt, "TEXT"),
      "of these hashes (default: $COLDFRAME_PATIENT_SALT, else one kept in your home)");
}

void InputOptions::apply_selection(frames::FrameSelection& selection) const {
  if (frames != kNotGiven) {
    if (frames < 1) throw ConfigError(concat("--frames ", frames, ": expected 1 or more"));
    selection.count = frames;
  }
  if (every != kNotGiven) {
    if (every < 1) throw ConfigError(concat("--every ", every, ": expected 1 or more"));
    if (fps != kNotGiven) throw ConfigError("--every and --fps both thin out; give one of them");
    selection.every = every;
  }
  if (fps != kNotGiven) {
    if (!(fps > 0 && fps <= 1e6))
      throw ConfigError(concat("--fps ", fps, ": expected more than 0 frames a second"));
    selection.fps = fps;
  }
  if (start != kNotGiven) selection.start_s = start;
  if (end != kNotGiven) selection.end_s = end;
  if (!(selection.start_s < selection.end_s))
    throw ConfigError(concat("--start ", selection.start_s, " and --end ", selection.end_s,
                             " leave no time between them"));
}

void InputOptions::apply(ExtractOptions& options) const {
  if (input.empty())
    throw ConfigError("--input is missing: name a folder, a file or a CSV manifest");
  options.input = input;
  apply_selection(options.selection);
  options.reader.from_s = options.selection.start_s;
  options.reader.until_s = options.selection.end_s;
  for (const std::string& pair :
       columns.empty() ? std::vector<std::string>{} : split(columns, ',')) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size())
      throw ConfigError(
          concat("--columns '", pair, "': expected our name and yours, as in exam=ID"));
    options.columns.emplace_back(trim(pair.substr(0, equals)), trim(pair.substr(equals + 1)));
  }
  if (!frame_columns.empty()) options.frame_columns = split(frame_columns, ',');
  options.sort_by_time = !sort.empty() && choice<bool>("sort", sort, {{"time", true}});
  if (!window.empty()) options.reader.window = frames::parse_window(window);
  if (!axis.empty()) options.reader.axis = parse_axis(axis);
  if (!slices.empty()) options.reader.slices = parse_slices(slices);
  if (!group.empty())
    options.reader.grouping = choice<frames::DicomGrouping>(
        "group", group,
        {{"series", frames::DicomGrouping::kSeries}, {"study", frames::DicomGrouping::kStudy}});
  options.reader.patient_salt = patient_salt;
  if (const char* salt = std::getenv(kSaltVariable); patient_salt.empty() && salt)
    options.reader.patient_salt = salt;
}

}  // namespace coldframe::extract
