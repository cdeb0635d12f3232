// Writes a cache of many exams, of features that are made up, for measurements of the tool:
//   make_large_cache OUT EXAMS FRAMES DIMENSION [like CACHE | parts N]
// Features are a mean of their own per class and exam plus noise; every thousandth exam is another
// exam again, under another patient. With `like`, the recipe is that of another cache of the same
// dimension, and where that has a cut, each frame has so much noise as what enters its block. With
// `parts`, N writers share the folder, as those of `extract --part` do, and leave their records.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>

#include "cache/format/recipe.h"
#include "cache/store/parts.h"
#include "cache/store/reader.h"
#include "cache/store/writer.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): a number for each counter.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Uniform in [-1, 1).
float draw(std::uint64_t stream, std::uint64_t counter) {
  return static_cast<float>(static_cast<std::int64_t>(mix(stream * 0x100000001b3u + counter))) /
         9.3e18f;
}

ExamFeatures make_exam(std::uint64_t number, std::size_t frames, std::size_t dimension) {
  const std::uint64_t same_as = number % 1000 == 999 ? number - 500 : number, label = same_as % 4;
  ExamFeatures exam;
  ExamInfo& info = exam.info;
  info.id = concat("E", 1000000 + number);
  info.patient = concat("P", 1000000 + number / 2);
  info.ordinal = number;
  info.source_stamp = concat(100000 + number, ":1700000000000000000/0123456789abcdef|0|0");
  info.source_digest = "0123456789abcdef0123456789abcdef";
  info.source_kind = "images";
  info.frame_width = info.frame_height = 512;
  info.columns = {{"label", concat("class ", label)}, {"age", concat(20 + number % 70)}};
  ViewFeatures view;
  view.values.reserve(frames * dimension);
  for (std::size_t t = 0; t < frames; ++t) {
    info.time_s.push_back(0.04 * static_cast<double>(t));
    info.present.push_back(1);
    info.frame_index.push_back(static_cast<std::int64_t>(t));
    info.frame_source.push_back(concat("site/", info.id, "/frame_", t, ".png"));
    const float phase = static_cast<float>(t) / static_cast<float>(frames);
    for (std::size_t d = 0; d < dimension; ++d)
      view.values.push_back(2.0f * draw(1, d) + draw(2 + label, d) + draw(100 + same_as, d % 48) +
                            phase * draw(10, d) + 0.2f * draw(1000000 + same_as * frames + t, d));
  }
  exam.views.push_back(std::move(view));
  return exam;
}

// Finite numbers as float16, of which any stretch of memory has some.
void add_cut(const Cut& cut, std::uint64_t number, ExamFeatures& exam) {
  std::vector<std::byte>& rows = exam.views[0].cut;
  rows.resize(exam.info.frames() * cut.row_bytes());
  for (std::size_t at = 0; at + 8 <= rows.size(); at += 8) {
    const std::uint64_t noise = mix(number << 32 | at) & 0xbbffbbffbbffbbffu;
    std::memcpy(&rows[at], &noise, sizeof noise);
  }
}

struct Asked {
  std::int64_t exams = 0, frames = 0, dimension = 0, parts = 0;
  Recipe recipe;
  std::optional<Cut> cut;
};

// Every `step`th exam from `first` on.
void write(const Location& location, const Asked& asked, const WriterOptions& options,
           std::int64_t first, std::int64_t step) {
  ShardWriter writer(location, asked.recipe, asked.dimension, options);
  for (std::int64_t i = first; i < asked.exams; i += step) {
    const auto number = static_cast<std::uint64_t>(i);
    ExamFeatures exam = make_exam(number, static_cast<std::size_t>(asked.frames),
                                  static_cast<std::size_t>(asked.dimension));
    if (asked.cut) add_cut(*asked.cut, number, exam);
    writer.add(std::move(exam));
  }
  writer.finish();
}

void write_part(const Location& location, const Asked& asked, std::uint32_t part) {
  PartRecord record{part, static_cast<std::uint32_t>(asked.parts), "made up", {}};
  for (std::int64_t i = part; i < asked.exams; i += asked.parts)
    record.exams.push_back(concat("E", 1000000 + i));
  write_part_record(location, record);
  WriterOptions options;
  options.worker = part;
  options.shared = true;
  write(location, asked, options, part, asked.parts);
  record.finished = true;
  write_part_record(location, record);
}

int run(const std::vector<std::string>& words) {
  Asked asked;
  const bool with_more = words.size() == 6;
  const bool like = with_more && words[4] == "like";
  const bool in_parts = with_more && words[4] == "parts" && parse_int(words[5], asked.parts) &&
                        asked.parts > 0 && asked.parts <= kMaxParts;
  if ((words.size() != 4 && !like && !in_parts) || !parse_int(words[1], asked.exams) ||
      !parse_int(words[2], asked.frames) || !parse_int(words[3], asked.dimension) ||
      asked.exams < 1 || asked.frames < 1 || asked.dimension < 1)
    throw ConfigError("make_large_cache OUT EXAMS FRAMES DIMENSION [like CACHE | parts N]");
  asked.recipe.features["weights"] = "made up";
  asked.recipe.storage["frames"] = asked.frames;
  if (like) {
    const CacheReader other(words[5]);
    asked.recipe = other.recipe();
    asked.cut = other.cut();
  }
  const Location location = locate(words[0]);
  if (!in_parts) write(location, asked, {}, 0, 1);
  for (std::uint32_t part = 0; part < asked.parts; ++part) write_part(location, asked, part);
  return 0;
}

}  // namespace
}  // namespace coldframe::cache

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, coldframe::cache::run);
}
