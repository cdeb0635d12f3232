// The Python cross-checks need this of C++: it writes a cache and says which exams are
// acknowledged, prints one as JSON, puts a trailer behind a file, converts floats.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>

#include "cache/format/shard.h"
#include "cache/hdf5/file_writer.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/numbers/dtype.h"
#include "common/text/text.h"
#include "tests/cache/malformed.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

bool has_failure_at(const std::filesystem::path& path, std::uint64_t ordinal) {
  if (locate(path).files().empty()) return false;
  const CacheReader cache(path);
  return std::any_of(cache.failures().begin(), cache.failures().end(),
                     [&](const Failure& failure) { return failure.ordinal == ordinal; });
}

// write PATH FIRST END: one exam a shard; a line on stdout once an exam cannot be lost any more. At
// the end a failure, unless a job that was killed behind it left it there.
int write(const std::filesystem::path& path, std::uint64_t first, std::uint64_t end) {
  WriterOptions options;
  options.max_shard_exams = 1;
  std::uint64_t next = first;
  const Cut cut{2, {3, 5}};
  ShardWriter writer(locate(path), with_cut(make_recipe_with_thumbnails(), cut), 40, options);
  writer.on_published = [&](std::size_t exams) {
    for (std::size_t i = 0; i < exams; ++i) std::cout << next++ << std::endl;
  };
  for (std::uint64_t i = first; i < end; ++i) {
    ExamFeatures exam = make_exam(std::to_string(i), i, 2 + i % 6, 40, {"clean", "flip/1"});
    exam.info.columns.push_back({"größe/cm", i % 3 == 0 ? "" : std::to_string(150 + i)});
    exam.info.frame_columns = {{"phase", std::vector<std::string>(exam.info.frames(), "é")}};
    if (i % 4 == 1) exam.info.patient = "";
    add_thumbnails(exam);
    add_cut(exam, cut);
    writer.add(exam);
  }
  if (end > 0 && !has_failure_at(path, end))
    writer.add_failure({"broken", end, 0, "broken.gif", "cannot be decoded"});
  writer.finish();
  return 0;
}

Json numbers(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(json_number(value));
  return list;
}

int dump(const std::filesystem::path& path) {
  const CacheReader cache(path);
  Json list = Json::array();
  for (std::size_t i = 0; i < cache.exams().size(); ++i) {
    const ExamInfo& exam = cache.exams()[i];
    Json json = Json::object();
    json["id"] = exam.id;
    json["patient"] = exam.patient;
    json["ordinal"] = exam.ordinal;
    json["present"] = exam.present;
    json["time_s"] = exam.time_s;
    json["frame_index"] = exam.frame_index;
    json["frame_source"] = exam.frame_source;
    for (const ExamColumn& column : exam.columns) json["columns"][column.name] = column.value;
    for (const FrameColumn& column : exam.frame_columns)
      json["frame_columns"][column.name] = column.values;
    for (const std::string& view : cache.views())
      json["views"][view] = numbers(cache.features(i, view));
    for (std::size_t view = 0; cache.cut() && view < cache.views().size(); ++view) {
      std::vector<std::byte> rows(exam.frames() * cache.cut()->row_bytes());
      cache.read_cut(i, view, rows);
      json["cut"][cache.views()[view]] = numbers(values_of(*cache.cut(), rows));
    }
    json["thumbnails"] = Json::array();
    for (const std::string& file : cache.thumbnails(i))
      json["thumbnails"].push_back(to_hex(std::as_bytes(std::span(file))));
    list.push_back(std::move(json));
  }
  std::cout << list.dump() << '\n';
  return 0;
}

int seal(const std::filesystem::path& path) {
  write_bytes(path, sealed(read_bytes(path)));
  return 0;
}

// malform PATH SEED COPY: one malformed copy of a valid file.
int malform(const std::filesystem::path& path, std::uint64_t seed,
            const std::filesystem::path& copy) {
  write_bytes(copy, malformed(read_bytes(path), seed));
  return 0;
}

int halves() {
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  std::vector<float> floats(input.size() / sizeof(float));
  std::copy_n(input.data(), floats.size() * sizeof(float), reinterpret_cast<char*>(floats.data()));
  std::vector<std::uint16_t> converted(floats.size());
  to_half(floats, converted);
  // Not by std::cout, which shows bytes that are no text as escapes.
  std::fwrite(converted.data(), sizeof converted[0], converted.size(), stdout);
  return 0;
}

// stamped PATH (EXAM FILE)…: exams of these source files, and a failure.
int stamped(const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, std::vector<std::filesystem::path>>> exams;
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) {
    if (exams.empty() || exams.back().first != words[i]) exams.push_back({words[i], {}});
    exams.back().second.push_back(words[i + 1]);
  }
  ShardWriter writer(locate(words[1]), make_recipe(), 4, {});
  for (std::size_t i = 0; i < exams.size(); ++i) {
    ExamFeatures exam = make_exam(exams[i].first, i, 2, 4);
    exam.info.source_stamp = files_stamp(exams[i].second) + "/0123456789abcdef|0|0";
    writer.add(exam);
  }
  writer.add_failure({"broken", exams.size(), 0, "x.gif", "cannot be decoded"});
  writer.finish();
  return 0;
}

// pictured PATH EXAMS FILE…: exams whose frames have these files as thumbnails.
int pictured(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (std::size_t i = 3; i < words.size(); ++i) {
    const std::vector<std::byte> bytes = read_bytes(words[i]);
    files.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  ShardWriter writer(locate(words[1]), make_recipe_with_thumbnails(), 4, {});
  for (std::uint64_t i = 0; i < std::stoull(words[2]); ++i) {
    ExamFeatures exam = make_exam("e" + std::to_string(i), i, files.size(), 4);
    exam.thumbnails = files;
    for (std::size_t t = 0; t < files.size(); ++t)
      if (exam.info.present[t] == 0) exam.thumbnails[t].clear();
    writer.add(exam);
  }
  writer.finish();
  return 0;
}

// hold PATH EXAMS: stores so many exams and is at work until stdin ends.
int hold(const std::filesystem::path& path, std::uint64_t exams) {
  ShardWriter writer(locate(path), make_recipe(), 4, {});
  for (std::uint64_t i = 0; i < exams; ++i) writer.add(make_exam(std::to_string(i), i, 2, 4));
  writer.publish();
  std::cout << "ready" << std::endl;
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  if (exams > 0) writer.finish();
  return 0;
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 4 && words[0] == "write")
    return write(words[1], std::stoull(words[2]), std::stoull(words[3]));
  if (words.size() == 2 && words[0] == "dump") return dump(words[1]);
  if (words.size() == 2 && words[0] == "seal") return seal(words[1]);
  if (words.size() == 4 && words[0] == "malform")
    return malform(words[1], std::stoull(words[2]), words[3]);
  if (words.size() == 1 && words[0] == "halves") return halves();
  if (words.size() == 3 && words[0] == "hold") return hold(words[1], std::stoull(words[2]));
  if (words.size() > 2 && words[0] == "stamped") return stamped(words);
  if (words.size() > 3 && words[0] == "pictured") return pictured(words);
  throw ConfigError(
      "write PATH FIRST END | dump PATH | seal PATH | malform PATH SEED COPY | halves | "
      "hold PATH EXAMS | "
      "stamped PATH … | pictured PATH EXAMS FILE…");
}

}  // namespace
}  // namespace coldframe::cache

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, coldframe::cache::run);
}
