// make_cache FOLDER OUT: puts what a Python test wrote into a cache. FOLDER holds exams.json
// ({"dimension", "recipe", "float32", "exams": [{"id", "patient", "time_s", "present", "kind",
// "width", "height", "digest", "start", "columns", "frame_columns"}]}) and features.f32, the
// frames of all exams in order.
#include <fstream>
#include <iostream>

#include "cache/store/writer.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"

namespace {

using coldframe::Json;
namespace cache = coldframe::cache;

cache::ExamInfo exam_info(const Json& json, std::uint64_t ordinal) {
  cache::ExamInfo exam;
  exam.id = json.at("id");
  exam.patient = json.at("patient");
  exam.ordinal = ordinal;
  exam.source_kind = json.value("kind", "images");
  exam.frame_width = json.value("width", 64);
  exam.frame_height = json.value("height", 64);
  exam.start_time = json.value("start", cache::kUnknownTime);
  exam.elapsed_start = json.value("elapsed_start", cache::kUnknownTime);
  exam.source_stamp = "test";
  exam.source_digest = json.value("digest", "test");
  for (const Json& time : json.at("time_s")) {
    exam.time_s.push_back(time.is_null() ? cache::kUnknownTime : time.get<double>());
  }
  exam.present = json.at("present").get<std::vector<std::uint8_t>>();
  for (std::size_t t = 0; t < exam.present.size(); ++t) {
    exam.frame_index.push_back(json.contains("frame_index") ? json["frame_index"][t].get<int>()
                                                            : static_cast<int>(t));
    exam.frame_source.push_back("made");
  }
  for (const auto& [name, value] : json.at("columns").items()) {
    exam.columns.push_back({name, value.get<std::string>()});
  }
  const Json of_frames = json.value("frame_columns", Json::object());
  for (const auto& [name, values] : of_frames.items()) {
    exam.frame_columns.push_back({name, values.get<std::vector<std::string>>()});
  }
  return exam;
}

int make(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2) throw coldframe::ConfigError("usage: make_cache FOLDER OUT");
  const Json json = coldframe::read_json_file(arguments[0] + "/exams.json");
  std::ifstream values(arguments[0] + "/features.f32", std::ios::binary);
  const auto dimension = json.at("dimension").get<std::int64_t>();
  cache::Recipe recipe;
  recipe.features = json.at("recipe");
  recipe.storage = {{"frames", "all"}};
  cache::WriterOptions options;
  if (json.value("float32", false)) options.storage = coldframe::DType::kFp32;
  cache::ShardWriter writer(cache::locate(arguments[1]), recipe, dimension, options);
  std::uint64_t ordinal = 0;
  for (const Json& entry : json.at("exams")) {
    cache::ExamFeatures exam;
    exam.info = exam_info(entry, ordinal++);
    // With "views" in the JSON an exam's features are there once per view.
    for (const Json& view : json.value("views", Json::array({"clean"}))) {
      std::vector<float> features(exam.info.frames() * static_cast<std::size_t>(dimension));
      values.read(reinterpret_cast<char*>(features.data()),
                  static_cast<std::streamsize>(features.size() * sizeof(float)));
      if (!values) throw coldframe::DataError("features.f32 is too short");
      exam.views.push_back({view.get<std::string>(), std::move(features)});
    }
    writer.add(exam);
  }
  writer.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, make);
}
