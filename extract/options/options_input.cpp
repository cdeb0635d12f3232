#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/options/option_groups.h"

namespace coldframe::extract {
namespace {

constexpr const char* kSaltVariable = "COLDFRAME_PATIENT_SALT";

const WordTable<int> kAxes{{"x", 0},        {"y", 1},       {"z", 2},
                           {"sagittal", 0}, {"coronal", 1}, {"axial", 2}};
const WordTable<frames::DicomGrouping> kGroupings{{"series", frames::DicomGrouping::kSeries},
                                                  {"study", frames::DicomGrouping::kStudy}};

void require_slices(bool valid, const frames::SliceRange& range, const std::string& text) {
  if (valid && range.begin >= 0 && range.step > 0 && (range.end < 0 || range.end > range.begin))
    return;
  throw ConfigError(concat("--slices '", text,
                           "': expected BEGIN:END:STEP as in Python, counted from 0, END "
                           "excluded, e.g. 20:140:4 or ::2, or one index"));
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
  require_slices(valid, range, text);
  return range;
}

// "exam=ID,path=File"
std::vector<std::pair<std::string, std::string>> parse_columns(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> columns;
  for (const std::string& pair : split(text, ',')) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size())
      throw ConfigError(
          concat("--columns '", pair, "': expected our name and yours, as in exam=ID"));
    columns.emplace_back(trim(pair.substr(0, equals)), trim(pair.substr(equals + 1)));
  }
  return columns;
}

void require_phases(bool valid, const std::vector<double>& bounds, const std::string& text) {
  const auto falls = [](double before, double bound) { return bound <= before; };
  if (valid && std::ranges::adjacent_find(bounds, falls) == bounds.end()) return;
  throw ConfigError(concat("--phases '", text, "': expected rising seconds, as in 103,518"));
}

// Rising bounds, "103,518".
std::vector<double> parse_phases(const std::string& text) {
  std::vector<double> bounds;
  bool valid = true;
  for (const std::string& word : split(text, ','))
    valid =
        parse_double(trim(word), bounds.emplace_back()) && std::isfinite(bounds.back()) && valid;
  require_phases(valid, bounds, text);
  return bounds;
}

Json recorded(const frames::Window& window) {
  if (window.kind == frames::Window::Kind::kFile) return nullptr;
  if (window.kind == frames::Window::Kind::kFixed)
    return concat(exact(window.center), ',', exact(window.width));
  return concat(exact(window.low), "%,", exact(window.high), '%');
}

Json recorded(const frames::SliceRange& slices) {
  if (slices == frames::SliceRange{}) return nullptr;
  return {{"begin", slices.begin},
          {"end", slices.end < 0 ? Json("last") : Json(slices.end)},
          {"step", slices.step}};
}

frames::SliceRange restored_slices(const Json& recorded) {
  const Json& end = recorded.at("end");
  const frames::SliceRange range{recorded.at("begin").get<std::int64_t>(),
                                 end == "last" ? -1 : end.get<std::int64_t>(),
                                 recorded.at("step").get<std::int64_t>()};
  require_slices(end == "last" || range.end >= 0, range, recorded.dump());
  return range;
}

// A bound of time; an infinite one is none.
Json recorded(double seconds) {
  return std::isfinite(seconds) ? Json(seconds) : Json(nullptr);
}

}  // namespace

OptionRows input_options(ExtractOptions& options) {
  frames::FrameSelection& selection = options.selection;
  frames::ReaderOptions& reader = options.reader;
  const auto list = [](const std::string& word) { return split(word, ','); };
  const bool has_streams = !options.streams.empty() && options.streams != frames::kNoStreams;
  const NumberBounds some = at_least(1);
  const auto restore_frames = [&selection, some](const std::string& option, const Json& recorded) {
    selection.count = recorded == "all" ? 0 : restored_number<std::int64_t>(option, recorded, some);
  };
  const auto restore_phases = [&selection](const std::string&, const Json& recorded) {
    selection.phases = recorded.get<std::vector<double>>();
    require_phases(true, selection.phases, recorded.dump());
  };
  const auto restore_slices = [&reader](const std::string&, const Json& recorded) {
    reader.slices = restored_slices(recorded);
  };
  const auto restore_exif = [&reader](const std::string&, const Json&) {
    reader.ignore_exif = false;
  };
  return {
      {"input", "PATH", local(text(options.input)),
       "folder, file, CSV manifest (columns exam, path, …) or split (.json, as MedNet has it)"},
      {"frames", "N", with_restore(number(selection.count, some), restore_frames),
       "N frames spread evenly over an exam (default: all)", "", "storage.frames",
       selection.count == 0 ? Json("all") : Json(selection.count)},
      {"phases", "S,…", with_restore(parsed(selection.phases, parse_phases), restore_phases),
       "bounds of phases in elapsed seconds, e.g. 103,518: --frames takes an equal share of each",
       "", "storage.selection.phases",
       selection.phases.empty() ? Json(nullptr) : Json(selection.phases)},
      {"every", "N", number(selection.every, at_least(1)), "every N-th frame only, before --frames",
       "", "storage.selection.every", unless<std::int64_t>(1, selection.every)},
      {"fps", "R", number(selection.fps, {0, 1e6, "frames a second", true}),
       "the frames nearest to R a second, by their times, before --frames", "",
       "storage.selection.fps", unless(0.0, selection.fps)},
      {"start", "S", number(selection.start_s),
       "leave out what lies before S seconds after the exam's first frame", "",
       "storage.selection.start_s", recorded(selection.start_s)},
      {"end", "S", number(selection.end_s), "leave out what lies at S seconds or later", "",
       "storage.selection.end_s", recorded(selection.end_s)},
      {"accept-broken-tail", nullptr, flag(reader.accept_broken_tail),
       "take the frames that can be read of a clip that is cut off for all that there are", "",
       "storage.broken_tail", reader.accept_broken_tail ? Json("accepted") : Json(nullptr)},
      {"columns", "A=B,...", parsed(options.columns, parse_columns),
       "what the manifest calls its columns: exam=ID,path=File for exam, path, frame, time, "
       "patient, crop"},
      {"frame-columns", "A,B", parsed(options.frame_columns, list),
       "manifest columns that hold one value per frame"},
      {"streams", "COLUMN", text(options.streams),
       "the one of --frame-columns that names each frame's stream: --frames, --every and --fps "
       "then choose instants (default: stream, if it is among them; none: of all frames alike)",
       "", "storage.selection.instants_of",
       selection.chooses() && has_streams ? Json(options.streams) : Json(nullptr)},
      {"allow-unordered", nullptr, flag(options.allow_unordered),
       "accept times that decrease within an exam"},
      {"root", "FOLDER", local(text(options.root)),
       "where the paths of a manifest or a split begin (default: where it lies)"},
      {"exam-from", "REGEX", local(text(options.exam_from)),
       "of a folder or a split: exams and patients by their paths, e.g. "
       "'P(?<patient>\\d+)/(?<exam>.+)'"},
      {"sort", "time", one_of(options.sort_by_time, WordTable<bool>{{"time", true}}),
       "bring each exam's frames into the order of their times"},
      {"window", "W", parsed(reader.window, frames::parse_window),
       "values that become black and white: file (default), CENTER,WIDTH or LOW%,HIGH%", "",
       "features.reading.window", recorded(reader.window)},
      {"axis", "A", one_of(reader.axis, kAxes),
       "volumes are cut along x (sagittal), y (coronal) or z (axial, default)", "",
       "features.reading.axis", unless<std::string>("z", word_for(kAxes, reader.axis))},
      {"square-pixels", nullptr, flag(reader.square_pixels),
       "clips whose pixels are not square become as wide as they are meant to be shown", "",
       "features.reading.pixels", reader.square_pixels ? Json("square") : Json(nullptr)},
      {"deinterlace", nullptr, flag(reader.deinterlace),
       "interlaced frames of clips: the first field, the lines between as means of neighbours", "",
       "features.reading.fields", reader.deinterlace ? Json("first") : Json(nullptr)},
      // Caches without the key hold JPEG images as they were stored.
      {"ignore-exif", nullptr, with_restore(flag(reader.ignore_exif), restore_exif),
       "leave JPEG images as they are stored, whatever turn their EXIF data states, as caches made "
       "before this option have them",
       "", "features.reading.exif", reader.ignore_exif ? Json(nullptr) : Json("upright")},
      {"slices", "B:E:S", with_restore(parsed(reader.slices, parse_slices), restore_slices),
       "slices of a volume, as in Python, e.g. 20:140:4", "", "storage.slices",
       recorded(reader.slices)},
      {"group", "KIND", one_of(reader.grouping, kGroupings),
       "single-frame DICOM files form an exam per series (default) or study", "", "storage.group",
       unless<std::string>("series", word_for(kGroupings, reader.grouping))},
      {"keep-patient-id", nullptr, flag(reader.keep_patient_id),
       "store patients as DICOM, paths or the manifest name them, instead of salted hashes"},
      {"patient-salt", "TEXT", local(text(reader.patient_salt)),
       "of these hashes (default: $COLDFRAME_PATIENT_SALT, else one kept in your home)"},
      {"equal-numbers", "ANSWER", one_of(reader.equal_numbers, kEqualNumbers),
       "patients whose ids are equal as numbers (0123, 123, 123.0): ask (default), or they are "
       "the same, or different people"},
  };
}

void finish_input(ExtractOptions& options) {
  const frames::FrameSelection& selection = options.selection;
  if (options.input.empty())
    throw ConfigError("--input is missing: name a folder, a file, a CSV manifest or a split");
  if (selection.every > 1 && selection.fps > 0)
    throw ConfigError("--every and --fps both thin out; give one of them");
  if (!(selection.start_s < selection.end_s))
    throw ConfigError(concat("--start ", selection.start_s, " and --end ", selection.end_s,
                             " leave no time between them"));
  if (!selection.phases.empty() && selection.count == 0)
    throw ConfigError("--phases divides --frames among phases; say how many, e.g. --frames 12");
  const auto is_frame_column = [&](const std::string& name) {
    return std::ranges::find(options.frame_columns, name) != options.frame_columns.end();
  };
  if (options.streams.empty() && is_frame_column("stream")) options.streams = "stream";
  const bool is_named = !options.streams.empty() && options.streams != frames::kNoStreams;
  if (is_named && !is_frame_column(options.streams))
    throw ConfigError(
        concat("--streams ", options.streams, ": name the column in --frame-columns, too"));
  options.reader.from_s = selection.start_s;
  options.reader.until_s = selection.end_s;
  if (const char* salt = std::getenv(kSaltVariable); salt && options.reader.patient_salt.empty())
    options.reader.patient_salt = salt;
}

}  // namespace coldframe::extract
